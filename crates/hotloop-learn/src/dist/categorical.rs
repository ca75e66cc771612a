//! One categorical choice on one row of logits, by inverse CDF.

use super::{Choice, DistError};

/// What can be wrong with one dimension.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unusable {
    NoValidAction,
    NotFinite,
}

impl Unusable {
    #[cold]
    pub(super) fn at(self, dimension: usize) -> DistError {
        match self {
            Self::NoValidAction => DistError::NoValidAction { dimension },
            Self::NotFinite => DistError::NotFinite { dimension },
        }
    }
}

#[inline]
fn allowed(mask: Option<&[u8]>, i: usize) -> bool {
    mask.is_none_or(|m| m[i] != 0)
}

/// Largest allowed logit, its lowest index, and the sum of `exp(z - max)` over allowed logits.
#[inline]
fn normalizer(logits: &[f32], mask: Option<&[u8]>) -> Result<(f32, usize, f32), Unusable> {
    let mut best: Option<(f32, usize)> = None;
    for (i, &z) in logits.iter().enumerate() {
        if allowed(mask, i) && best.is_none_or(|(max, _)| z > max) {
            best = Some((z, i));
        }
    }
    let (max, arg) = best.ok_or(Unusable::NoValidAction)?;
    let mut sum = 0.0;
    for (i, &z) in logits.iter().enumerate() {
        if allowed(mask, i) {
            sum += (z - max).exp();
        }
    }
    Ok((max, arg, sum))
}

/// The index chosen and its log-probability.
#[inline]
pub(super) fn choose(
    choice: Choice,
    logits: &[f32],
    mask: Option<&[u8]>,
    uniform: &mut impl FnMut() -> f32,
) -> Result<(usize, f32), Unusable> {
    if let (&[z0, z1], None, Choice::Sample) = (logits, mask, choice) {
        return two(z0, z1, uniform());
    }
    let (max, arg, sum) = normalizer(logits, mask)?;
    if !sum.is_finite() {
        return Err(Unusable::NotFinite);
    }
    let mut index = arg;
    if choice == Choice::Sample {
        let mut left = uniform() * sum;
        for (i, &z) in logits.iter().enumerate() {
            if !allowed(mask, i) {
                continue;
            }
            let p = (z - max).exp();
            // Rounding may leave a little at the end: the last action that can happen has it.
            if p > 0.0 {
                index = i;
            }
            if left < p {
                break;
            }
            left -= p;
        }
    }
    Ok((index, logits[index] - max - sum.ln()))
}

/// The commonest case, two logits, with one exponential: p(1) = 1 / (1 + exp(z0 - z1)).
#[inline]
fn two(z0: f32, z1: f32, u: f32) -> Result<(usize, f32), Unusable> {
    let gap = z0 - z1;
    // exp of the negative magnitude cannot overflow.
    let e = (-gap.abs()).exp();
    let sum = 1.0 + e;
    if sum.is_nan() || !gap.is_finite() {
        return Err(Unusable::NotFinite);
    }
    let p0 = if gap >= 0.0 { 1.0 } else { e };
    let index = usize::from(u * sum >= p0);
    let likelier = usize::from(gap < 0.0);
    let shift = if index == likelier { 0.0 } else { -gap.abs() };
    Ok((index, shift - sum.ln()))
}
