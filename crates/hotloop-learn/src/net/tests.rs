//! The two implementations against each other, and against finite differences.

use super::*;
use crate::objective::Loss;
use tch::Kind;

fn spec(shared: bool, activation: Activation, head: HeadSpec, hidden: &[usize]) -> MlpSpec {
    MlpSpec {
        inputs: 5,
        hidden: hidden.to_vec(),
        activation,
        shared,
        head,
        fast: true,
    }
}

fn all_specs() -> Vec<MlpSpec> {
    let mut specs = Vec::new();
    for shared in [false, true] {
        for activation in [Activation::Tanh, Activation::Relu] {
            for hidden in [vec![64, 64], vec![7], vec![33, 16, 8], vec![]] {
                for head in [HeadSpec::categorical(3), HeadSpec::gaussian(2)] {
                    specs.push(spec(shared, activation, head, &hidden));
                }
            }
        }
    }
    specs
}

/// Weights large enough that a wrong term shows, biases included.
fn weights(net: &ActorCritic) -> Params {
    let n = net.layout().total();
    let elements: Vec<f32> = (0..n)
        .map(|i| ((i * 37 % 101) as f32 / 101.0 - 0.5) * 0.8)
        .collect();
    Params::from_slice(Arc::clone(net.layout()), &elements, Device::Cpu).unwrap()
}

fn rows(n: i64) -> Tensor {
    Tensor::arange(n * 5, (Kind::Float, Device::Cpu))
        .sin()
        .view([n, 5])
}

/// A loss that touches every output nonlinearly.
fn loss(o: &Outputs) -> Result<Loss, LearnError> {
    let n = o.head.size()[0] as f64;
    let mut total = (o.head.square().sum(Kind::Float) + o.value.exp().sum(Kind::Float)) / n;
    if let Some(s) = &o.log_std {
        total += (s.exp() * &o.head).sum(Kind::Float) / n;
    }
    let stat = o.value.mean(Kind::Float);
    Ok(Loss::new(total, &[&stat]))
}

fn assert_close(a: &Tensor, b: &Tensor, what: &str) {
    assert_eq!(a.size(), b.size(), "{what}");
    if a.numel() > 0 {
        let worst = (a - b).abs().max().double_value(&[]);
        assert!(worst < 1e-5, "{what}: differ by {worst}");
    }
}

#[test]
fn fast_and_plain_agree_in_values_and_gradients() {
    for spec in all_specs() {
        let net = ActorCritic::new(spec.clone()).unwrap();
        let slow = ActorCritic::new(MlpSpec {
            fast: false,
            ..spec.clone()
        })
        .unwrap();
        let params = weights(&net);
        for n in [1, 130] {
            let x = rows(n);
            let (a, b) = (
                net.forward(&params, &x).unwrap(),
                slow.forward(&params, &x).unwrap(),
            );
            assert_close(&a.head, &b.head, &format!("head of {spec:?}"));
            assert_close(&a.value, &b.value, &format!("value of {spec:?}"));
            assert!(!a.head.requires_grad() && !b.value.requires_grad());
            let mut ga = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
            let mut gb = ga.duplicate();
            // Stale numbers must be overwritten, not added to.
            let _ = ga.flat().shallow_clone().fill_(7.0);
            let sa = net.gradient(&params, &x, None, &loss, &mut ga).unwrap();
            let sb = slow.gradient(&params, &x, None, &loss, &mut gb).unwrap();
            assert!((sa[0] - sb[0]).abs() < 1e-6);
            for (i, e) in net.layout().entries().iter().enumerate() {
                assert_close(ga.view(i), gb.view(i), &format!("{} of {spec:?}", e.name));
            }
        }
    }
}

#[test]
fn the_gradient_is_that_of_the_loss() {
    let net =
        ActorCritic::new(spec(true, Activation::Tanh, HeadSpec::categorical(3), &[9])).unwrap();
    let (params, x) = (weights(&net), rows(4));
    let mut grads = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
    net.gradient(&params, &x, None, &loss, &mut grads).unwrap();
    let (base, grads) = (params.to_vec().unwrap(), grads.to_vec().unwrap());
    let at = |i: usize, h: f32| {
        let mut e = base.clone();
        e[i] += h;
        let p = Params::from_slice(Arc::clone(net.layout()), &e, Device::Cpu).unwrap();
        loss(&net.forward(&p, &x).unwrap())
            .unwrap()
            .total
            .double_value(&[])
    };
    for i in (0..base.len()).step_by(5) {
        let slope = (at(i, 1e-2) - at(i, -1e-2)) / 2e-2;
        assert!(
            (slope - f64::from(grads[i])).abs() < 2e-3,
            "{i}: {slope} {}",
            grads[i]
        );
    }
}

