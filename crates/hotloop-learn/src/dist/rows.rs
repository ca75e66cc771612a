//! Log-probabilities, entropies and their gradients for many rows of host memory at once.

use super::{DistError, HeadPart, HeadSpec, gaussian};
use crate::kernels;

/// What the distributions of some rows say about the actions stored for them.
#[derive(Clone, Debug, Default)]
pub struct Densities {
    /// Log-probability (density) of each row's action, summed over parts and dimensions.
    pub log_prob: Vec<f32>,
    /// Entropy of each row, summed likewise; a squashed Gaussian's is the estimate −log-prob.
    pub entropy: Vec<f32>,
    /// Log-probability of every action, −∞ where a mask forbids it. Empty if there are only Gaussians.
    log_p: Vec<f32>,
    /// Probability of every action. Empty if there are only Gaussians.
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
    /// all row-major; `log_std` holds the free log deviations.
    ///
    /// # Errors
    /// The first row whose mask allows nothing, with the reason. Outputs that are not finite give
    /// results that are not.
    ///
    /// # Panics
    /// If a slice has another length, or an index lies outside its dimension.
    pub fn densities(
        &self,
        head: &[f32],
        log_std: &[f32],
        masks: Option<&[u8]>,
        actions: &[i32],
    ) -> Result<Densities, (usize, DistError)> {
        let (width, len) = (self.outputs(), self.action_len());
        let n = head.len() / width;
        let mut d = Densities {
            log_prob: vec![0.0; n],
            entropy: vec![0.0; n],
            ..Densities::default()
        };
        if self
            .parts()
            .any(|part| matches!(part, HeadPart::Categorical { .. }))
        {
            d.log_p = head.to_vec();
            d.p = vec![0.0; head.len()];
        }
        if let Some(masks) = masks.filter(|_| self.mask_len() > 0) {
            self.forbid(masks, &mut d.log_p)?;
        }
        for placed in &self.parts {
            match &placed.part {
                HeadPart::Gaussian { squash, .. } => {
                    let rows = head.chunks_exact(width).zip(actions.chunks_exact(len));
                    for (i, (row, action)) in rows.enumerate() {
                        let outputs = placed.gaussian(&row[placed.outputs.clone()], log_std);
                        let action = bytemuck::cast_slice(&action[placed.words.clone()]);
                        let row = gaussian::density(outputs, *squash, action);
                        d.log_prob[i] += row.log_prob;
                        d.entropy[i] += row.entropy;
                    }
                }
                HeadPart::Categorical { sizes, .. } => {
                    let mut first = placed.outputs.start;
                    for (word, &size) in placed.words.clone().zip(sizes) {
                        kernels::log_softmax(&mut d.log_p, &mut d.p, width, first, size);
                        for (i, action) in actions.iter().skip(word).step_by(len).enumerate() {
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
            }
        }
        Ok(d)
    }

    /// Sets forbidden logits to −∞.
    fn forbid(&self, masks: &[u8], logits: &mut [f32]) -> Result<(), (usize, DistError)> {
        let rows = masks
            .chunks_exact(self.mask_len())
            .zip(logits.chunks_exact_mut(self.outputs()));
        for (i, (mask, logits)) in rows.enumerate() {
            for placed in self.parts.iter().filter(|p| !p.mask.is_empty()) {
                let HeadPart::Categorical { sizes, .. } = &placed.part else {
                    continue;
                };
                let mask = &mask[placed.mask.clone()];
                let mut first = 0;
                for (dimension, size) in placed.words.clone().zip(sizes) {
                    if mask[first..first + size].iter().all(|m| *m == 0) {
                        return Err((i, DistError::NoValidAction { dimension }));
                    }
                    first += size;
                }
                let logits = &mut logits[placed.outputs.clone()];
                for (z, _) in logits.iter_mut().zip(mask).filter(|(_, m)| **m == 0) {
                    *z = f32::NEG_INFINITY;
                }
            }
        }
        Ok(())
    }

    /// The gradient of a loss at `head`, written into `d_head`, and at the free log deviations, added to
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
        actions: &[i32],
        wanted: DensityGrads<'_>,
        d_head: &mut [f32],
        d_log_std: &mut [f32],
    ) {
        let (width, len) = (self.outputs(), self.action_len());
        for (i, d) in d_head.chunks_exact_mut(width).enumerate() {
            d.fill(0.0);
            let at = (wanted.log_prob[i], wanted.entropy[i]);
            if at == (0.0, 0.0) {
                continue;
            }
            let (row, actions) = (i * width, &actions[i * len..][..len]);
            for placed in &self.parts {
                let (d, words) = (
                    &mut d[placed.outputs.clone()],
                    &actions[placed.words.clone()],
                );
                let span = row + placed.outputs.start..row + placed.outputs.end;
                match &placed.part {
                    HeadPart::Gaussian { squash, .. } => {
                        let outputs = placed.gaussian(&head[span], log_std);
                        let action = bytemuck::cast_slice(words);
                        let (d, d_log_std) = if outputs.bounded {
                            d.split_at_mut(outputs.means.len())
                        } else {
                            (d, &mut d_log_std[placed.log_std.clone()])
                        };
                        gaussian::backward(outputs, *squash, action, at, d, d_log_std);
                    }
                    HeadPart::Categorical { sizes, .. } => {
                        let (log_p, p) = (&densities.log_p[span.clone()], &densities.p[span]);
                        let mut first = 0;
                        for (size, action) in sizes.iter().zip(words) {
                            let range = first..first + size;
                            let (log_p, p) = (&log_p[range.clone()], &p[range.clone()]);
                            let at = (at.0, at.1, entropy(log_p, p));
                            categorical(log_p, p, *action as usize, at, &mut d[range]);
                            first += size;
                        }
                    }
                }
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
