//! Known answers of the losses, and their two gradients against each other.

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

#[test]
fn the_plain_policy_gradient_by_hand() {
    // p = [0.75, 0.25]; both actions once, advantages 2 and -1, two rows:
    // loss = -(2 ln 0.75 - ln 0.25) / 2, slopes -A ([j = a] - p) / 2.
    let mut b = batch(2, Tensor::from_slice(&[0i32, 1]).view([2, 1]));
    b.advantages = Tensor::from_slice(&[2f32, -1.0]);
    // The ratios to the rollout's policy are 3 and 0.5.
    b.old_log_probs = Tensor::from_slice(&[0.25f32.ln(), 0.5f32.ln()]);
    let z = [3f32.ln(), 0.0].repeat(2);
    for algorithm in &policy_terms()[2..] {
        let (loss, stats, gz, gv) = both(&**algorithm, &TWO, &z, &[5.0; 2], &b);
        assert!((loss - (0.25f64.ln() / 2.0 - 0.75f64.ln())).abs() < 1e-6);
        for (found, expected) in gz.iter().zip([-0.25, 0.25, -0.375, 0.375]) {
            assert!((found - expected).abs() < 1e-6, "{gz:?}");
        }
        assert_eq!(gv, [0.0, 0.0]);
        let k3 = (2.0 - 3f64.ln() - 0.5 - 0.5f64.ln()) / 2.0;
        assert!((stat(&**algorithm, &stats, "approx_kl") - k3).abs() < 1e-6);
        if algorithm.reevaluates() {
            assert!((stat(&**algorithm, &stats, "rho_mean") - 1.75).abs() < 1e-6);
            assert_eq!(stat(&**algorithm, &stats, "rho_clipped"), 0.5);
        }
    }
}

#[test]
fn appo_has_ppos_loss_and_an_advantage_without_a_weight() {
    let mut b = batch(3, Tensor::from_slice(&[0i32, 1, 0]).view([3, 1]));
    b.advantages = Tensor::from_slice(&[1f32, -1.0, 0.3]);
    b.old_log_probs = Tensor::from_slice(&[-1.5f32, -0.2, -0.7]);
    b.targets = Tensor::from_slice(&[1f32, 0.0, -1.0]);
    let appo = Appo {
        vtrace: VTrace {
            rho_clip: 1.05,
            ..VTrace::default()
        },
        ..Appo::default()
    };
    let z = [0.4f32, 0.0, 0.0, 0.9, -0.3, 0.1];
    let (loss, stats, gz, gv) = both(&Ppo::default(), &TWO, &z, &[0.1, 0.2, 0.3], &b);
    let (loss2, stats2, gz2, gv2) = both(&appo, &TWO, &z, &[0.1, 0.2, 0.3], &b);
    assert_eq!((loss, &stats[..], gz, gv), (loss2, &stats2[..5], gz2, gv2));
    assert!(stat(&appo, &stats2, "rho_clipped") > 0.3);

    let log_ratios = [2f32.ln()];
    let rows = Rows::new(1, &[3.0], &[1.0, 4.0], &[0], &[1; 2]).with_log_ratios(&log_ratios);
    let (mut advantage, mut target) = ([0.0], [0.0]);
    appo.estimate(&rows, &mut advantage, &mut target);
    let surprise = 3.0 + 0.99 * 4.0 - 1.0;
    assert!((advantage[0] - surprise).abs() < 1e-5, "{advantage:?}");
    assert!(
        (target[0] - (1.0 + 1.05 * surprise)).abs() < 1e-5,
        "{target:?}"
    );
    Impala::default().estimate(&rows, &mut advantage, &mut target);
    assert!(
        (advantage[0] - surprise).abs() < 1e-5,
        "weight 2 is clipped to 1"
    );
}

