//! Proximal policy optimisation with a clipped surrogate (Schulman et al. 2017).

use super::{
    Progress,
    surrogate::{CLIPPED, PolicyTerm, Surrogate, Surrogated},
};
use hotloop_math::{Rows, Schedule, gae};

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

impl Surrogated for Ppo {
    const NAME: &'static str = "ppo";
    const STATISTICS: &'static [&'static str] = CLIPPED;
    const REEVALUATES: bool = false;

    fn assess(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        gae(rows, self.gamma, self.gae_lambda, advantages, targets);
    }

    fn surrogate(&self, progress: Progress) -> Surrogate {
        Surrogate {
            policy: PolicyTerm::Clipped(progress.at(&self.clip)),
            value_clip: self.value_clip,
            value_coef: self.value_coef,
            entropy_coef: progress.at(&self.entropy_coef),
            rho_clip: None,
        }
    }
}
