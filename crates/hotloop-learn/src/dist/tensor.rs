//! Log-probability and entropy of stored actions as tensors, for losses that autograd differentiates.

use super::{Deviation, DistError, HeadPart, HeadSpec, gaussian, head::Placed};
use crate::{error::LearnError, net::Outputs};
use tch::{Kind, Tensor};

/// ln √(2π)
const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8;

impl HeadSpec {
    /// Log-probability and entropy of the stored `actions` under `outputs`, each `[n]`.
    ///
    /// `actions` is `[n, action_len]` i32; `mask` is `[n, mask_len]`, 0 forbids. Masked
    /// logits are left out exactly: their probability and gradient are 0. The entropy of a squashed
    /// Gaussian is the estimate −log-prob.
    ///
    /// # Errors
    /// If a shape or type differs, or a mask row allows nothing.
    pub fn log_prob_entropy(
        &self,
        outputs: &Outputs,
        actions: &Tensor,
        mask: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor), LearnError> {
        let n = outputs.head.size()[0];
        shaped(
            "network outputs",
            &outputs.head,
            &[n, self.outputs() as i64],
            Kind::Float,
        )?;
        shaped(
            "actions",
            actions,
            &[n, self.action_len() as i64],
            Kind::Int,
        )?;
        if let Some(mask) = mask {
            shaped(
                "action masks",
                mask,
                &[n, self.mask_len() as i64],
                Kind::Uint8,
            )?;
        }
        let mut sums: Option<(Tensor, Tensor)> = None;
        let mut add = |log_prob: Tensor, entropy: Tensor| {
            sums = Some(match sums.take() {
                None => (log_prob, entropy),
                Some((lp, h)) => (lp + log_prob, h + entropy),
            });
        };
        for placed in &self.parts {
            match &placed.part {
                HeadPart::Categorical { sizes, .. } => {
                    let mask = mask.filter(|_| !placed.mask.is_empty());
                    let (mut logit, mut choice) = (placed.outputs.start, placed.mask.start);
                    for (word, size) in placed.words.clone().zip(sizes) {
                        let z = outputs.head.f_narrow(1, logit as i64, *size as i64)?;
                        let action = actions.f_narrow(1, word as i64, 1)?;
                        let mask = match mask {
                            Some(mask) => Some(mask.f_narrow(1, choice as i64, *size as i64)?),
                            None => None,
                        };
                        let (log_prob, entropy) = categorical(&z, &action, mask.as_ref(), word)?;
                        add(log_prob, entropy);
                        (logit, choice) = (logit + size, choice + size);
                    }
                }
                HeadPart::Gaussian {
                    dim,
                    deviation,
                    squash,
                } => {
                    let (means, log_std) =
                        deviations(outputs, placed, *dim, *deviation, self.log_std_dim())?;
                    let action = actions
                        .f_narrow(1, placed.words.start as i64, *dim as i64)?
                        .f_view_dtype(Kind::Float)?;
                    let (log_prob, entropy) = normal(&means, &log_std, &action, *squash)?;
                    add(log_prob, entropy);
                }
            }
        }
        sums.ok_or_else(|| LearnError::Spec {
            what: "action distribution",
            reason: "it has no dimensions".into(),
        })
    }
}