#[test]
fn br_07_the_ratio_does_not_overflow() {
    // One action in all: its log-prob is 0, so old = -100 makes the log-ratio 100.
    for (advantage, expected) in [(1.0, -1.2), (0.0, 0.0), (-1.0, 4.851_652e8)] {
        let mut b = batch(1, Tensor::zeros([1, 1], (Kind::Int, Device::Cpu)));
        b.old_log_probs = Tensor::from_slice(&[-100f32]);
        b.advantages = Tensor::from_slice(&[advantage as f32]);
        for clipped in &policy_terms()[..2] {
            let (loss, _, gz, _) = both(&**clipped, &TWO, &[200.0, 0.0], &[0.0], &b);
            assert!(
                (loss - expected).abs() <= 1e-4 * f64::abs(expected),
                "{advantage}: {loss}"
            );
            assert!(advantage < 1.0 || gz == [0.0, 0.0]);
        }
        for plain in &policy_terms()[2..] {
            // ln π = 0 there, and nothing of the ratio comes in.
            let (loss, stats, ..) = both(&**plain, &TWO, &[200.0, 0.0], &[0.0], &b);
            assert_eq!(loss, 0.0);
            assert!(stats.iter().all(|s| s.is_finite()), "{stats:?}");
        }
    }
    let mut b = batch(1, Tensor::ones([1, 1], (Kind::Int, Device::Cpu)));
    b.advantages = Tensor::from_slice(&[1f32]);
    // log-ratio -100: the ratio vanishes and stays finite.
    for clipped in &policy_terms()[..2] {
        let (loss, ..) = both(&**clipped, &TWO, &[100.0, 0.0], &[0.0], &b);
        assert!(loss.abs() < 1e-37);
    }
}

#[test]
fn br_07_a_nan_log_prob_stays_visible() {
    let mut b = batch(1, Tensor::zeros([1, 1], (Kind::Int, Device::Cpu)));
    b.old_log_probs = Tensor::from_slice(&[f32::NAN]);
    b.advantages = Tensor::from_slice(&[1f32]);
    let cx = LossContext {
        head: &TWO,
        batch: &b,
        progress: Progress::default(),
    };
    let z = Tensor::zeros([1, 2], (Kind::Float, Device::Cpu));
    let v = Tensor::zeros([1], (Kind::Float, Device::Cpu));
    let outputs = Outputs {
        head: z,
        value: v,
        log_std: None,
    };
    assert!(
        policy_only()
            .loss(&cx, &outputs)
            .unwrap()
            .total
            .double_value(&[])
            .is_nan()
    );
    let (mut gz, mut gv) = ([0.0; 2], [0.0]);
    let rows = HeadRows {
        head: &[0.0, 0.0],
        value: &[0.0],
        log_std: &[],
        width: 2,
    };
    let into = HeadGrads {
        head: &mut gz,
        value: &mut gv,
        log_std: &mut [],
    };
    let stats = policy_only()
        .host_gradient(&cx, rows, into)
        .unwrap()
        .unwrap();
    assert!(stats[0].is_nan() && gz[0].is_nan());
}

#[test]
fn br_21_normalized_advantages_enter_both_branches() {
    // Ratios [2, 2], normalized advantages [-1, 1], clip 0.2: 0.5 (2 - 1.2) = 0.4.
    let mut b = batch(2, Tensor::zeros([2, 1], (Kind::Int, Device::Cpu)));
    b.old_log_probs = Tensor::full([2], 0.25f64.ln(), (Kind::Float, Device::Cpu));
    b.advantages = Tensor::from_slice(&[-1f32, 1.0]);
    let (loss, stats, ..) = both(&policy_only(), &TWO, &[0.0; 4], &[0.0; 2], &b);
    assert!((loss - 0.4).abs() < 1e-6, "{loss}");
    // k3: (2 - 1) - ln 2, and every ratio outside the clip.
    assert!(
        (stats[3] - (1.0 - 2f64.ln())).abs() < 1e-6 && stats[4] == 1.0,
        "{stats:?}"
    );
}

#[test]
fn br_25_the_loss_of_equal_rows_is_that_of_one_and_ranks_must_match() {
    let head = HeadSpec::multi_categorical(&[2, 3]);
    let z = [0.0, 0.0, 0.2f32.ln(), 0.3f32.ln(), 0.5f32.ln()];
    let ppo = Ppo {
        value_coef: 0.0,
        ..Ppo::default()
    };
    let mut losses = vec![];
    for n in [1, 5] {
        let mut b = batch(n, Tensor::from_slice(&[1i32, 2].repeat(n)).view([-1, 2]));
        b.old_log_probs = Tensor::full([n as i64], -1.3, (Kind::Float, Device::Cpu));
        b.advantages = b.advantages.fill(0.7);
        losses.push(both(&ppo, &head, &z.repeat(n), &vec![0.0; n], &b).0);
        b.old_log_probs = b.old_log_probs.unsqueeze(1);
        let e = b.check(&head).unwrap_err().to_string();
        assert!(
            e.contains(&format!(
                "old log-probs: expected [{n}] Float, found [{n}, 1]"
            )),
            "{e}"
        );
        let cx = LossContext {
            head: &head,
            batch: &b,
            progress: Progress::default(),
        };
        let outputs = Outputs {
            head: Tensor::from_slice(&z.repeat(n)).view([-1, 5]),
            value: Tensor::zeros([n as i64], (Kind::Float, Device::Cpu)),
            log_std: None,
        };
        assert!(ppo.loss(&cx, &outputs).is_err());
    }
    assert!((losses[0] - losses[1]).abs() < 1e-6, "{losses:?}");
}