#[test]
fn outputs_a_loss_ignores_give_zero_gradients() {
    let head = HeadSpec::gaussian(2);
    for fast in [false, true] {
        let s = MlpSpec {
            fast,
            ..spec(false, Activation::Tanh, head.clone(), &[8])
        };
        let net = ActorCritic::new(s).unwrap();
        let mut grads = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
        let _ = grads.flat().shallow_clone().fill_(7.0);
        let value_only = |o: &Outputs| Ok(Loss::new(o.value.sum(Kind::Float), &[]));
        net.gradient(&weights(&net), &rows(3), None, &value_only, &mut grads)
            .unwrap();
        for e in net.layout().entries() {
            let zero = grads.get(&e.name).unwrap().abs().max().double_value(&[]) == 0.0;
            let of_critic = e.name.starts_with("critic") || e.name.starts_with("value");
            assert_eq!(zero, !of_critic, "{} (fast: {fast})", e.name);
        }
    }
}

#[test]
fn strided_rows_fall_back_and_agree() {
    let net =
        ActorCritic::new(spec(true, Activation::Tanh, HeadSpec::categorical(3), &[8])).unwrap();
    let params = weights(&net);
    let wide = Tensor::arange(60, (Kind::Float, Device::Cpu))
        .sin()
        .view([6, 10]);
    let strided = wide.narrow(1, 2, 5);
    assert!(!strided.is_contiguous());
    let (a, b) = (
        net.forward(&params, &strided).unwrap(),
        net.forward(&params, &strided.contiguous()).unwrap(),
    );
    assert_close(&a.head, &b.head, "head");
}

#[test]
fn initial_weights_follow_the_seed_and_the_gains() {
    let s = spec(false, Activation::Tanh, HeadSpec::gaussian(3), &[64, 64]);
    let net = ActorCritic::new(s).unwrap();
    let hash = |seed| net.init(seed, Device::Cpu).unwrap().weights_hash().unwrap();
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
    let p = net.init(1, Device::Cpu).unwrap();
    for (name, gain) in [
        ("actor.1.weight", 2f64.sqrt()),
        ("policy.weight", 0.01),
        ("value.weight", 1.0),
    ] {
        let w = p.get(name).unwrap();
        let row = w.get(0).norm().double_value(&[]);
        assert!((row - gain).abs() < 1e-5, "{name}: {row}");
    }
    for name in ["actor.0.bias", "value.bias", "log_std"] {
        assert_eq!(
            p.get(name).unwrap().abs().max().double_value(&[]),
            0.0,
            "{name}"
        );
    }
    let differ = p.get("actor.0.weight").unwrap() - p.get("critic.0.weight").unwrap();
    assert!(
        differ.abs().max().double_value(&[]) > 0.1,
        "towers must not start equal"
    );
}

#[test]
fn wrong_inputs_and_specs_are_errors() {
    let good = spec(true, Activation::Tanh, HeadSpec::categorical(3), &[8]);
    let net = ActorCritic::new(good.clone()).unwrap();
    let wrong = net
        .forward(&weights(&net), &rows(5).view([1, 25]))
        .unwrap_err();
    assert!(
        wrong.to_string().contains("expected [n, 5], found [1, 25]"),
        "{wrong}"
    );
    let other = ActorCritic::new(MlpSpec {
        hidden: vec![9],
        ..good.clone()
    })
    .unwrap();
    assert!(net.forward(&weights(&other), &rows(2)).is_err());
    assert!(
        ActorCritic::new(MlpSpec {
            hidden: vec![8, 0],
            ..good.clone()
        })
        .is_err()
    );
    assert!(ActorCritic::new(MlpSpec { inputs: 0, ..good }).is_err());
}

#[test]
fn a_rows_outputs_do_not_depend_on_its_batch() {
    let head = HeadSpec::categorical(3);
    let net = ActorCritic::new(spec(false, Activation::Tanh, head, &[64, 33])).unwrap();
    let (params, x) = (weights(&net), rows(101));
    let whole = net.forward(&params, &x).unwrap();
    for n in [1, 7, 50] {
        let part = net.forward(&params, &x.narrow(0, 13, n)).unwrap();
        assert_eq!(part.head, whole.head.narrow(0, 13, n));
        assert_eq!(part.value, whole.value.narrow(0, 13, n));
    }
}

#[test]
fn networks_too_large_for_the_kernels_fall_back() {
    let head = HeadSpec::categorical(2);
    let net = ActorCritic::new(spec(true, Activation::Tanh, head, &[400, 400])).unwrap();
    let params = weights(&net);
    assert!(net.fast(&params, &rows(3), None).is_none());
    assert_eq!(net.forward(&params, &rows(3)).unwrap().head.size(), [3, 2]);
}
