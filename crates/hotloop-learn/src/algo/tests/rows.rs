//! Rows, shards and sequences of minibatches, and whole networks.

use super::*;

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