#[test]
fn br_26_the_entropy_bonus_raises_entropy() {
    let (value_coef, entropy_coef) = (0.0, Schedule::Constant(1.0));
    let algorithms: [Box<dyn Algorithm>; 4] = [
        Box::new(Ppo {
            value_coef,
            entropy_coef,
            ..Ppo::default()
        }),
        Box::new(Appo {
            value_coef,
            entropy_coef,
            ..Appo::default()
        }),
        Box::new(A2c {
            value_coef,
            entropy_coef,
            ..A2c::default()
        }),
        Box::new(Impala {
            value_coef,
            entropy_coef,
            ..Impala::default()
        }),
    ];
    let mut b = batch(1, Tensor::zeros([1, 1], (Kind::Int, Device::Cpu)));
    b.old_log_probs = Tensor::from_slice(&[-0.313_262f32]);
    let z = [1.0f32, 0.0];
    for algorithm in &algorithms {
        let (_, stats, gz, _) = both(&**algorithm, &TWO, &z, &[0.0], &b);
        assert!(
            (stats[2] - 0.582_203).abs() < 1e-6,
            "logged entropy is positive: {stats:?}"
        );
        let after = [z[0] - gz[0], z[1] - gz[1]];
        assert!(
            (after[0] - 0.803_388).abs() < 1e-5 && (after[1] - 0.196_612).abs() < 1e-5,
            "{after:?}"
        );
        let (_, stats, ..) = both(&**algorithm, &TWO, &after, &[0.0], &b);
        assert!((stats[2] - 0.649_160).abs() < 1e-6, "{stats:?}");
    }
}

#[test]
fn br_28_value_clipping_takes_the_larger_error_around_the_stored_value() {
    let mut b = batch(1, Tensor::zeros([1, 1], (Kind::Int, Device::Cpu)));
    b.old_values = Tensor::from_slice(&[1f32]);
    b.targets = Tensor::from_slice(&[2f32]);
    for (value_clip, expected, slope) in [(None, 0.125, -0.5), (Some(0.2), 0.32, 0.0)] {
        let ppo = Ppo {
            value_coef: 1.0,
            value_clip,
            ..policy_only()
        };
        let (loss, stats, _, gv) = both(&ppo, &TWO, &[0.0, 0.0], &[1.5], &b);
        assert!(
            (loss - expected).abs() < 1e-6 && (stats[1] - expected).abs() < 1e-6,
            "{loss}"
        );
        assert!((gv[0] - slope).abs() < 1e-6);
    }
}

#[test]
fn br_28_inside_the_clip_rounding_does_not_take_the_slope() {
    // `old + (value - old)` is not `value` to the bit where the signs differ.
    let n = 64usize;
    let at = |i: usize| 0.001 + 0.003 * i as f32;
    let values: Vec<f32> = (0..n).map(at).collect();
    let old: Vec<f32> = values.iter().map(|v| -1.0 - 4.3 * v).collect();
    let mut b = batch(n, Tensor::zeros([n as i64, 1], (Kind::Int, Device::Cpu)));
    b.old_values = Tensor::from_slice(&old);
    b.targets = Tensor::full([n as i64], 7.0, (Kind::Float, Device::Cpu));
    let ppo = Ppo {
        value_coef: 1.0,
        value_clip: Some(5.0),
        ..policy_only()
    };
    let (.., gv) = both(&ppo, &TWO, &vec![0.0; 2 * n], &values, &b);
    for (slope, value) in gv.iter().zip(values) {
        assert!((slope * n as f32 - (value - 7.0)).abs() < 1e-5, "{gv:?}");
    }
}

