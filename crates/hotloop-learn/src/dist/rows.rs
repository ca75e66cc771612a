//! Log-probabilities, entropies and their gradients for many rows of host memory at once.

use super::{ActionRef, DistError, HeadSpec, gaussian};
use crate::kernels;

/// What the distributions of some rows say about the actions stored for them.
#[derive(Clone, Debug, Default)]
pub struct Densities {
    /// Log-probability (density) of each row's action, summed over dimensions.
    pub log_prob: Vec<f32>,
    /// Entropy of each row, summed over dimensions; for a squashed Gaussian the estimate −log-prob.
    pub entropy: Vec<f32>,
    /// Log-probability of every action, −∞ where a mask forbids it. Empty for a Gaussian.
    log_p: Vec<f32>,
    /// Probability of every action. Empty for a Gaussian.
    p: Vec<f32>,
}

/// Gradients wanted by a loss, per row: at the log-probabilities and at the entropies.
#[derive(Clone, Copy, Debug)]
pub struct DensityGrads<'a> {
    /// d loss / d log-prob.
    pub log_prob: &'a [f32],
    /// d loss / d entropy.
    pub entropy: &'a [f32],
}

impl HeadSpec {
    /// Log-probabilities and entropies of stored actions.
    ///
    /// `head` is `[n, outputs]`, `actions` `[n, action_len]`, `masks` `[n, mask_len]` (0 forbids),
    /// all row-major; `log_std` holds a Gaussian's log deviations.
    ///
    /// # Errors
    /// The first row whose mask allows nothing, with the reason. Outputs that are not finite give
    /// results that are not.
    ///
    /// # Panics
    /// If a slice has another length or type, or an index lies outside its dimension.
    pub fn densities(
        &self,
        head: &[f32],
        log_std: &[f32],
        masks: Option<&[u8]>,
        actions: ActionRef<'_>,
    ) -> Result<Densities, (usize, DistError)> {
        let (width, len) = (self.outputs(), self.action_len());
        let n = head.len() / width;
        let mut d = Densities {
            log_prob: vec![0.0; n],
            entropy: vec![0.0; n],
            ..Densities::default()
        };
        match (self, actions) {
            (Self::Gaussian { squash, .. }, ActionRef::Real(actions)) => {
                let rows = head.chunks_exact(width).zip(actions.chunks_exact(len));
                for (i, (means, action)) in rows.enumerate() {
                    let row = gaussian::density(means, log_std, *squash, action);
                    (d.log_prob[i], d.entropy[i]) = (row.log_prob, row.entropy);
                }
            }
            (_, ActionRef::Index(actions)) if self.is_discrete() => {
                d.log_p = head.to_vec();
                d.p = vec![0.0; head.len()];
                if let Some(masks) = masks {
                    self.forbid(masks, &mut d.log_p)?;
                }
                let mut first = 0;
                for (dimension, &size) in self.sizes().iter().enumerate() {
                    kernels::log_softmax(&mut d.log_p, &mut d.p, width, first, size);
                    for (i, action) in actions.iter().skip(dimension).step_by(len).enumerate() {
                        let action = *action as usize;
                        assert!(action < size, "row {i}: action {action} of {size}");
                        let row = i * width + first..i * width + first + size;
                        let (log_p, p) = (&d.log_p[row.clone()], &d.p[row]);
                        d.log_prob[i] += log_p[action];
                        d.entropy[i] += entropy(log_p, p);
                    }
                    first += size;
                }
            }
            (spec, _) => panic!("{spec:?} has no actions of this type"),
        }
        Ok(d)
    }

