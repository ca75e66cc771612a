//! From observation records to what a network reads: one `f32` vector per record.
//!
//! This is the only place where observations are scaled, reordered or one-hot encoded, so that none
//! of it can happen twice or not at all.

use crate::{BoxSpace, DType, Element, ImageLayout, Layout, LeafKind, Spaces, Stacks};
use std::ops::Range;

/// How the records of a [`Layout`] become network features.
///
/// The features of all leaves follow each other in leaf order:
///
/// - a box is cast to `f32`, element by element, and never scaled, but for the next line;
/// - 8-bit images are divided by 255. An image is a `uint8` box that says that it is one (unless its
///   bounds are 0 and 1: planes of bits), or one whose bounds are 0 and 255 throughout. Images of
///   floats are taken to be scaled already;
/// - images that are stored channels last come out channels first. Which is which is part of the
///   space ([`ImageLayout`]), never guessed from the shape;
/// - a choice is one-hot, counted from the space's `start`; bits are 0 or 1;
/// - an empty box has no features;
/// - the features of [stacked](Spaces::stacked) frames follow each other, the oldest frame's first.
///
/// ```
/// use hotloop_env::{FeaturePlan, ImageLayout, Layout, ObservationBuf, Space};
///
/// let space = Space::dict([
///     ("camera", Space::image([1, 1, 2], ImageLayout::Hwc)),
///     ("mode", Space::discrete(3)),
/// ]);
/// let layout = Layout::new(&space)?;
/// let mut observation = ObservationBuf::new(&layout);
/// observation.as_mut().key("camera").unwrap().write(&[255u8, 51]).unwrap();
/// observation.as_mut().key("mode").unwrap().write_discrete(1).unwrap();
///
/// let plan = FeaturePlan::new(&layout);
/// let mut features = vec![0.0; plan.features()];
/// plan.encode(observation.record(), &mut features);
/// assert_eq!(features, [1.0, 0.2, 0.0, 1.0, 0.0]);
/// # Ok::<(), hotloop_env::SpaceError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FeaturePlan {
    parts: Vec<Part>,
    /// Features of one record.
    features: usize,
    /// Records that are seen at once.
    stack: usize,
    /// Whether a record is its feature vector.
    plain: bool,
}

/// One leaf's way from bytes to features.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    bytes: Range<usize>,
    dtype: DType,
    code: Code,
    features: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Code {
    /// Elements as they are stored, divided by `divisor`.
    Cast { divisor: f32 },
    /// Pixels stored channels last, which come out channels first.
    ChannelsLast { channels: usize, divisor: f32 },
    /// One one-hot vector for each choice.
    OneHot { sizes: Vec<usize> },
}

impl FeaturePlan {
    /// The plan for records of this layout.
    pub fn new(layout: &Layout) -> Self {
        let parts: Vec<Part> = layout
            .leaves()
            .iter()
            .map(|leaf| {
                let (code, features) = match &leaf.kind {
                    LeafKind::Box(b) => (code_of_box(b), leaf.elements),
                    LeafKind::MultiBinary(_) => (Code::Cast { divisor: 1.0 }, leaf.elements),
                    LeafKind::Discrete(_) | LeafKind::MultiDiscrete(_) => {
                        let sizes = leaf.kind.choices();
                        let features = sizes.iter().sum();
                        (Code::OneHot { sizes }, features)
                    }
                };
                Part {
                    bytes: leaf.bytes(),
                    dtype: leaf.dtype,
                    code,
                    features,
                }
            })
            .collect();
        Self {
            features: parts.iter().map(|part| part.features).sum(),
            // Leaves of four-byte floats follow each other without gaps.
            plain: parts
                .iter()
                .all(|part| part.dtype == DType::F32 && part.code == Code::Cast { divisor: 1.0 }),
            stack: 1,
            parts,
        }
    }

    /// The plan for what a policy sees of these spaces: records, or stacks of them.
    pub fn of(spaces: &Spaces) -> Self {
        Self {
            stack: spaces.stack,
            ..Self::new(&spaces.observation)
        }
    }

    /// The number of features of one observation, with all of its frames.
    pub fn features(&self) -> usize {
        self.features * self.stack
    }

    /// Whether an observation is one record that already is its feature vector, bit for bit, so that a row
    /// of the slab can be read as a `[lanes, features]` matrix without a copy.
    pub fn is_plain(&self) -> bool {
        self.plain && self.stack == 1
    }

