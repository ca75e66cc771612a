//! Known answers of the losses, and their two gradients against each other.

mod policy;
mod rows;
mod value;

use super::*;
use crate::{
    dist::{Deviation, HeadPart},
    net::{Activation, ActorCritic, MlpSpec},
    params::Params,
};
use hotloop_math::{Schedule, VTrace};
use std::sync::{Arc, LazyLock};
use tch::{Device, Kind, Tensor};

/// A minibatch of rows that differ in nothing but what a test sets.
fn batch(n: usize, actions: Tensor) -> Minibatch {
    let f = |x: f64| Tensor::full([n as i64], x, (Kind::Float, Device::Cpu));
    Minibatch {
        observations: Tensor::zeros([n as i64, 1], (Kind::Float, Device::Cpu)),
        actions,
        old_log_probs: f(0.0),
        old_values: f(0.0),
        advantages: f(0.0),
        targets: f(0.0),
        valid: Tensor::ones([n as i64], (Kind::Uint8, Device::Cpu)),
        masks: None,
        valid_count: n as f64,
        sequences: None,
    }
}

/// Loss, statistics, and gradients at head and values, by both implementations, which must agree.
fn both(
    algorithm: &dyn Algorithm,
    head: &HeadSpec,
    z: &[f32],
    v: &[f32],
    b: &Minibatch,
) -> (f64, Vec<f64>, Vec<f32>, Vec<f32>) {
    let cx = LossContext {
        head,
        batch: b,
        progress: Progress::default(),
    };
    let width = head.outputs();
    let outputs = Outputs {
        head: Tensor::from_slice(z)
            .view([-1, width as i64])
            .set_requires_grad(true),
        value: Tensor::from_slice(v).set_requires_grad(true),
        log_std: None,
    };
    let loss = algorithm.loss(&cx, &outputs).unwrap();
    let grads = Tensor::run_backward(
        &[&loss.total],
        &[&outputs.head, &outputs.value],
        false,
        false,
    );
    let flat = |t: &Tensor| Vec::<f32>::try_from(t.reshape([-1])).unwrap();
    let (gz, gv) = (flat(&grads[0]), flat(&grads[1]));
    let (mut hz, mut hv) = (vec![0.0; z.len()], vec![0.0; v.len()]);
    let rows = HeadRows {
        head: z,
        value: v,
        log_std: &[],
        width,
    };
    let into = HeadGrads {
        head: &mut hz,
        value: &mut hv,
        log_std: &mut [],
    };
    let stats = algorithm.host_gradient(&cx, rows, into).unwrap().unwrap();
    assert_eq!(stats.len(), algorithm.statistics().len());
    let theirs = loss.stat_values().unwrap();
    for (a, b) in stats.iter().zip(&theirs) {
        assert!(
            (a - b).abs() <= 1e-5 * b.abs().max(1.0),
            "{stats:?} {theirs:?}"
        );
    }
    for (a, b) in hz.iter().chain(&hv).zip(gz.iter().chain(&gv)) {
        assert!(
            (a - b).abs() < 1e-6 && a.is_finite(),
            "{hz:?} {gz:?} {hv:?} {gv:?}"
        );
    }
    (loss.total.double_value(&[]), stats, hz, hv)
}

fn policy_only() -> Ppo {
    Ppo {
        value_coef: 0.0,
        entropy_coef: Schedule::Constant(0.0),
        ..Ppo::default()
    }
}

static TWO: LazyLock<HeadSpec> = LazyLock::new(|| HeadSpec::categorical(2));

/// Every algorithm, with nothing but its policy term.
fn policy_terms() -> Vec<Box<dyn Algorithm>> {
    let none = Schedule::Constant(0.0);
    vec![
        Box::new(policy_only()),
        Box::new(Appo {
            value_coef: 0.0,
            entropy_coef: none,
            ..Appo::default()
        }),
        Box::new(A2c {
            value_coef: 0.0,
            entropy_coef: none,
            ..A2c::default()
        }),
        Box::new(Impala {
            value_coef: 0.0,
            entropy_coef: none,
            ..Impala::default()
        }),
    ]
}

/// A statistic by name.
fn stat(algorithm: &dyn Algorithm, stats: &[f64], name: &str) -> f64 {
    let names = algorithm.statistics();
    stats[names.iter().position(|n| *n == name).unwrap()]
}
