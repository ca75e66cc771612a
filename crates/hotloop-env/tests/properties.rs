//! What must hold for any space, any observation and any place in a random stream.

#![allow(clippy::unwrap_used)] // Helpers of tests are not recognised as tests.

use hotloop_env::{
    BoxSpace, DType, Discrete, Element, EnvRng, FeaturePlan, ImageLayout, Layout, LeafId, LeafKind,
    MultiDiscrete, ObservationBuf, Philox, Space, Stream,
};
use proptest::prelude::*;

fn dtypes() -> impl Strategy<Value = DType> {
    prop::sample::select(vec![
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F32,
        DType::F64,
    ])
}

/// A box of up to three dimensions, some of them images, some of them empty.
fn boxes() -> impl Strategy<Value = Space> {
    let shape = prop::collection::vec(0usize..4, 0..4);
    (shape, dtypes(), any::<bool>(), any::<bool>()).prop_map(|(shape, dtype, image, last)| {
        let layout = if last {
            ImageLayout::Hwc
        } else {
            ImageLayout::Chw
        };
        Space::Box(BoxSpace {
            image: (image && shape.len() == 3).then_some(layout),
            shape,
            low: 0.0.into(),
            high: 100.0.into(),
            dtype,
        })
    })
}

fn leaves() -> impl Strategy<Value = Space> {
    let discrete = (1usize..6, -5i64..5, any::<bool>())
        .prop_map(|(n, start, masked)| Space::Discrete(Discrete { n, start, masked }));
    let multi = (
        prop::collection::vec((1usize..5, -5i64..5), 1..4),
        any::<bool>(),
    )
        .prop_map(|(dimensions, masked)| {
            let (sizes, start) = dimensions.into_iter().unzip();
            Space::MultiDiscrete(MultiDiscrete {
                sizes,
                start,
                masked,
            })
        });
    prop_oneof![
        boxes(),
        discrete,
        multi,
        (0usize..5).prop_map(Space::multi_binary)
    ]
}

fn spaces() -> impl Strategy<Value = Space> {
    leaves().prop_recursive(3, 12, 4, |inner| {
        let items = prop::collection::vec(inner, 0..4);
        prop_oneof![
            items.clone().prop_map(Space::Tuple),
            items.prop_map(|items| {
                let named = items.into_iter().enumerate();
                Space::dict(named.map(|(i, space)| (format!("k{i}"), space)))
            }),
        ]
    })
}

/// The elements of leaf `id`.
fn read<T: Element>(buf: &ObservationBuf, id: LeafId) -> Vec<f64> {
    buf.values::<T>(id).iter().map(|x| x.to_f64()).collect()
}

/// Small whole numbers, which every type can hold, another for each element.
fn numbers(n: usize, salt: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7 + salt) % 101) as f64).collect()
}

