//! The loss that the actor-critic algorithms share: policy term, value error and entropy bonus.

use super::{Algorithm, LossContext, Progress, host::HostColumns};
use crate::{
    dist::{DensityGrads, tensor::shaped},
    error::LearnError,
    kernels,
    net::Outputs,
    objective::{HeadGrads, HeadRows, Loss},
};
use hotloop_math::Rows;
use tch::{Kind, Tensor};

/// Log-ratios are cut off here: exp(20) = 4.85e8 is far outside every clip, and finite in f32, so
/// that no infinity meets a zero advantage. NaN passes through and stays visible.
const MAX_LOG_RATIO: f32 = 20.0;

/// What the policy is moved by.
#[derive(Clone, Copy, Debug)]
pub(super) enum PolicyTerm {
    /// `−min(r·A, clip(r)·A)` with the ratio `r = π/μ` clipped to 1 ± this (Schulman et al. 2017).
    Clipped(f64),
    /// `−A·ln π`: the plain policy gradient; a weight for rows of other policies is in `A`.
    Gradient,
}

/// `policy + value_coef · ½ (V − target)² − entropy_coef · entropy`, each a mean over valid rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surrogate {
    pub(super) policy: PolicyTerm,
    /// Half-width of the clip of values around their rollout values.
    pub(super) value_clip: Option<f64>,
    pub(super) value_coef: f64,
    pub(super) entropy_coef: f64,
    /// Largest weight of an off-policy correction, where there is one to be reported on.
    pub(super) rho_clip: Option<f32>,
}

/// Every statistic that a surrogate can have, means over the minibatch's valid rows, in the order in
/// which it reports them. `approx_kl` is Schulman's k3 estimate `(r − 1) − ln r`; `clip_fraction` is
/// the share of ratios outside the policy's clip, `rho_clipped` that of ratios above the correction's.
const ALL: usize = 7;

/// The statistics of a clipped surrogate.
pub(super) const CLIPPED: &[&str] = &[
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "clip_fraction",
];

/// The same with an off-policy correction.
pub(super) const CLIPPED_CORRECTED: &[&str] = &[
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "clip_fraction",
    "rho_mean",
    "rho_clipped",
];

/// The statistics of a plain policy gradient.
pub(super) const GRADIENT: &[&str] = &["policy_loss", "value_loss", "entropy", "approx_kl"];

/// The same with an off-policy correction.
pub(super) const GRADIENT_CORRECTED: &[&str] = &[
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "rho_mean",
    "rho_clipped",
];

/// An algorithm whose loss is a [`Surrogate`]: what remains to be said of it.
pub(super) trait Surrogated: Send + Sync {
    const NAME: &'static str;
    const STATISTICS: &'static [&'static str];
    const REEVALUATES: bool;

    /// As [`Algorithm::estimate`].
    fn assess(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]);

    /// The loss, with its coefficients at this point of the run.
    fn surrogate(&self, progress: Progress) -> Surrogate;
}

impl<T: Surrogated> Algorithm for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn statistics(&self) -> &'static [&'static str] {
        T::STATISTICS
    }

    fn reevaluates(&self) -> bool {
        T::REEVALUATES
    }

    fn estimate(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        self.assess(rows, advantages, targets);
    }

    fn loss(&self, cx: &LossContext<'_>, outputs: &Outputs) -> Result<Loss, LearnError> {
        self.surrogate(cx.progress).loss(cx, outputs)
    }

    fn host_gradient(
        &self,
        cx: &LossContext<'_>,
        rows: HeadRows<'_>,
        grads: HeadGrads<'_>,
    ) -> Option<Result<Vec<f64>, LearnError>> {
        self.surrogate(cx.progress).host_gradient(cx, rows, grads)
    }
}

impl Surrogate {
    /// Which of [`ALL`] statistics this surrogate reports.
    fn reports(&self) -> [bool; ALL] {
        let clips = matches!(self.policy, PolicyTerm::Clipped(_));
        let corrects = self.rho_clip.is_some();
        [true, true, true, true, clips, corrects, corrects]
    }

