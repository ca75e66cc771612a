//! Batches in place, staged and in bf16; and bodies that keep what they are shown.

use super::*;
use crate::{
    dist::{Deviation, HeadPart, HeadSpec},
    net::{
        Activation, Body, CellKind, Encoder, ImageNet, Mlp, NetworkSpec, ParamBuilder,
        RecurrentSpec, Views,
    },
};
use hotloop_env::{FeatureSpec, ImageLayout, Layout, Space, Stacks};
use hotloop_math::RunningMoments;
use std::sync::{Arc, Mutex};

const LANES: usize = 5;

fn network(observation: &Layout, recurrent: Option<CellKind>, fast: bool) -> ActorCritic {
    let top = Mlp {
        hidden: vec![16],
        activation: Activation::Tanh,
    };
    let image = observation.leaves().len() > 1;
    ActorCritic::new(NetworkSpec {
        inputs: FeatureSpec::new(observation),
        body: match image {
            true => Arc::new(Encoder {
                image: Some(ImageNet::Small),
                top,
            }),
            false => Arc::new(top),
        },
        recurrent: recurrent.map(|kind| RecurrentSpec { kind, hidden: 8 }),
        shared: false,
        head: HeadSpec::from_iter([
            HeadPart::Categorical {
                sizes: vec![3],
                masked: false,
            },
            HeadPart::Gaussian {
                dim: 2,
                deviation: Deviation::Free,
                squash: false,
            },
        ]),
        fast,
    })
    .unwrap()
}

/// A plain vector, and a vector with an image.
fn layouts() -> [Layout; 2] {
    let vector = Space::unbounded(&[3]);
    let image = Space::image([6, 6, 2], ImageLayout::Hwc);
    [
        Layout::new(&vector).unwrap(),
        Layout::new(&Space::dict([("a", image), ("b", vector)])).unwrap(),
    ]
}

/// Records whose numbers are all between −1 and 1, or bytes.
fn records(layout: &Layout, n: usize, turn: usize) -> Vec<f32> {
    // Words of three bytes and an exponent of about 1 serve as both.
    let words = n * layout.record_bytes() / 4;
    (0..words)
        .map(|i| ((i * 7 + turn * 13) as f32 * 0.61).sin())
        .collect()
}

/// All that `turns` batches are told, with standardization in every other, and the states that are left.
fn said(mut evaluator: Evaluator, layout: &Layout, params: &Params, lanes: &Lanes<'_>) -> Vec<f32> {
    let width = evaluator.net.state();
    let store = (width > 0).then(|| StateStore::new(LANES + 2, width, Device::Cpu).unwrap());
    let features = FeaturePlan::new(layout).features();
    let means = (0..features).map(|i| (i as f64).sin() * 0.1).collect();
    let moments = RunningMoments::from_parts(9, means, vec![3.0; features]).unwrap();
    let standardizer = Standardizer::new(&moments, 1e-8, 5.0);
    let mut all = vec![];
    for turn in 0..6 {
        let n = lanes.iter().count();
        let rows = records(layout, n, turn);
        let flags = |k: usize| (0..n).map(|i| u8::from((turn + i) % k == 0)).collect();
        let (starts, keep): (Vec<u8>, Vec<u8>) = (flags(3), flags(2));
        let valued = turn == 4;
        let mut before = vec![0.0; if turn % 2 == 0 { n * width } else { 0 }];
        let past = store.as_ref().map(|store| Past {
            store,
            lanes: lanes.clone(),
            starts: &starts,
            keep: (!valued).then_some(&keep[..]),
            before: &mut before,
        });
        let standardizer = (turn % 2 == 1).then_some(&standardizer);
        let seen = Stacks::single(layout, bytemuck::cast_slice(&rows));
        evaluator
            .evaluate(params, standardizer, seen, past, n, valued)
            .unwrap();
        all.extend_from_slice(&evaluator.values);
        if !valued {
            all.extend_from_slice(&evaluator.head);
            all.extend_from_slice(&evaluator.log_std);
        }
        all.extend(before);
    }
    all.extend(store.iter().flat_map(|store| store.save().unwrap()));
    all
}

