//! The policy terms, their ratios and the entropy bonus.

use super::*;

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

    // The ratio, and how much of the surprise enters the target and IMPALA's advantage.
    for (ratio, into_target, into_impala) in [(2f32, 1.05, 1.0), (0.5, 0.5, 0.5)] {
        let log_ratios = [ratio.ln()];
        let rows = Rows::new(1, &[3.0], &[1.0, 4.0], &[0], &[1; 2]).with_log_ratios(&log_ratios);
        let (mut advantage, mut target) = ([0.0], [0.0]);
        appo.estimate(&rows, &mut advantage, &mut target);
        let surprise = 3.0 + 0.99 * 4.0 - 1.0;
        assert!((advantage[0] - surprise).abs() < 1e-5, "{advantage:?}");
        let expected = 1.0 + into_target * surprise;
        assert!((target[0] - expected).abs() < 1e-5, "{target:?}");
        Impala::default().estimate(&rows, &mut advantage, &mut target);
        let expected = into_impala * surprise;
        assert!((advantage[0] - expected).abs() < 1e-5, "{advantage:?}");
    }
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
