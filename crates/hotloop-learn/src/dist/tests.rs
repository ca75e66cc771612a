//! The distributions' known answers, and the two faces against each other.

use super::*;
use crate::net::Outputs;
use tch::{Device, Kind, Tensor};

/// SplitMix64 uniform numbers in `[0, 1)`.
fn uniforms(seed: u64) -> impl FnMut() -> f32 {
    let mut s = seed;
    move || {
        s = s.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = s;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
    }
}

fn outputs(head: &[f32], width: i64, log_std: Option<&[f32]>) -> Outputs {
    let head = Tensor::from_slice(head).view([-1, width]);
    Outputs {
        value: Tensor::zeros([head.size()[0]], (Kind::Float, Device::Cpu)),
        head,
        log_std: log_std.map(Tensor::from_slice),
    }
}

/// Log-probability and entropy of one row.
struct Density {
    log_prob: f32,
    entropy: f32,
}

fn density(
    spec: &HeadSpec,
    row: &[f32],
    log_std: &[f32],
    mask: Option<&[u8]>,
    action: &[i32],
) -> Density {
    let d = spec.densities(row, log_std, mask, action).unwrap();
    Density {
        log_prob: d.log_prob[0],
        entropy: d.entropy[0],
    }
}

fn f32s(t: &Tensor) -> Vec<f32> {
    Vec::try_from(t.detach().reshape([-1])).unwrap()
}

fn close(a: f32, b: f32, tolerance: f32) {
    assert!((a - b).abs() <= tolerance, "{a} is not {b}");
}

#[test]
fn br_22_masks_are_exact_in_both_faces() {
    let spec = HeadSpec::categorical(3).masked();
    let (logits, mask) = ([0.0, 3f32.ln(), 5.0], [1u8, 1, 0]);
    let d = density(&spec, &logits, &[], Some(&mask), &[1]);
    close(d.entropy, 0.562_335, 1e-6);
    close(d.log_prob, -0.287_682, 1e-6);
    for (action, p) in [(0, 0.25f32), (1, 0.75), (2, 0.0)] {
        let d = density(&spec, &logits, &[], Some(&mask), &[action]);
        close(d.log_prob.exp(), p, 1e-6);
    }

    let mut o = outputs(&logits, 3, None);
    o.head = o.head.set_requires_grad(true);
    let (actions, m) = (
        Tensor::from_slice(&[1i32]).view([1, 1]),
        Tensor::from_slice(&mask).view([1, 3]),
    );
    let (lp, h) = spec.log_prob_entropy(&o, &actions, Some(&m)).unwrap();
    close(f32s(&lp)[0], -0.287_682, 1e-6);
    close(f32s(&h)[0], 0.562_335, 1e-6);
    let grad =
        f32s(&Tensor::run_backward(&[(&lp + &h).sum(Kind::Float)], &[&o.head], false, false)[0]);
    let mut by_hand = [9.0; 3];
    let action = &[1];
    let densities = spec.densities(&logits, &[], Some(&mask), action).unwrap();
    let wanted = DensityGrads {
        log_prob: &[1.0],
        entropy: &[1.0],
    };
    spec.densities_backward(
        &densities,
        &logits,
        &[],
        action,
        wanted,
        &mut by_hand,
        &mut [],
    );
    for (a, b) in grad.iter().zip(by_hand) {
        assert!(a.is_finite());
        close(*a, b, 1e-6);
    }
    assert_eq!(
        (grad[2], by_hand[2]),
        (0.0, 0.0),
        "the masked logit's gradient is exactly 0"
    );

    let (mut u, mut counts) = (uniforms(1), [0; 3]);
    for _ in 0..100_000 {
        let mut a = [0];
        let lp = spec
            .choose(Choice::Sample, &logits, &[], Some(&mask), &mut u, &mut a)
            .unwrap();
        counts[a[0] as usize] += 1;
        // Ratio 1 before the first step; without the mask it would be 0.026244.
        let again = density(&spec, &logits, &[], Some(&mask), &a);
        close((again.log_prob - lp).exp(), 1.0, 1e-6);
    }
    assert_eq!(counts[2], 0);
    close(counts[1] as f32 / 1e5, 0.75, 0.006);
    let unmasked = density(&spec, &logits, &[], None, &[1]).log_prob;
    close((unmasked - d.log_prob).exp(), 0.026_244, 1e-5);

    let only = [0u8, 1, 0];
    let one = density(&spec, &logits, &[], Some(&only), &[1]);
    assert_eq!((one.log_prob, one.entropy), (0.0, 0.0));
}

