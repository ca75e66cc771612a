//! The value error and its clip.

use super::*;

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