fn evaluator(net: &ActorCritic, layout: &Layout, staged: bool) -> Evaluator {
    let mut evaluator = Evaluator::new(net.clone(), FeaturePlan::new(layout));
    evaluator.transfer = Transfer::new(staged, Arc::default());
    evaluator
}

#[test]
fn staged_batches_are_told_the_same() {
    for layout in &layouts() {
        for recurrent in [None, Some(CellKind::Gru), Some(CellKind::Lstm)] {
            for fast in [true, false] {
                let net = network(layout, recurrent, fast);
                let params = net.init(3, Device::Cpu).unwrap();
                for lanes in [Lanes::Run(1..LANES), Lanes::Each(&[6, 0, 3])] {
                    let here = said(evaluator(&net, layout, false), layout, &params, &lanes);
                    let there = said(evaluator(&net, layout, true), layout, &params, &lanes);
                    assert_eq!(here, there, "{recurrent:?} {fast} {lanes:?}");
                }
            }
        }
    }
}

#[test]
fn bf16_is_told_nearly_the_same() {
    for layout in &layouts() {
        let net = network(layout, None, true);
        let params = net.init(3, Device::Cpu).unwrap();
        let rounded = params.rounded(Kind::BFloat16);
        let lanes = Lanes::Run(0..LANES);
        let exact = said(evaluator(&net, layout, false), layout, &params, &lanes);
        for staged in [false, true] {
            let near = said(evaluator(&net, layout, staged), layout, &rounded, &lanes);
            let differences = near.iter().zip(&exact).map(|(a, b)| (a - b).abs());
            let largest = differences.fold(0.0, f32::max);
            // 8 bits of mantissa, through a few layers of numbers of about 1.
            assert!(largest > 0.0 && largest < 0.04, "{largest}");
        }
    }
}

/// Keeps all rows that it is shown.
#[derive(Debug, Default)]
struct Hoarder(Mutex<Vec<Tensor>>);

impl Body for Hoarder {
    fn build(
        &self,
        inputs: &FeatureSpec,
        params: &mut ParamBuilder<'_>,
    ) -> Result<usize, LearnError> {
        params.linear("hidden", inputs.len(), 4, 1.0);
        Ok(4)
    }

    fn forward(
        &self,
        _: &FeatureSpec,
        params: &Views<'_>,
        x: &Tensor,
    ) -> Result<Tensor, LearnError> {
        self.0.lock().unwrap().push(x.shallow_clone());
        params.linear("hidden", x)
    }
}

#[test]
fn rows_that_a_body_keeps_stay_as_they_were() {
    for layout in &layouts() {
        let hoarder = Arc::new(Hoarder::default());
        let net = ActorCritic::new(NetworkSpec {
            inputs: FeatureSpec::new(layout),
            body: hoarder.clone(),
            recurrent: None,
            shared: true,
            head: HeadSpec::categorical(2),
            fast: true,
        })
        .unwrap();
        let params = net.init(3, Device::Cpu).unwrap();
        let mut evaluator = evaluator(&net, layout, false);
        let (plan, n) = (FeaturePlan::new(layout), 4);
        let mut rows = records(layout, n, 0);
        let mut expected = vec![0.0; n * plan.features()];
        let seen = Stacks::single(layout, bytemuck::cast_slice(&rows));
        encode(&plan, None, seen, &mut vec![], &mut expected);
        for turn in 0..2 {
            // The second batch is written over the first.
            rows.copy_from_slice(&records(layout, n, turn));
            let seen = Stacks::single(layout, bytemuck::cast_slice(&rows));
            evaluator
                .evaluate(&params, None, seen, None, n, false)
                .unwrap();
        }
        let kept = hoarder.0.lock().unwrap();
        assert_eq!(kept.len(), 2);
        assert_eq!(
            Vec::<f32>::try_from(kept[0].flatten(0, 1)).unwrap(),
            expected
        );
        assert_ne!(kept[0], kept[1]);
    }
}