#[test]
fn br_22_a_mask_that_allows_nothing_is_an_error_naming_the_row() {
    let spec = HeadSpec::multi_categorical(&[2, 3]).masked();
    let (logits, mask) = ([0.0; 5], [1u8, 1, 0, 0, 0]);
    let mut a = [0, 0];
    let e = spec
        .choose(Choice::Greedy, &logits, &[], Some(&mask), || 0.5, &mut a)
        .unwrap_err();
    assert_eq!(e, DistError::NoValidAction { dimension: 1 });
    let two_rows = [1, 1, 1, 1, 1, 0, 0, 1, 0, 0];
    let e = spec.densities(&[0.0; 10], &[], Some(&two_rows), &[0; 4]);
    assert_eq!(
        e.unwrap_err(),
        (1, DistError::NoValidAction { dimension: 0 })
    );
    let o = outputs(&[0.0; 10], 5, None);
    let actions = Tensor::zeros([2, 2], (Kind::Int, Device::Cpu));
    let m = Tensor::from_slice(&[1u8, 1, 1, 1, 1, 1, 1, 0, 0, 0]).view([2, 5]);
    let e = spec
        .log_prob_entropy(&o, &actions, Some(&m))
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("row 1") && e.contains("dimension 1") && e.contains("allows no action"),
        "{e}"
    );
}

#[test]
fn br_22_masks_stay_with_their_rows_when_shuffled() {
    let spec = HeadSpec::categorical(2).masked();
    let o = outputs(&[0.0, 0.0, 0.0, 0.0], 2, None);
    let mask = Tensor::from_slice(&[1u8, 0, 0, 1]).view([2, 2]);
    let actions = Tensor::from_slice(&[0i32, 1]).view([2, 1]);
    let order = Tensor::from_slice(&[1i64, 0]);
    for (a, m) in [
        (actions.shallow_clone(), mask.shallow_clone()),
        (
            actions.index_select(0, &order),
            mask.index_select(0, &order),
        ),
    ] {
        let (lp, _) = spec.log_prob_entropy(&o, &a, Some(&m)).unwrap();
        assert_eq!(
            f32s(&lp),
            [0.0, 0.0],
            "each row's own mask leaves its own action alone"
        );
    }
}

#[test]
fn br_23_tanh_squash_is_corrected_and_stable() {
    let spec = HeadSpec::gaussian(1).squashed();
    let plain = HeadSpec::gaussian(1);
    for (u, normal, correction) in [
        (1.5f32, -2.043_939f32, -1.710_88f32),
        (20.0, -200.918_94, -38.613_706),
        (-20.0, -200.918_94, -38.613_706),
    ] {
        let bare = density(&plain, &[0.0], &[0.0], None, &[u.to_bits() as i32]);
        close(bare.log_prob, normal, 2e-5);
        let d = density(&spec, &[0.0], &[0.0], None, &[u.to_bits() as i32]);
        close(d.log_prob, normal - correction, 5e-5);
        assert_eq!(d.entropy, -d.log_prob);
        let mut o = outputs(&[0.0], 1, Some(&[0.0]));
        o.head = o.head.set_requires_grad(true);
        let action = Tensor::from_slice(&[u.to_bits() as i32]).view([1, 1]);
        let (lp, _) = spec.log_prob_entropy(&o, &action, None).unwrap();
        close(f32s(&lp)[0], d.log_prob, 2e-5);
        // Equal weights: the ratio is exactly 1 in each face.
        let (again, _) = spec.log_prob_entropy(&o, &action, None).unwrap();
        assert_eq!(f32s(&(again - &lp).exp()), [1.0]);
        let grad = f32s(&Tensor::run_backward(&[lp.sum(Kind::Float)], &[&o.head], false, false)[0]);
        close(grad[0], u, 1e-5);
    }
}