    fn reported<T>(&self, all: [T; ALL]) -> impl Iterator<Item = T> {
        let wanted = all.into_iter().zip(self.reports());
        wanted.filter(|(_, wanted)| *wanted).map(|(stat, _)| stat)
    }

    /// The loss on tensors, for autograd.
    pub(super) fn loss(&self, cx: &LossContext<'_>, outputs: &Outputs) -> Result<Loss, LearnError> {
        let (batch, n) = (cx.batch, cx.batch.rows());
        batch.check(cx.head)?;
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
        let log_ratio = (&log_probs - old).f_clamp_max(f64::from(MAX_LOG_RATIO))?;
        let ratio = log_ratio.f_exp()?;
        let policy = match self.policy {
            PolicyTerm::Clipped(clip) => {
                let clipped = ratio.f_clamp(1.0 - clip, 1.0 + clip)?;
                mean(&(-&advantages * &ratio).f_maximum(&(-&advantages * clipped))?)?
            }
            PolicyTerm::Gradient => mean(&(-&advantages * &log_probs))?,
        };

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

        let total = &policy + &value * self.value_coef - &entropy * self.entropy_coef;
        let [kl, outside, rho, above] = tch::no_grad(|| -> Result<_, LearnError> {
            let share = |which: Tensor| mean(&which.to_kind(Kind::Float));
            let clip = match self.policy {
                PolicyTerm::Clipped(clip) => clip,
                PolicyTerm::Gradient => f64::INFINITY,
            };
            let most = f64::from(self.rho_clip.unwrap_or(f32::INFINITY));
            Ok([
                mean(&((&ratio - 1.0) - &log_ratio))?,
                share((&ratio - 1.0).f_abs()?.f_gt(clip)?)?,
                mean(&ratio)?,
                share(ratio.f_gt(most)?)?,
            ])
        })?;
        let all = [&policy, &value, &entropy, &kl, &outside, &rho, &above];
        let stats: Vec<&Tensor> = self.reported(all).collect();
        Ok(Loss::new(total, &stats))
    }

    /// The same loss and its gradients on host memory; `None` if the rows are elsewhere.
    pub(super) fn host_gradient(
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

    fn host_rows(
        &self,
        cx: &LossContext<'_>,
        rows: HeadRows<'_>,
        grads: HeadGrads<'_>,
    ) -> Result<Vec<f64>, LearnError> {
        cx.batch.check(cx.head)?;
        let batch = HostColumns::new(cx.batch);
        let entropy_coef = self.entropy_coef as f32;
        let (clip, most) = match self.policy {
            PolicyTerm::Clipped(clip) => (clip as f32, self.rho_clip),
            PolicyTerm::Gradient => (f32::INFINITY, self.rho_clip),
        };
        let most = most.unwrap_or(f32::INFINITY);
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
        let mut sums = [0.0f64; ALL];
        for i in (0..n).filter(|i| batch.valid[*i] != 0) {
            let (ratio, advantage) = (ratios[i], batch.advantages[i]);
            let (policy, slope) = match self.policy {
                PolicyTerm::Clipped(_) => {
                    let (free, held) = (
                        -advantage * ratio,
                        -advantage * ratio.clamp(1.0 - clip, 1.0 + clip),
                    );
                    // The clipped branch is flat, and so is the ratio past its cut-off.
                    let flat = held > free || raw[i] > MAX_LOG_RATIO;
                    (
                        if held > free { held } else { free },
                        if flat { 0.0 } else { free },
                    )
                }
                PolicyTerm::Gradient => (-advantage * densities.log_prob[i], -advantage),
            };
            at_log_prob[i] = slope * share;
            at_entropy[i] = -entropy_coef * share;

            let (value_error, slope) =
                self.value_error(rows.value[i], batch.old_values[i], batch.targets[i]);
            grads.value[i] = self.value_coef as f32 * share * slope;

            let is = |yes: bool| f32::from(u8::from(yes));
            let terms = [
                policy,
                value_error,
                densities.entropy[i],
                (ratio - 1.0) - cut(raw[i]),
                is((ratio - 1.0).abs() > clip),
                ratio,
                is(ratio > most),
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
        Ok(self
            .reported(sums)
            .map(|s| s / cx.batch.valid_count)
            .collect())
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