#[test]
fn invalid_rows_enter_nothing_even_when_they_hold_nan() {
    let head = HeadSpec::categorical(2).masked();
    let actions = |n| Tensor::zeros([n, 1], (Kind::Int, Device::Cpu));
    let mut one = batch(1, actions(1));
    one.advantages = one.advantages.fill(0.5);
    one.masks = Some(Tensor::ones([1, 2], (Kind::Uint8, Device::Cpu)));
    let mut two = batch(2, actions(2));
    two.valid_count = 1.0;
    two.valid = Tensor::from_slice(&[1u8, 0]);
    two.advantages = Tensor::from_slice(&[0.5f32, f32::NAN]);
    two.old_log_probs = Tensor::from_slice(&[0f32, f32::NAN]);
    two.targets = Tensor::from_slice(&[0f32, f32::NAN]);
    two.masks = Some(Tensor::from_slice(&[1u8, 1, 0, 0]).view([2, 2]));
    let ppo = Ppo::default();
    let (loss, stats, gz, gv) = both(&ppo, &head, &[0.3, -0.1], &[0.7], &one);
    let (loss2, stats2, gz2, gv2) = both(&ppo, &head, &[0.3, -0.1, 1.0, 2.0], &[0.7, 9.0], &two);
    assert_eq!((loss, stats), (loss2, stats2));
    assert_eq!((&gz2[..2], &gz2[2..]), (&gz[..], &[0.0, 0.0][..]));
    assert_eq!((gv2[0], gv2[1]), (gv[0], 0.0));
}

/// Whole networks, every head: hand-written and autograd gradients agree, and shards add up.
#[test]
fn gradients_agree_and_shards_add_up() {
    for head in [
        HeadSpec::categorical(2),
        HeadSpec::categorical(5).masked(),
        HeadSpec::multi_categorical(&[3, 2]).masked(),
        HeadSpec::gaussian(2),
        HeadSpec::gaussian(2).squashed(),
        HeadSpec::from_iter([
            HeadPart::Categorical {
                sizes: vec![2],
                masked: false,
            },
            HeadPart::Gaussian {
                dim: 2,
                deviation: Deviation::State,
                squash: false,
            },
        ]),
    ] {
        let discrete = |part: &HeadPart| matches!(part, HeadPart::Categorical { .. });
        let choices = head.parts().filter(|p| discrete(p)).count();
        let spec = |fast| MlpSpec {
            inputs: 3,
            hidden: vec![16],
            activation: Activation::Tanh,
            shared: false,
            head: head.clone(),
            fast,
        };
        let net = ActorCritic::new(spec(true)).unwrap();
        let slow = ActorCritic::new(spec(false)).unwrap();
        let params = net.init(3, Device::Cpu).unwrap();
        let n = 48i64;
        let noise = |k: i64, f: f64| (Tensor::arange(n * k, (Kind::Float, Device::Cpu)) * f).sin();
        // Choices first, then the bits of real numbers.
        let len = head.action_len() as i64;
        let discrete = Tensor::arange(n * len, (Kind::Int, Device::Cpu))
            .remainder(2)
            .view([n, len]);
        let real = noise(len, 1.7).view([n, len]).view_dtype(Kind::Int);
        let first = if choices > 0 && choices < head.parts().count() {
            1
        } else {
            len * choices as i64
        };
        let actions = Tensor::cat(
            &[
                discrete.narrow(1, 0, first),
                real.narrow(1, first, len - first),
            ],
            1,
        );
        let mut b = batch(n as usize, actions);
        b.observations = noise(3, 0.9).view([n, 3]);
        b.advantages = noise(1, 2.3);
        b.targets = noise(1, 0.4);
        b.old_log_probs = noise(1, 1.1) * 0.3 - if choices > 0 { 1.0 } else { 2.5 };
        b.valid = Tensor::arange(n, (Kind::Int, Device::Cpu))
            .remainder(5)
            .ne(3)
            .to_kind(Kind::Uint8);
        b.valid_count = b.valid.sum(Kind::Float).double_value(&[]);
        if head.mask_len() > 0 {
            let width = head.mask_len() as i64;
            // The first two of each dimension stay allowed; the rest vary.
            let mask = Tensor::ones([n, width], (Kind::Uint8, Device::Cpu));
            let _ = mask
                .narrow(0, 0, 7)
                .select(1, width - 1)
                .fill_(i64::from(width == 5 && head.action_len() == 2));
            b.masks = (width > 2).then_some(mask);
        }
        let algorithms: [&dyn Algorithm; 4] = [
            &Ppo {
                value_clip: Some(0.3),
                ..Ppo::default()
            },
            &Appo::default(),
            &A2c::default(),
            &Impala::default(),
        ];
        let gradient = |algorithm: &dyn Algorithm, net: &ActorCritic, b: &Minibatch| {
            let cx = LossContext {
                head: &head,
                batch: b,
                progress: Progress::default(),
            };
            let mut g = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
            let bound = BoundLoss { algorithm, cx };
            let stats = net
                .gradient(&params, &b.observations, None, &bound, &mut g)
                .unwrap();
            (g.flat().copy(), Tensor::from_slice(&stats))
        };
        for by in algorithms {
            let (g, stats) = gradient(by, &net, &b);
            let (gs, stats_s) = gradient(by, &slow, &b);
            let (a, c) = (
                gradient(by, &net, &b.slice(0, 20)),
                gradient(by, &net, &b.slice(20, 28)),
            );
            for (x, y) in [
                (&g, &gs),
                (&stats, &stats_s),
                (&g, &(a.0 + c.0)),
                (&stats, &(a.1 + c.1)),
            ] {
                let worst = (x - y).abs().max().double_value(&[]);
                assert!(worst < 1e-5, "{} of {head:?}: {worst}", by.name());
            }
            assert!(g.abs().max().double_value(&[]) > 1e-3);
        }
    }
}