#[test]
fn br_25_multi_discrete_terms_are_summed_per_row() {
    let spec = HeadSpec::multi_categorical(&[2, 3]);
    let row = [0.0, 0.0, 0.2f32.ln(), 0.3f32.ln(), 0.5f32.ln()];
    let o = outputs(&row.repeat(5), 5, None);
    let actions = Tensor::from_slice(&[1i32, 2].repeat(5)).view([5, 2]);
    let (lp, h) = spec.log_prob_entropy(&o, &actions, None).unwrap();
    assert_eq!((lp.size(), h.size()), (vec![5], vec![5]));
    for (lp, h) in f32s(&lp).into_iter().zip(f32s(&h)) {
        close(lp, -1.386_294, 1e-6);
        close(h, 1.722_8, 1e-6);
    }
    let d = density(&spec, &row, &[], None, &[1, 2]);
    close(d.log_prob, -1.386_294, 1e-6);
    close(d.entropy, 1.722_8, 1e-6);
    let flat = actions.view([10, 1]);
    let e = spec
        .log_prob_entropy(&o, &flat, None)
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("actions: expected [5, 2] Int, found [10, 1] Int"),
        "{e}"
    );
}

/// A head of every kind of part.
fn composed() -> HeadSpec {
    HeadSpec::from_iter([
        HeadPart::Categorical {
            sizes: vec![3, 2],
            masked: true,
        },
        HeadPart::Gaussian {
            dim: 2,
            deviation: Deviation::State,
            squash: false,
        },
        HeadPart::Categorical {
            sizes: vec![4],
            masked: false,
        },
        HeadPart::Gaussian {
            dim: 3,
            deviation: Deviation::Free,
            squash: true,
        },
        HeadPart::Categorical {
            sizes: vec![5],
            masked: true,
        },
    ])
}

/// Rows, actions and masks of every kind of head: both faces agree in values and gradients.
#[test]
fn rust_and_tensors_agree() {
    let n = 40;
    for spec in [
        HeadSpec::categorical(2),
        HeadSpec::categorical(6).masked(),
        HeadSpec::multi_categorical(&[2, 5, 2]).masked(),
        HeadSpec::gaussian(3),
        HeadSpec::gaussian(3).squashed(),
        HeadSpec::from(HeadPart::Gaussian {
            dim: 3,
            deviation: Deviation::State,
            squash: true,
        }),
        composed(),
    ] {
        for masked in [false, spec.mask_len() > 0] {
            let (width, len, choices) = (spec.outputs(), spec.action_len(), spec.mask_len());
            let mut u = uniforms(5);
            // Some log deviations of the network are beyond their bound of 2.
            let head: Vec<f32> = (0..n * width).map(|_| u() * 6.0 - 3.0).collect();
            let log_std = &[0.3, -0.7, 0.0][..spec.log_std_dim().unwrap_or(0)];
            let mask: Vec<u8> = (0..n * choices)
                .map(|i| u8::from(i % choices % 2 == 0 || i % 3 == 0))
                .collect();
            let mut stored = vec![0i32; n * len];
            let (mut lps, mut d_head) = (vec![], vec![9f32; n * width]);
            let mut d_log_std = vec![0f32; log_std.len()];
            for r in 0..n {
                let row = &head[r * width..][..width];
                let mask = masked.then(|| &mask[r * choices..][..choices]);
                let action = &mut stored[r * len..][..len];
                let chosen = spec.choose(Choice::Sample, row, log_std, mask, &mut u, action);
                lps.push(chosen.unwrap());
            }
            let densities = spec
                .densities(&head, log_std, masked.then_some(&mask[..]), &stored)
                .unwrap();
            let at_log_prob: Vec<f32> = (0..n).map(|r| 0.7 + r as f32 * 0.01).collect();
            let wanted = DensityGrads {
                log_prob: &at_log_prob,
                entropy: &[-0.3; 40],
            };
            let (d, s) = (&mut d_head, &mut d_log_std);
            spec.densities_backward(&densities, &head, log_std, &stored, wanted, d, s);
            let mut o = outputs(&head, width as i64, spec.log_std_dim().map(|_| log_std));
            o.head = o.head.set_requires_grad(true);
            o.log_std = o.log_std.map(|t| t.set_requires_grad(true));
            let actions = Tensor::from_slice(&stored).view([n as i64, -1]);
            let mask = Tensor::from_slice(&mask).view([n as i64, choices as i64]);
            let (lp, h) = spec
                .log_prob_entropy(&o, &actions, masked.then_some(&mask))
                .unwrap();
            for (r, (t_lp, t_h)) in f32s(&lp).into_iter().zip(f32s(&h)).enumerate() {
                close(lps[r], t_lp, 2e-5);
                close(densities.log_prob[r], t_lp, 2e-5);
                close(densities.entropy[r], t_h, 2e-5);
            }
            let weight = Tensor::arange(n as i64, (Kind::Float, Device::Cpu)) * 0.01 + 0.7;
            let total = (lp * weight).sum(Kind::Float) - (h * 0.3).sum(Kind::Float);
            let mut leaves = vec![&o.head];
            leaves.extend(o.log_std.as_ref());
            let grads = Tensor::run_backward(&[total], &leaves, false, false);
            for (a, b) in f32s(&grads[0].reshape([-1])).into_iter().zip(&d_head) {
                close(a, *b, 1e-5 * a.abs().max(1.0));
            }
            for (a, b) in grads
                .get(1)
                .map(f32s)
                .unwrap_or_default()
                .into_iter()
                .zip(&d_log_std)
            {
                close(a, *b, 1e-4);
            }
        }
    }
}