proptest! {
    #[test]
    fn leaves_are_aligned_and_do_not_overlap(space in spaces()) {
        for layout in [Layout::new(&space).unwrap(), Layout::of_actions(&space).unwrap()] {
            let mut end = 0;
            let mut mask = 0;
            for leaf in layout.leaves() {
                let bytes = leaf.bytes();
                prop_assert!(bytes.start >= end, "{leaf:?} begins before byte {end}");
                prop_assert_eq!(bytes.start % leaf.dtype.size(), 0);
                // So it is aligned in every record of a row, too.
                prop_assert_eq!(layout.record_bytes() % leaf.dtype.size(), 0);
                end = bytes.end;
                if let Some(offset) = leaf.mask_offset {
                    prop_assert_eq!(offset, mask);
                    mask += leaf.kind.choices().iter().sum::<usize>();
                }
                let id = layout.find(&leaf.path).unwrap();
                prop_assert_eq!(&layout.leaves()[id.index()], leaf);
            }
            prop_assert!(end <= layout.record_bytes());
            prop_assert_eq!(mask, layout.mask_bytes());
        }
    }

    #[test]
    fn what_is_written_is_read_back(space in spaces(), salt in 0usize..1000) {
        let layout = Layout::new(&space).unwrap();
        let mut buf = ObservationBuf::new(&layout);
        // Twice, so that a leaf that spills into its neighbour is found out.
        for _ in 0..2 {
            for (at, leaf) in layout.leaves().iter().enumerate() {
                let id = layout.find(&leaf.path).unwrap();
                let choices = leaf.kind.choices();
                let values: Vec<f64> = match leaf.kind {
                    LeafKind::Box(_) => numbers(leaf.elements, salt + at),
                    _ => (0..leaf.elements)
                        .map(|i| ((salt + i) % choices[i]) as f64 + leaf.kind.start(i) as f64)
                        .collect(),
                };
                buf.as_mut().leaf(id).write(&values).unwrap();
            }
        }
        for (at, leaf) in layout.leaves().iter().enumerate() {
            let id = layout.find(&leaf.path).unwrap();
            if let LeafKind::Box(_) = leaf.kind {
                let values = numbers(leaf.elements, salt + at);
                let seen = match leaf.dtype {
                    DType::U8 => read::<u8>(&buf, id),
                    DType::I8 => read::<i8>(&buf, id),
                    DType::I16 => read::<i16>(&buf, id),
                    DType::I32 => read::<i32>(&buf, id),
                    DType::I64 => read::<i64>(&buf, id),
                    DType::F32 => read::<f32>(&buf, id),
                    DType::F64 => read::<f64>(&buf, id),
                };
                prop_assert_eq!(seen, values);
            } else {
                let choices = leaf.kind.choices();
                for (i, &index) in buf.values::<i32>(id).iter().enumerate() {
                    prop_assert_eq!(index as usize, (salt + i) % choices[i]);
                }
            }
        }
    }

    #[test]
    fn features_are_all_written_and_within_their_bounds(space in spaces(), salt in 0usize..1000) {
        let layout = Layout::new(&space).unwrap();
        let mut buf = ObservationBuf::new(&layout);
        for (at, leaf) in layout.leaves().iter().enumerate() {
            if let LeafKind::Box(_) = leaf.kind {
                let id = layout.find(&leaf.path).unwrap();
                buf.as_mut().leaf(id).write(&numbers(leaf.elements, salt + at)).unwrap();
            }
        }
        let plan = FeaturePlan::new(&layout);
        let mut features = vec![f32::NAN; plan.features()];
        plan.encode(buf.record(), &mut features);
        let (low, high) = plan.bounds(&layout);
        prop_assert_eq!(low.len(), plan.features());
        for (i, &x) in features.iter().enumerate() {
            prop_assert!(low[i] as f32 <= x && x <= high[i] as f32 , "feature {i} is {x}");
        }
        if plan.is_plain() {
            let record: &[f32] = bytemuck::cast_slice(buf.record());
            prop_assert_eq!(record, &features[..]);
        }
    }

    #[test]
    fn a_stream_is_its_blocks_from_any_position(
        seed in any::<u64>(), lane in 0u64..1 << 56, from in 0u64..1 << 41, n in 1usize..12,
    ) {
        let philox = Philox::new(seed, Stream::Env);
        let mut rng = EnvRng::new(seed, lane, Stream::Env);
        rng.seek(from);
        for at in from..from + n as u64 {
            prop_assert_eq!(rng.position(), at);
            prop_assert_eq!(rng.next_u32(), philox.block(lane, at / 4)[at as usize % 4]);
        }
    }

    #[test]
    fn streams_of_other_seeds_lanes_and_uses_differ(seed in any::<u64>(), lane in 0u64..1 << 55, bit in 0u32..56) {
        let here = Philox::new(seed, Stream::Env).block(lane, 3);
        prop_assert_ne!(here, Philox::new(seed ^ 1 << bit, Stream::Env).block(lane, 3));
        prop_assert_ne!(here, Philox::new(seed, Stream::Action).block(lane, 3));
        prop_assert_ne!(here, Philox::new(seed, Stream::Env).block(lane ^ 1 << bit, 3));
        prop_assert_ne!(here, Philox::new(seed, Stream::Env).block(lane, 3 ^ 1 << (bit % 40)));
    }

    #[test]
    fn draws_below_n_are_below_n(seed in any::<u64>(), n in 1u64..) {
        let mut rng = EnvRng::new(seed, 0, Stream::Env);
        for _ in 0..8 {
            prop_assert!(rng.below(n) < n);
        }
    }
}