/// One categorical dimension: logits `[n, size]`, chosen indices `[n, 1]`.
fn categorical(
    z: &Tensor,
    action: &Tensor,
    mask: Option<&Tensor>,
    dimension: usize,
) -> Result<(Tensor, Tensor), LearnError> {
    let action = action.f_to_kind(Kind::Int64)?;
    let (log_prob, entropy) = match mask {
        None => {
            let log_p = z.f_log_softmax(1, Kind::Float)?;
            let entropy = -(log_p.f_exp()? * &log_p).f_sum_dim_intlist(1, false, None)?;
            (log_p.f_gather(1, &action, false)?, entropy)
        }
        Some(mask) => {
            let forbidden = mask.f_eq(0)?;
            allowed_somewhere(&forbidden, dimension)?;
            let z = z.f_masked_fill(&forbidden, f64::NEG_INFINITY)?;
            let log_p = z.f_log_softmax(1, Kind::Float)?;
            // 0 · −∞ is NaN: the forbidden logarithms leave the sum before the product.
            let safe = log_p.f_masked_fill(&forbidden, 0.0)?;
            let entropy = -(log_p.f_exp()? * safe).f_sum_dim_intlist(1, false, None)?;
            (log_p.f_gather(1, &action, false)?, entropy)
        }
    };
    Ok((log_prob.f_squeeze_dim(1)?, entropy))
}

/// Means `[n, dim]` and log deviations, `[dim]` or `[n, dim]`, of a Gaussian part.
fn deviations(
    outputs: &Outputs,
    placed: &Placed,
    dim: usize,
    deviation: Deviation,
    free: Option<usize>,
) -> Result<(Tensor, Tensor), LearnError> {
    let (start, dim) = (placed.outputs.start as i64, dim as i64);
    let means = outputs.head.f_narrow(1, start, dim)?;
    let log_std = match deviation {
        Deviation::Free => {
            let missing = || LearnError::Spec {
                what: "network outputs",
                reason: "a Gaussian head needs log standard deviations".into(),
            };
            let all = outputs.log_std.as_ref().ok_or_else(missing)?;
            let free = free.unwrap_or(0) as i64;
            shaped("log standard deviations", all, &[free], Kind::Float)?;
            all.f_narrow(0, placed.log_std.start as i64, dim)?
        }
        Deviation::State => outputs.head.f_narrow(1, start + dim, dim)?.f_clamp(
            f64::from(*gaussian::LOG_STD.start()),
            f64::from(*gaussian::LOG_STD.end()),
        )?,
    };
    Ok((means, log_std))
}

fn normal(
    means: &Tensor,
    log_std: &Tensor,
    actions: &Tensor,
    squash: bool,
) -> Result<(Tensor, Tensor), LearnError> {
    let z = (actions - means) * log_std.f_neg()?.f_exp()?;
    let mut each = z.f_square()? * -0.5 - log_std - HALF_LN_TAU;
    if squash {
        // log(1 − tanh²u) = 2 (ln 2 − u − softplus(−2u))
        let softplus = (actions * -2.0).f_softplus()?;
        each -= ((-actions - softplus) + std::f64::consts::LN_2) * 2.0;
    }
    let log_prob = each.f_sum_dim_intlist(1, false, None)?;
    let entropy = if squash {
        log_prob.f_neg()?
    } else {
        (log_std + (0.5 + HALF_LN_TAU))
            .f_sum_dim_intlist(-1, false, None)?
            .f_expand_as(&log_prob)?
    };
    Ok((log_prob, entropy))
}

/// An error naming the first row whose mask allows nothing.
fn allowed_somewhere(forbidden: &Tensor, dimension: usize) -> Result<(), LearnError> {
    let nothing = forbidden.f_all_dim(1, false)?;
    if bool::try_from(nothing.f_any()?)? {
        let row = i64::try_from(nothing.f_to_kind(Kind::Int)?.f_argmax(0, false)?)? as usize;
        return Err(LearnError::Distribution {
            row,
            source: DistError::NoValidAction { dimension },
        });
    }
    Ok(())
}

/// An error unless `t` has this shape and type.
pub(crate) fn shaped(what: &str, t: &Tensor, shape: &[i64], kind: Kind) -> Result<(), LearnError> {
    if t.size() == shape && t.kind() == kind {
        return Ok(());
    }
    Err(LearnError::Shape {
        what: what.into(),
        expected: format!("{shape:?} {kind:?}"),
        found: format!("{:?} {:?}", t.size(), t.kind()),
    })
}