#[test]
fn br_25_a_composed_actions_terms_are_the_sum_of_its_parts() {
    let spec = composed();
    let mut u = uniforms(3);
    let row: Vec<f32> = (0..spec.outputs()).map(|_| u() * 2.0 - 1.0).collect();
    let log_std = [0.3, -0.7, 0.0];
    let mask = [0, 1, 1, 1, 1, 1, 1, 0, 0, 0];
    let mut action = vec![0; spec.action_len()];
    let lp = spec
        .choose(
            Choice::Sample,
            &row,
            &log_std,
            Some(&mask),
            &mut u,
            &mut action,
        )
        .unwrap();
    assert!(action[0] != 0 && action[8] < 2, "{action:?}");
    let (mut sum, mut entropy) = (0.0, 0.0);
    let (mut at, mut word, mut choice) = (0, 0, 0);
    for part in spec.parts() {
        let alone = HeadSpec::from(part.clone());
        let d = density(
            &alone,
            &row[at..at + alone.outputs()],
            &log_std[..alone.log_std_dim().unwrap_or(0)],
            Some(&mask[choice..choice + alone.mask_len()]),
            &action[word..word + alone.action_len()],
        );
        sum += d.log_prob;
        entropy += d.entropy;
        at += alone.outputs();
        word += alone.action_len();
        choice += alone.mask_len();
    }
    close(lp, sum, 1e-5);
    let whole = density(&spec, &row, &log_std, Some(&mask), &action);
    close(whole.log_prob, sum, 1e-5);
    close(whole.entropy, entropy, 1e-5);
}

#[test]
fn br_22_a_composed_heads_faults_name_the_element_of_the_action() {
    let spec = composed();
    let (row, log_std) = (vec![0.0; spec.outputs()], [0.0; 3]);
    let mut action = vec![0; spec.action_len()];
    let mut mask = [1; 10];
    mask[5..].fill(0);
    let mut choose = |row: &[f32], mask: &[u8]| {
        spec.choose(
            Choice::Greedy,
            row,
            &log_std,
            Some(mask),
            || 0.5,
            &mut action,
        )
    };
    let nothing = Err(DistError::NoValidAction { dimension: 8 });
    assert_eq!(choose(&row, &mask), nothing);
    // The second mean of the squashed Gaussian.
    let mut bad = row.clone();
    bad[5 + 4 + 4 + 1] = f32::NAN;
    let not_finite = Err(DistError::NotFinite { dimension: 6 });
    assert_eq!(choose(&bad, &[1; 10]), not_finite);
    // A log deviation that the network gives.
    let mut bad = row;
    bad[5 + 2] = f32::NAN;
    let not_finite = Err(DistError::NotFinite { dimension: 2 });
    assert_eq!(choose(&bad, &[1; 10]), not_finite);
}