    /// The least and the greatest value of every feature of one record, for observations within their bounds.
    pub fn bounds(&self, layout: &Layout) -> (Vec<f64>, Vec<f64>) {
        let (mut low, mut high) = (vec![0.0; self.features], vec![1.0; self.features]);
        let mut start = 0;
        for (part, leaf) in self.parts.iter().zip(layout.leaves()) {
            if let LeafKind::Box(b) = &leaf.kind {
                for i in 0..part.features {
                    let (to, divisor) = part.place(i);
                    low[start + to] = b.low.at(i) / divisor;
                    high[start + to] = b.high.at(i) / divisor;
                }
            }
            start += part.features;
        }
        (low, high)
    }

    /// Writes the features of `observations` of `stacks`, which are of this plan's spaces, one after the
    /// other. Panics if `out` is not as long as that.
    pub fn encode_stacks(&self, stacks: &Stacks<'_>, observations: Range<usize>, out: &mut [f32]) {
        assert_eq!(
            out.len(),
            observations.len() * self.features(),
            "the place for the features of some observations"
        );
        stacks.for_each(observations, self.features, out, |record, place| {
            self.encode(record, place);
        });
    }

    /// Writes the features of one record: an observation, or one frame of it. Panics if `record` is not of
    /// the plan's layout or `out` is not as long as the features of one record.
    pub fn encode(&self, record: &[u8], out: &mut [f32]) {
        assert_eq!(
            out.len(),
            self.features,
            "the place for the features of one record"
        );
        if self.plain {
            bytemuck::cast_slice_mut(out)
                .copy_from_slice(&record[..self.features * size_of::<f32>()]);
            return;
        }
        let mut rest = out;
        for part in &self.parts {
            let (here, after) = rest.split_at_mut(part.features);
            part.encode(&record[part.bytes.clone()], here);
            rest = after;
        }
    }
}

fn code_of_box(space: &BoxSpace) -> Code {
    let every = |low: f64, high: f64| {
        (0..space.elements()).all(|i| space.low.at(i) == low && space.high.at(i) == high)
    };
    let pixels = space.dtype == DType::U8
        && (every(0.0, 255.0) || space.image.is_some() && !every(0.0, 1.0));
    let divisor = if pixels { 255.0 } else { 1.0 };
    match (space.image, space.shape.as_slice()) {
        (Some(ImageLayout::Hwc), &[_, _, channels]) if channels > 1 => {
            Code::ChannelsLast { channels, divisor }
        }
        _ => Code::Cast { divisor },
    }
}

impl Part {
    /// Which feature element `i` of a box becomes, and what it is divided by.
    fn place(&self, i: usize) -> (usize, f64) {
        match self.code {
            Code::ChannelsLast { channels, divisor } => {
                let pixels = self.features / channels;
                (i % channels * pixels + i / channels, divisor as f64)
            }
            Code::Cast { divisor } => (i, divisor as f64),
            Code::OneHot { .. } => (i, 1.0),
        }
    }

    fn encode(&self, bytes: &[u8], out: &mut [f32]) {
        match &self.code {
            Code::OneHot { sizes } => one_hot(bytemuck::cast_slice(bytes), sizes, out),
            Code::Cast { .. } | Code::ChannelsLast { .. } => match self.dtype {
                DType::U8 => self.numbers::<u8>(bytes, out),
                DType::I8 => self.numbers::<i8>(bytes, out),
                DType::I16 => self.numbers::<i16>(bytes, out),
                DType::I32 => self.numbers::<i32>(bytes, out),
                DType::I64 => self.numbers::<i64>(bytes, out),
                DType::F32 => self.numbers::<f32>(bytes, out),
                DType::F64 => self.numbers::<f64>(bytes, out),
            },
        }
    }

    fn numbers<T: Element>(&self, bytes: &[u8], out: &mut [f32]) {
        let values: &[T] = bytemuck::cast_slice(bytes);
        match self.code {
            Code::ChannelsLast { channels, divisor } => {
                let pixels = values.len() / channels;
                for (channel, plane) in out.chunks_exact_mut(pixels.max(1)).enumerate() {
                    for (pixel, to) in plane.iter_mut().enumerate() {
                        *to = values[pixel * channels + channel].to_f32() / divisor;
                    }
                }
            }
            Code::Cast { divisor } => {
                for (to, value) in out.iter_mut().zip(values) {
                    *to = value.to_f32() / divisor;
                }
            }
            Code::OneHot { .. } => unreachable!("choices are encoded by one_hot"),
        }
    }
}

