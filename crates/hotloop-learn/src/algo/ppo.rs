//! Proximal policy optimisation with a clipped surrogate (Schulman et al. 2017).

use super::{Algorithm, LossContext, Minibatch};
use crate::{
    dist::{ActionRef, DensityGrads, HeadSpec, tensor::shaped},
    error::LearnError,
    kernels, memory,
    net::Outputs,
    objective::{HeadGrads, HeadRows, Loss},
};
use hotloop_math::{Rows, Schedule, gae};
use std::borrow::Cow;
use tch::{Kind, Tensor};

/// Log-ratios are cut off here: exp(20) = 4.85e8 is far outside every clip, and finite in f32, so
/// that no infinity meets a zero advantage. NaN passes through and stays visible.
const MAX_LOG_RATIO: f32 = 20.0;

/// Coefficients of PPO. The loss is `policy + value_coef · value − entropy_coef · entropy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ppo {
    /// Discount.
    pub gamma: f32,
    /// Decay of the generalised advantage estimate.
    pub gae_lambda: f32,
    /// Half-width of the ratio's clip around 1.
    pub clip: Schedule,
    /// Half-width of the clip of values around their rollout values; `None` does not clip.
    pub value_clip: Option<f64>,
    /// Weight of the value loss `½ (V − target)²`.
    pub value_coef: f64,
    /// Weight of the entropy bonus.
    pub entropy_coef: Schedule,
}

impl Default for Ppo {
    /// CleanRL's defaults, with value clipping off (Andrychowicz et al. 2021 found it to hurt).
    fn default() -> Self {
        Self {
            gamma: 0.99,
            gae_lambda: 0.95,
            clip: Schedule::Constant(0.2),
            value_clip: None,
            value_coef: 0.5,
            entropy_coef: Schedule::Constant(0.01),
        }
    }
}

/// Names of what [`Ppo`] reports, in order: means over the minibatch's valid rows. `approx_kl` is
/// Schulman's k3 estimate `(r − 1) − ln r`.
const STATISTICS: [&str; 5] = [
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "clip_fraction",
];

impl Algorithm for Ppo {
    fn name(&self) -> &'static str {
        "ppo"
    }

    fn statistics(&self) -> &'static [&'static str] {
        &STATISTICS
    }

    fn estimate(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        gae(rows, self.gamma, self.gae_lambda, advantages, targets);
    }

    fn loss(&self, cx: &LossContext<'_>, outputs: &Outputs) -> Result<Loss, LearnError> {
        let (batch, n) = (cx.batch, cx.batch.rows());
        batch.check(cx.head)?;
        let (clip, entropy_coef) = self.coefficients(cx);
        let valid = batch.valid.f_ne(0)?;
        // An invalid row may have an empty mask: it gets a full one and drops out below.
        let masks = match &batch.masks {
            Some(m) => Some(
                m.f_bitwise_or_tensor(&batch.valid.f_eq(0)?.to_kind(Kind::Uint8).unsqueeze(1))?,
            ),
            None => None,
        };
        let (log_probs, entropy) =
            cx.head
                .log_prob_entropy(outputs, &batch.actions, masks.as_ref())?;
        shaped("new log-probs", &log_probs, &[n], Kind::Float)?;
        shaped("new values", &outputs.value, &[n], Kind::Float)?;

        let zero = Tensor::zeros([], (Kind::Float, log_probs.device()));
        let keep = |t: &Tensor| t.f_where_self(&valid, &zero);
        let mean = |t: &Tensor| -> Result<Tensor, LearnError> {
            Ok(keep(t)?.f_sum(Kind::Float)? / batch.valid_count)
        };

        // Invalid rows leave the columns, too: zero times NaN would come back in the gradient.
        let (old, advantages) = (keep(&batch.old_log_probs)?, keep(&batch.advantages)?);
        let log_ratio = (log_probs - old).f_clamp_max(f64::from(MAX_LOG_RATIO))?;
        let ratio = log_ratio.f_exp()?;
        let clipped = ratio.f_clamp(1.0 - clip, 1.0 + clip)?;
        let worse = (-&advantages * &ratio).f_maximum(&(-&advantages * clipped))?;
        let policy = mean(&worse)?;

        let targets = keep(&batch.targets)?;
        let square = |v: &Tensor| (v - &targets).f_square();
        let value_error = match self.value_clip {
            None => square(&outputs.value)?,
            Some(c) => {
                let old = keep(&batch.old_values)?;
                let near = &old + (&outputs.value - &old).f_clamp(-c, c)?;
                square(&outputs.value)?.f_maximum(&square(&near)?)?
            }
        };
        let value = mean(&value_error)? * 0.5;
        let entropy = mean(&entropy)?;

        let total = &policy + &value * self.value_coef - &entropy * entropy_coef;
        let (kl, clip_fraction) = tch::no_grad(|| -> Result<_, LearnError> {
            let kl = mean(&((&ratio - 1.0) - &log_ratio))?;
            let outside = (&ratio - 1.0).f_abs()?.f_gt(clip)?.to_kind(Kind::Float);
            Ok((kl, mean(&outside)?))
        })?;
        Ok(Loss::new(
            total,
            &[&policy, &value, &entropy, &kl, &clip_fraction],
        ))
    }

    fn host_gradient(
        &self,
        cx: &LossContext<'_>,
        rows: HeadRows<'_>,
        grads: HeadGrads<'_>,
    ) -> Option<Result<Vec<f64>, LearnError>> {
        if !cx.batch.is_dense_host() {
            return None;
        }
        Some(self.host_rows(cx, rows, grads))
    }
}