    /// Sets forbidden logits to −∞.
    fn forbid(&self, masks: &[u8], logits: &mut [f32]) -> Result<(), (usize, DistError)> {
        let width = self.outputs();
        let rows = masks
            .chunks_exact(width)
            .zip(logits.chunks_exact_mut(width));
        for (i, (mask, logits)) in rows.enumerate() {
            let mut first = 0;
            for (dimension, size) in self.sizes().iter().enumerate() {
                if mask[first..first + size].iter().all(|m| *m == 0) {
                    return Err((i, DistError::NoValidAction { dimension }));
                }
                first += size;
            }
            for (z, _) in logits.iter_mut().zip(mask).filter(|(_, m)| **m == 0) {
                *z = f32::NEG_INFINITY;
            }
        }
        Ok(())
    }

    /// The gradient of a loss at `head`, written into `d_head`, and at the log deviations, added to
    /// `d_log_std`. Rows with no wanted gradient and masked logits get exactly 0.
    ///
    /// # Panics
    /// As [`HeadSpec::densities`], which made `densities` from the same rows.
    #[expect(
        clippy::too_many_arguments,
        reason = "the arguments of `densities`, and their gradients"
    )]
    pub fn densities_backward(
        &self,
        densities: &Densities,
        head: &[f32],
        log_std: &[f32],
        actions: ActionRef<'_>,
        wanted: DensityGrads<'_>,
        d_head: &mut [f32],
        d_log_std: &mut [f32],
    ) {
        let (width, len) = (self.outputs(), self.action_len());
        for (i, d) in d_head.chunks_exact_mut(width).enumerate() {
            let (at_log_prob, at_entropy) = (wanted.log_prob[i], wanted.entropy[i]);
            if at_log_prob == 0.0 && at_entropy == 0.0 {
                d.fill(0.0);
                continue;
            }
            let span = i * width..(i + 1) * width;
            match (self, actions) {
                (Self::Gaussian { squash, .. }, ActionRef::Real(actions)) => {
                    let action = &actions[i * len..][..len];
                    let at = (at_log_prob, at_entropy);
                    gaussian::backward(&head[span], log_std, *squash, action, at, d, d_log_std);
                }
                (Self::Categorical { .. }, ActionRef::Index(actions)) => {
                    let (log_p, p) = (&densities.log_p[span.clone()], &densities.p[span]);
                    let at = (at_log_prob, at_entropy, densities.entropy[i]);
                    categorical(log_p, p, actions[i] as usize, at, d);
                }
                (Self::MultiCategorical { sizes }, ActionRef::Index(actions)) => {
                    let (log_p, p) = (&densities.log_p[span.clone()], &densities.p[span]);
                    let mut first = 0;
                    for (size, action) in sizes.iter().zip(&actions[i * len..]) {
                        let part = first..first + size;
                        let (log_p, p) = (&log_p[part.clone()], &p[part.clone()]);
                        let at = (at_log_prob, at_entropy, entropy(log_p, p));
                        categorical(log_p, p, *action as usize, at, &mut d[part]);
                        first += size;
                    }
                }
                (spec, _) => panic!("{spec:?} has no actions of this type"),
            }
        }
    }
}

/// −Σ p log p, where 0 · −∞ counts as its limit 0. NaN is not hidden.
#[inline]
fn entropy(log_p: &[f32], p: &[f32]) -> f32 {
    let term = |(l, p): (&f32, &f32)| if *l == f32::NEG_INFINITY { 0.0 } else { -p * l };
    log_p.iter().zip(p).map(term).sum()
}

/// d log p(a)/dz_j = [j = a] − p_j and dH/dz_j = −p_j (log p_j + H), weighted by the gradients at the
/// log-probability and at the entropy H, which is the third of `at`.
#[inline]
fn categorical(log_p: &[f32], p: &[f32], action: usize, at: (f32, f32, f32), d: &mut [f32]) {
    let (at_log_prob, at_entropy, entropy) = at;
    for (j, ((d, log_p), p)) in d.iter_mut().zip(log_p).zip(p).enumerate() {
        let chosen = f32::from(u8::from(j == action));
        let slope = at_log_prob * (chosen - p) - at_entropy * p * (log_p + entropy);
        *d = if *log_p == f32::NEG_INFINITY {
            0.0
        } else {
            slope
        };
    }
}
