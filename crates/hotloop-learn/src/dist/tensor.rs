//! Log-probability and entropy of stored actions as tensors, for losses that autograd differentiates.

use super::{DistError, HeadSpec};
use crate::{error::LearnError, net::Outputs};
use tch::{Kind, Tensor};

/// ln √(2π)
const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8;

impl HeadSpec {
    /// Log-probability and entropy of the stored `actions` under `outputs`, each `[n]`.
    ///
    /// `actions` is `[n, action_len]`, i32 or f32; `mask` is `[n, mask_len]`, 0 forbids. Masked
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
        let kind = if self.is_discrete() {
            Kind::Int
        } else {
            Kind::Float
        };
        shaped(
            "network outputs",
            &outputs.head,
            &[n, self.outputs() as i64],
            Kind::Float,
        )?;
        shaped("actions", actions, &[n, self.action_len() as i64], kind)?;
        if let Some(mask) = mask {
            shaped(
                "action masks",
                mask,
                &[n, self.mask_len() as i64],
                Kind::Uint8,
            )?;
        }
        match self {
            Self::Gaussian { dim, squash } => gaussian(outputs, actions, *dim, *squash),
            _ => self.categorical(&outputs.head, actions, mask),
        }
    }

    fn categorical(
        &self,
        logits: &Tensor,
        actions: &Tensor,
        mask: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor), LearnError> {
        let actions = actions.f_to_kind(Kind::Int64)?;
        let (mut start, mut sums) = (0, None);
        for (dimension, &size) in self.sizes().iter().enumerate() {
            let size = size as i64;
            let z = logits.f_narrow(1, start, size)?;
            let action = actions.f_narrow(1, dimension as i64, 1)?;
            let (log_prob, entropy) = match mask {
                None => {
                    let log_p = z.f_log_softmax(1, Kind::Float)?;
                    let entropy = -(log_p.f_exp()? * &log_p).f_sum_dim_intlist(1, false, None)?;
                    (log_p.f_gather(1, &action, false)?, entropy)
                }
                Some(mask) => {
                    let forbidden = mask.f_narrow(1, start, size)?.f_eq(0)?;
                    allowed_somewhere(&forbidden, dimension)?;
                    let z = z.f_masked_fill(&forbidden, f64::NEG_INFINITY)?;
                    let log_p = z.f_log_softmax(1, Kind::Float)?;
                    // 0 · −∞ is NaN: the forbidden logarithms leave the sum before the product.
                    let safe = log_p.f_masked_fill(&forbidden, 0.0)?;
                    let entropy = -(log_p.f_exp()? * safe).f_sum_dim_intlist(1, false, None)?;
                    (log_p.f_gather(1, &action, false)?, entropy)
                }
            };
            let log_prob = log_prob.f_squeeze_dim(1)?;
            sums = Some(match sums {
                None => (log_prob, entropy),
                Some((lp, h)) => (lp + log_prob, h + entropy),
            });
            start += size;
        }
        sums.ok_or_else(|| LearnError::Spec {
            what: "action distribution",
            reason: "it has no dimensions".into(),
        })
    }
}

fn gaussian(
    outputs: &Outputs,
    actions: &Tensor,
    dim: usize,
    squash: bool,
) -> Result<(Tensor, Tensor), LearnError> {
    let missing = || LearnError::Spec {
        what: "network outputs",
        reason: "a Gaussian head needs log standard deviations".into(),
    };
    let log_std = outputs.log_std.as_ref().ok_or_else(missing)?;
    shaped(
        "log standard deviations",
        log_std,
        &[dim as i64],
        Kind::Float,
    )?;
    let z = (actions - &outputs.head) * log_std.f_neg()?.f_exp()?;
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
            .f_sum(Kind::Float)?
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
