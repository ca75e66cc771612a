//! Whole networks with a cell: both implementations, and rollouts against sequences.

use crate::{
    algo::Sequences,
    dist::HeadSpec,
    error::LearnError,
    net::{Activation, ActorCritic, CellKind, MlpSpec, NetworkSpec, Outputs, RecurrentSpec},
    objective::Loss,
    params::Params,
};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

const INPUTS: i64 = 5;

fn net(kind: CellKind, shared: bool, hidden: &[usize], fast: bool) -> ActorCritic {
    let spec = MlpSpec {
        inputs: INPUTS as usize,
        hidden: hidden.to_vec(),
        activation: Activation::Tanh,
        shared,
        head: HeadSpec::categorical(3),
        fast,
    };
    ActorCritic::new(NetworkSpec {
        recurrent: Some(RecurrentSpec { kind, hidden: 12 }),
        ..spec.into()
    })
    .unwrap()
}

fn wave(shape: [i64; 2], frequency: f64) -> Tensor {
    let n = shape[0] * shape[1];
    (Tensor::arange(n, (Kind::Float, Device::Cpu)) * frequency)
        .sin()
        .view(shape)
}

fn weights(net: &ActorCritic) -> Params {
    let n = net.layout().total();
    let elements: Vec<f32> = (0..n)
        .map(|i| ((i * 37 % 101) as f32 / 101.0 - 0.5) * 0.8)
        .collect();
    Params::from_slice(Arc::clone(net.layout()), &elements, Device::Cpu).unwrap()
}

/// `n` sequences with resets at their start, in their middle, and nowhere.
fn sequences(net: &ActorCritic, n: i64, length: i64) -> Sequences {
    let starts: Vec<u8> = (0..n * length)
        .map(|i| u8::from(i * i % 7 == 2 || i == 0))
        .collect();
    Sequences {
        length,
        starts: Tensor::from_slice(&starts),
        states: wave([n, net.state() as i64], 1.3),
    }
}

fn loss(o: &Outputs) -> Result<Loss, LearnError> {
    let n = o.head.size()[0] as f64;
    let total = (o.head.square().sum(Kind::Float) + o.value.exp().sum(Kind::Float)) / n;
    Ok(Loss::new(total, &[]))
}

#[track_caller]
fn assert_close(a: &Tensor, b: &Tensor, what: &str) {
    assert_eq!(a.size(), b.size(), "{what}");
    let worst = (a - b).abs().max().double_value(&[]);
    assert!(worst < 1e-5, "{what}: differ by {worst}");
}

#[test]
fn fast_and_plain_agree_over_sequences() {
    for kind in [CellKind::Lstm, CellKind::Gru] {
        for shared in [true, false] {
            for hidden in [&[][..], &[16], &[7, 33]] {
                let (net_, slow) = (
                    net(kind, shared, hidden, true),
                    net(kind, shared, hidden, false),
                );
                let params = weights(&net_);
                for (n, length) in [(1, 1), (3, 7), (60, 4)] {
                    let what = format!("{kind:?}, shared {shared}, {hidden:?}, {n}×{length}");
                    let (x, s) = (wave([n * length, INPUTS], 0.7), sequences(&net_, n, length));
                    let a = net_.unroll(&params, &x, &s).unwrap();
                    let b = slow.unroll(&params, &x, &s).unwrap();
                    assert_close(&a.head, &b.head, &what);
                    assert_close(&a.value, &b.value, &what);
                    let mut ga = Params::zeros(Arc::clone(net_.layout()), Device::Cpu);
                    let mut gb = ga.duplicate();
                    let _ = ga.flat().shallow_clone().fill_(7.0);
                    net_.gradient(&params, &x, Some(&s), &loss, &mut ga)
                        .unwrap();
                    slow.gradient(&params, &x, Some(&s), &loss, &mut gb)
                        .unwrap();
                    for (i, e) in net_.layout().entries().iter().enumerate() {
                        assert_close(ga.view(i), gb.view(i), &format!("{} of {what}", e.name));
                    }
                }
            }
        }
    }
}

#[test]
fn br_30_the_re_forward_over_sequences_is_what_acting_said_step_by_step() {
    for (fast, tolerance) in [(true, 0.0), (false, 1e-6)] {
        for kind in [CellKind::Lstm, CellKind::Gru] {
            let net = net(kind, false, &[16], fast);
            let (params, (n, length)) = (weights(&net), (50, 6));
            let (x, s) = (wave([n * length, INPUTS], 0.7), sequences(&net, n, length));
            let whole = net.unroll(&params, &x, &s).unwrap();
            let mut states = s.states.copy();
            for t in 0..length {
                let index = Tensor::arange(n, (Kind::Int64, Device::Cpu)) * length + t;
                let starts = s.starts.index_select(0, &index).not_equal(0).unsqueeze(1);
                let before = states.masked_fill(&starts, 0.0);
                let (step, after) = net
                    .step(&params, &x.index_select(0, &index), &before)
                    .unwrap();
                for (step, whole) in [(&step.head, &whole.head), (&step.value, &whole.value)] {
                    let differ = (step - whole.index_select(0, &index)).abs().max();
                    assert!(differ.double_value(&[]) <= tolerance, "{kind:?}, step {t}");
                }
                states = after;
            }
        }
    }
}

#[test]
fn names_are_those_of_a_torch_module_and_misuse_is_refused() {
    let net = net(CellKind::Lstm, true, &[8], true);
    let names: Vec<_> = net
        .layout()
        .entries()
        .iter()
        .map(|e| (&e.name[..], &e.shape[..]))
        .collect();
    assert_eq!(
        names[2..6],
        [
            ("trunk.core.weight_ih_l0", &[48, 8][..]),
            ("trunk.core.weight_hh_l0", &[48, 12][..]),
            ("trunk.core.bias_ih_l0", &[48][..]),
            ("trunk.core.bias_hh_l0", &[48][..]),
        ]
    );
    assert_eq!(net.state(), 24);
    let (params, x) = (net.init(1, Device::Cpu).unwrap(), wave([4, INPUTS], 0.7));
    let error = net.forward(&params, &x).unwrap_err().to_string();
    assert!(error.contains("without a past"), "{error}");
    assert!(net.step(&params, &x, &wave([4, 23], 1.0)).is_err());
    assert!(net.unroll(&params, &x, &sequences(&net, 2, 3)).is_err());
}
