//! Diagonal Gaussian on one row of means, with and without a tanh squash.
//!
//! The change of variables of the squash is log(1 − tanh²u) = 2 (ln 2 − u − softplus(−2u)), which
//! stays finite where 1 − tanh²u underflows (Haarnoja et al. 2018, appendix C, in the form of
//! TensorFlow Probability).

use super::{Choice, DistError};
use std::f32::consts::{LN_2, TAU};

/// ln √(2π)
const HALF_LN_TAU: f32 = 0.918_938_5;

/// Log deviations that the network gives lie within these bounds (Haarnoja et al. 2018, in their code).
pub(super) const LOG_STD: std::ops::RangeInclusive<f32> = -20.0..=2.0;

/// Means, and as many log deviations.
#[derive(Clone, Copy)]
pub(super) struct Outputs<'a> {
    pub(super) means: &'a [f32],
    pub(super) log_std: &'a [f32],
    /// Whether the network gave the log deviations, which then are bounded.
    pub(super) bounded: bool,
}

impl Outputs<'_> {
    #[inline]
    fn log_std(&self, i: usize) -> f32 {
        if self.bounded {
            self.log_std[i].clamp(*LOG_STD.start(), *LOG_STD.end())
        } else {
            self.log_std[i]
        }
    }

    /// Whether the log deviation follows what the network gives.
    fn is_free(&self, i: usize) -> bool {
        !self.bounded || LOG_STD.contains(&self.log_std[i])
    }
}

/// log(1 − tanh²u)
#[inline]
fn log_slope(u: f32) -> f32 {
    // softplus(x) = max(x, 0) + ln(1 + exp(−|x|)) with x = −2u
    let softplus = (-2.0 * u).max(0.0) + (-2.0 * u.abs()).exp().ln_1p();
    2.0 * (LN_2 - u - softplus)
}

/// What the distribution says about one action, summed over dimensions.
#[derive(Clone, Copy, Default)]
pub(super) struct Density {
    pub(super) log_prob: f32,
    pub(super) entropy: f32,
}

#[inline]
pub(super) fn choose(
    choice: Choice,
    outputs: Outputs<'_>,
    squash: bool,
    mut uniform: impl FnMut() -> f32,
    action: &mut [f32],
) -> Result<f32, DistError> {
    let means = outputs.means;
    assert_eq!(
        means.len(),
        outputs.log_std.len(),
        "one log deviation per mean"
    );
    assert_eq!(means.len(), action.len(), "one action element per mean");
    let mut spare = None;
    for (i, (a, mean)) in action.iter_mut().zip(means).enumerate() {
        *a = *mean;
        if choice == Choice::Sample {
            // Box–Muller; 1 − u lies in (0, 1], so that the logarithm is finite.
            let normal = spare.take().unwrap_or_else(|| {
                let radius = (-2.0 * (1.0 - uniform()).ln()).sqrt();
                let (sin, cos) = (TAU * uniform()).sin_cos();
                spare = Some(radius * sin);
                radius * cos
            });
            *a += outputs.log_std(i).exp() * normal;
        }
    }
    let log_prob = density(outputs, squash, action).log_prob;
    if log_prob.is_finite() {
        return Ok(log_prob);
    }
    let finite = |i: &usize| means[*i].is_finite() && outputs.log_std(*i).exp().is_normal();
    let dimension = (0..means.len()).find(|i| !finite(i)).unwrap_or(0);
    Err(DistError::NotFinite { dimension })
}

#[inline]
pub(super) fn density(outputs: Outputs<'_>, squash: bool, action: &[f32]) -> Density {
    let mut d = Density::default();
    for (i, (a, mean)) in action.iter().zip(outputs.means).enumerate() {
        let log_std = outputs.log_std(i);
        let z = (a - mean) * (-log_std).exp();
        d.log_prob += -0.5 * z * z - log_std - HALF_LN_TAU;
        d.entropy += 0.5 + HALF_LN_TAU + log_std;
        if squash {
            d.log_prob -= log_slope(*a);
        }
    }
    if squash {
        d.entropy = -d.log_prob;
    }
    d
}

/// The gradients are added. The squash's correction depends on the stored sample alone and has none. The pair holds
/// the loss's gradients at the log-probability and at the entropy.
#[inline]
pub(super) fn backward(
    outputs: Outputs<'_>,
    squash: bool,
    action: &[f32],
    (at_log_prob, at_entropy): (f32, f32),
    d_means: &mut [f32],
    d_log_std: &mut [f32],
) {
    let (at_log_prob, at_entropy) = if squash {
        (at_log_prob - at_entropy, 0.0)
    } else {
        (at_log_prob, at_entropy)
    };
    for (i, (a, mean)) in action.iter().zip(outputs.means).enumerate() {
        let inverse = (-outputs.log_std(i)).exp();
        let z = (a - mean) * inverse;
        d_means[i] += at_log_prob * z * inverse;
        if outputs.is_free(i) {
            d_log_std[i] += at_log_prob * (z * z - 1.0) + at_entropy;
        }
    }
}