#[test]
fn rows_are_selected_together() {
    let mut b = batch(3, Tensor::from_slice(&[0i32, 1, 0]).view([3, 1]));
    b.advantages = Tensor::from_slice(&[1f32, 2.0, 3.0]);
    b.masks = Some(Tensor::from_slice(&[1u8, 1, 0, 1, 1, 0]).view([3, 2]));
    let picked = b.select(&Tensor::from_slice(&[2i64, 1]));
    assert_eq!(picked.rows(), 2);
    assert_eq!(picked.advantages.double_value(&[0]), 3.0);
    assert_eq!(picked.actions.int64_value(&[1, 0]), 1);
    assert_eq!(picked.masks.as_ref().unwrap().int64_value(&[1, 0]), 0);
    assert_eq!((b.units(), b.unit()), (3, 1));
    b.valid_count = 0.0;
    assert!(
        b.check(&TWO.clone().masked())
            .unwrap_err()
            .to_string()
            .contains("valid row count is 0")
    );
}

#[test]
fn sequences_are_selected_whole() {
    let mut b = batch(6, Tensor::zeros([6, 1], (Kind::Int, Device::Cpu)));
    b.advantages = Tensor::arange(6, (Kind::Float, Device::Cpu));
    b.sequences = Some(Sequences {
        length: 2,
        starts: Tensor::from_slice(&[0u8, 1, 0, 0, 1, 0]),
        states: Tensor::arange(3, (Kind::Float, Device::Cpu)).view([3, 1]),
    });
    b.check(&TWO).unwrap();
    assert_eq!((b.rows(), b.units(), b.unit()), (6, 3, 2));
    let flat = |t: &Tensor| Vec::<f32>::try_from(t.to_kind(Kind::Float).reshape([-1])).unwrap();
    for (picked, rows, starts, states) in [
        (
            b.select(&Tensor::from_slice(&[2i64, 0])),
            [4.0, 5.0, 0.0, 1.0],
            [1.0, 0.0, 0.0, 1.0],
            [2.0, 0.0],
        ),
        (
            b.slice(1, 2),
            [2.0, 3.0, 4.0, 5.0],
            [0.0, 0.0, 1.0, 0.0],
            [1.0, 2.0],
        ),
    ] {
        picked.check(&TWO).unwrap();
        assert_eq!(flat(&picked.advantages), rows);
        assert_eq!(picked.observations.size(), [4, 1]);
        let sequences = picked.sequences.unwrap();
        assert_eq!(flat(&sequences.starts), starts);
        assert_eq!(flat(&sequences.states), states);
    }
    b.sequences.as_mut().unwrap().length = 4;
    let error = b.check(&TWO).unwrap_err().to_string();
    assert!(error.contains("[6 rows / 4 each, 1]"), "{error}");
}