#[test]
fn greedy_takes_the_lowest_of_equals_and_the_mean() {
    let mut index = [9, 9];
    let spec = HeadSpec::multi_categorical(&[3, 2]);
    let row = [1.0, 2.0, 2.0, 0.5, 0.5];
    let no_draw = || -> f32 { panic!("greedy draws nothing") };
    spec.choose(Choice::Greedy, &row, &[], None, no_draw, &mut index)
        .unwrap();
    assert_eq!(index, [1, 0]);
    let (masked, mask) = (spec.masked(), [1, 0, 1, 0, 1]);
    masked
        .choose(Choice::Greedy, &row, &[], Some(&mask), no_draw, &mut index)
        .unwrap();
    assert_eq!(index, [2, 1]);
    let spec = HeadSpec::gaussian(2).squashed();
    let means = [0.3f32, -1.0];
    spec.choose(
        Choice::Greedy,
        &means,
        &[0.0, 0.0],
        None,
        no_draw,
        &mut index,
    )
    .unwrap();
    assert_eq!(index, means.map(|m| m.to_bits() as i32));
}

#[test]
fn samples_follow_their_distribution() {
    let mut u = uniforms(11);
    for logits in [
        vec![0.4f32, -0.8],
        vec![-0.8, 0.4],
        vec![0.0, 1.0, -1.0, 0.5],
    ] {
        let spec = HeadSpec::categorical(logits.len());
        let mut counts = vec![0.0f32; logits.len()];
        for _ in 0..100_000 {
            let mut a = [0];
            spec.choose(Choice::Sample, &logits, &[], None, &mut u, &mut a)
                .unwrap();
            counts[a[0] as usize] += 1e-5;
        }
        for (i, share) in counts.iter().enumerate() {
            let d = density(&spec, &logits, &[], None, &[i as i32]);
            close(*share, d.log_prob.exp(), 0.006);
        }
    }
    let spec = HeadSpec::gaussian(3);
    let (means, log_std) = ([1.0, -2.0, 0.0], [0.0, -1.0, 1.0f32]);
    let (mut sum, mut square) = ([0.0f64; 3], [0.0f64; 3]);
    for _ in 0..50_000 {
        let mut a = [0; 3];
        spec.choose(Choice::Sample, &means, &log_std, None, &mut u, &mut a)
            .unwrap();
        for i in 0..3 {
            let a = f32::from_bits(a[i] as u32);
            let z = f64::from((a - means[i]) / log_std[i].exp());
            sum[i] += z / 5e4;
            square[i] += z * z / 5e4;
        }
    }
    for i in 0..3 {
        assert!(
            sum[i].abs() < 0.02 && (square[i] - 1.0).abs() < 0.03,
            "{sum:?} {square:?}"
        );
    }
}

#[test]
fn extreme_uniforms_and_logits_stay_inside_the_distribution() {
    let spec = HeadSpec::categorical(3);
    let mut a = [9];
    // The third action cannot happen even for the largest uniform number.
    let row = [0.0, 0.0, -1e4];
    for (u, expected) in [
        (0.0, 0),
        (0.499, 0),
        (0.501, 1),
        (1.0 - f32::EPSILON / 2.0, 1),
    ] {
        spec.choose(Choice::Sample, &row, &[], None, || u, &mut a)
            .unwrap();
        assert_eq!(a[0], expected, "u = {u}");
    }
    let two = HeadSpec::categorical(2);
    for (row, expected) in [([1e4, -1e4], 0), ([-1e4, 1e4], 1)] {
        let lp = two
            .choose(Choice::Sample, &row, &[], None, || 0.5, &mut a)
            .unwrap();
        assert_eq!((a[0], lp), (expected, 0.0));
    }
    for bad in [f32::NAN, f32::INFINITY] {
        for spec in [HeadSpec::categorical(2), HeadSpec::categorical(3)] {
            let mut row = vec![0.0; spec.outputs()];
            row[1] = bad;
            let e = spec.choose(Choice::Sample, &row, &[], None, || 0.5, &mut a);
            assert_eq!(e, Err(DistError::NotFinite { dimension: 0 }));
        }
        let e = HeadSpec::gaussian(2).squashed().choose(
            Choice::Sample,
            &[0.0, bad],
            &[0.0; 2],
            None,
            || 0.5,
            &mut [0; 2],
        );
        assert_eq!(e, Err(DistError::NotFinite { dimension: 1 }));
    }
}