impl Ppo {
    fn coefficients(&self, cx: &LossContext<'_>) -> (f64, f64) {
        let at = |s: &Schedule| s.at(cx.progress.update, cx.progress.total);
        (at(&self.clip), at(&self.entropy_coef))
    }

    fn host_rows(
        &self,
        cx: &LossContext<'_>,
        rows: HeadRows<'_>,
        grads: HeadGrads<'_>,
    ) -> Result<Vec<f64>, LearnError> {
        cx.batch.check(cx.head)?;
        let batch = Columns::new(cx.head, cx.batch);
        let (clip, entropy_coef) = self.coefficients(cx);
        let (clip, entropy_coef) = (clip as f32, entropy_coef as f32);
        let share = (1.0 / cx.batch.valid_count) as f32;
        let masks = batch.masks.as_deref();
        let densities = cx
            .head
            .densities(rows.head, rows.log_std, masks, batch.actions)
            .map_err(|(row, source)| LearnError::Distribution { row, source })?;

        let n = batch.valid.len();
        let raw: Vec<f32> = (0..n)
            .map(|i| densities.log_prob[i] - batch.old_log_probs[i])
            .collect();
        // Not `min`, which would swallow a NaN.
        let cut = |raw: f32| {
            if raw > MAX_LOG_RATIO {
                MAX_LOG_RATIO
            } else {
                raw
            }
        };
        let mut ratios: Vec<f32> = raw.iter().map(|r| cut(*r)).collect();
        kernels::exp(&mut ratios);

        let (mut at_log_prob, mut at_entropy) = (vec![0.0; n], vec![0.0; n]);
        let mut sums = [0.0f64; STATISTICS.len()];
        for i in (0..n).filter(|i| batch.valid[*i] != 0) {
            let (ratio, advantage) = (ratios[i], batch.advantages[i]);
            let (free, held) = (
                -advantage * ratio,
                -advantage * ratio.clamp(1.0 - clip, 1.0 + clip),
            );
            // The clipped branch is flat, and so is the ratio past its cut-off.
            let flat = held > free || raw[i] > MAX_LOG_RATIO;
            at_log_prob[i] = if flat { 0.0 } else { free * share };
            at_entropy[i] = -entropy_coef * share;

            let (value_error, slope) =
                self.value_error(rows.value[i], batch.old_values[i], batch.targets[i]);
            grads.value[i] = self.value_coef as f32 * share * slope;

            let terms = [
                if held > free { held } else { free },
                value_error,
                densities.entropy[i],
                (ratio - 1.0) - cut(raw[i]),
                f32::from(u8::from((ratio - 1.0).abs() > clip)),
            ];
            sums.iter_mut()
                .zip(terms)
                .for_each(|(sum, term)| *sum += f64::from(term));
        }
        let wanted = DensityGrads {
            log_prob: &at_log_prob,
            entropy: &at_entropy,
        };
        let (d_head, d_log_std) = (grads.head, grads.log_std);
        cx.head.densities_backward(
            &densities,
            rows.head,
            rows.log_std,
            batch.actions,
            wanted,
            d_head,
            d_log_std,
        );
        Ok(sums.iter().map(|s| s / cx.batch.valid_count).collect())
    }

    /// `½ (V − target)²`, clipped around the rollout's value if asked, and its slope in V.
    fn value_error(&self, value: f32, old: f32, target: f32) -> (f32, f32) {
        let error = value - target;
        let free = (0.5 * error * error, error);
        let Some(clip) = self.value_clip else {
            return free;
        };
        let (clip, moved) = (clip as f32, value - old);
        let near = old + moved.clamp(-clip, clip) - target;
        let held = 0.5 * near * near;
        // Inside the clip both are equal but for rounding, which must not decide that it is flat.
        if moved.abs() > clip && held > free.0 {
            (held, 0.0)
        } else {
            free
        }
    }
}

/// A minibatch's columns as slices.
struct Columns<'a> {
    actions: ActionRef<'a>,
    old_log_probs: &'a [f32],
    old_values: &'a [f32],
    advantages: &'a [f32],
    targets: &'a [f32],
    valid: &'a [u8],
    masks: Option<Cow<'a, [u8]>>,
}

impl<'a> Columns<'a> {
    fn new(head: &HeadSpec, batch: &'a Minibatch) -> Self {
        // SAFETY: a minibatch is only read while losses over it are computed.
        unsafe {
            let valid = memory::u8s(&batch.valid);
            Self {
                actions: if head.is_discrete() {
                    ActionRef::Index(memory::i32s(&batch.actions))
                } else {
                    ActionRef::Real(memory::f32s(&batch.actions))
                },
                old_log_probs: memory::f32s(&batch.old_log_probs),
                old_values: memory::f32s(&batch.old_values),
                advantages: memory::f32s(&batch.advantages),
                targets: memory::f32s(&batch.targets),
                valid,
                masks: batch
                    .masks
                    .as_ref()
                    .map(|m| full_if_invalid(memory::u8s(m), valid)),
            }
        }
    }
}

/// An invalid row may have an empty mask: it gets a full one, and drops out of the sums.
fn full_if_invalid<'a>(masks: &'a [u8], valid: &[u8]) -> Cow<'a, [u8]> {
    if valid.iter().all(|v| *v != 0) {
        return Cow::Borrowed(masks);
    }
    let width = masks.len() / valid.len();
    let mut masks = masks.to_vec();
    for (mask, _) in masks
        .chunks_exact_mut(width)
        .zip(valid)
        .filter(|(_, v)| **v == 0)
    {
        mask.fill(1);
    }
    Cow::Owned(masks)
}