fn one_hot(indices: &[i32], sizes: &[usize], out: &mut [f32]) {
    out.fill(0.0);
    let mut start = 0;
    for (&index, &size) in indices.iter().zip(sizes) {
        // Writing an observation checks it against its space.
        out[start..start + size][index as usize] = 1.0;
        start += size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bound, Discrete, MultiDiscrete, ObservationBuf, Space};

    fn layout(space: Space) -> Layout {
        Layout::new(&space).unwrap()
    }

    fn features(space: Space, write: impl FnOnce(&mut ObservationBuf)) -> Vec<f32> {
        let layout = layout(space);
        let mut buf = ObservationBuf::new(&layout);
        write(&mut buf);
        let plan = FeaturePlan::new(&layout);
        let mut out = vec![f32::NAN; plan.features()];
        plan.encode(buf.record(), &mut out);
        out
    }

    fn image(dtype: DType, high: f64, layout: ImageLayout) -> Space {
        Space::Box(BoxSpace {
            shape: vec![2, 2, 3],
            low: Bound::Uniform(0.0),
            high: Bound::Uniform(high),
            dtype,
            image: Some(layout),
        })
    }

    #[test]
    fn br_41_an_image_with_channels_last_comes_out_channels_first_and_scaled_once() {
        let pixels: Vec<u8> = (0..12)
            .map(|i| 100 * (i / 6) + 10 * (i / 3 % 2) + i % 3)
            .collect();
        let expected =
            [0, 10, 100, 110, 1, 11, 101, 111, 2, 12, 102, 112].map(|p| p as f32 / 255.0);
        let got = features(image(DType::U8, 255.0, ImageLayout::Hwc), |buf| {
            buf.as_mut().write(&pixels).unwrap();
        });
        assert_eq!(got, expected);

        let brightest = features(Space::image([1, 1, 1], ImageLayout::Chw), |buf| {
            buf.as_mut().write(&[255u8]).unwrap();
        });
        assert_eq!(brightest, [1.0]);
    }

    #[test]
    fn br_41_floats_and_bit_planes_are_not_divided() {
        let values: Vec<f32> = (0..12).map(|i| i as f32 / 11.0).collect();
        let floats = features(image(DType::F32, 1.0, ImageLayout::Chw), |buf| {
            buf.as_mut().write(&values).unwrap();
        });
        assert_eq!(floats, values);
        let bits = features(image(DType::U8, 1.0, ImageLayout::Chw), |buf| {
            buf.as_mut().write(&[1u8; 12]).unwrap();
        });
        assert_eq!(bits, [1.0; 12]);
    }

    #[test]
    fn br_38_choices_are_one_hot_from_their_start() {
        let one = |value| {
            let space = Space::Discrete(Discrete {
                n: 19,
                start: 2,
                masked: false,
            });
            let got = features(space, |buf| buf.as_mut().write_discrete(value).unwrap());
            assert_eq!((got.len(), got.iter().sum::<f32>()), (19, 1.0));
            got.iter().position(|&x| x == 1.0).unwrap()
        };
        assert_eq!((one(2), one(20)), (0, 18));

        let multi = Space::MultiDiscrete(MultiDiscrete {
            sizes: vec![2, 3],
            start: vec![5, -3],
            masked: false,
        });
        let got = features(Space::Tuple(vec![multi, Space::multi_binary(2)]), |buf| {
            buf.as_mut().key("0").unwrap().write(&[6i64, -3]).unwrap();
            buf.as_mut().key("1").unwrap().write(&[0u8, 1]).unwrap();
        });
        assert_eq!(got, [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn br_43_an_empty_key_has_no_features() {
        let space = Space::dict([
            ("none", Space::unbounded(&[0])),
            ("x", Space::unbounded(&[2])),
        ]);
        let got = features(space, |buf| {
            buf.as_mut()
                .key("x")
                .unwrap()
                .write(&[1.5f64, -2.0])
                .unwrap();
        });
        assert_eq!(got, [1.5, -2.0]);
    }

    #[test]
    fn a_record_of_floats_is_its_own_feature_vector() {
        let plain = |space| FeaturePlan::new(&layout(space)).is_plain();
        assert!(plain(Space::unbounded(&[3])));
        assert!(plain(Space::dict([
            ("a", Space::unbounded(&[3])),
            ("b", Space::unbounded(&[1]))
        ])));
        assert!(!plain(Space::image([1, 2, 2], ImageLayout::Chw)));
        assert!(!plain(Space::discrete(3)));
        assert!(!plain(image(DType::F32, 1.0, ImageLayout::Hwc)));

        let both = Space::dict([("a", Space::unbounded(&[2])), ("b", Space::unbounded(&[1]))]);
        let got = features(both, |buf| {
            buf.as_mut()
                .key("a")
                .unwrap()
                .write(&[1.0f32, 2.0])
                .unwrap();
            buf.as_mut().key("b").unwrap().write(&[3.0f32]).unwrap();
        });
        assert_eq!(got, [1.0, 2.0, 3.0]);
    }
}
