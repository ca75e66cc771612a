//! Advantage actor-critic (Mnih et al. 2016): the plain policy gradient on rows of the same policy.

use super::{
    Progress,
    surrogate::{GRADIENT, PolicyTerm, Surrogate, Surrogated},
};
use hotloop_math::{Rows, Schedule, gae};

/// Coefficients of A2C. The loss is `−A·ln π + value_coef · value − entropy_coef · entropy`; it is
/// meant for one pass over each batch, by rows that the policy itself chose.
#[derive(Clone, Debug, PartialEq)]
pub struct A2c {
    /// Discount.
    pub gamma: f32,
    /// Decay of the generalised advantage estimate; 1 makes it the return to the segment's end less
    /// the value, as in the paper.
    pub gae_lambda: f32,
    /// Weight of the value loss `½ (V − target)²`.
    pub value_coef: f64,
    /// Weight of the entropy bonus.
    pub entropy_coef: Schedule,
}

impl Default for A2c {
    /// The usual values (OpenAI Baselines' A2C).
    fn default() -> Self {
        Self {
            gamma: 0.99,
            gae_lambda: 1.0,
            value_coef: 0.5,
            entropy_coef: Schedule::Constant(0.01),
        }
    }
}

impl Surrogated for A2c {
    const NAME: &'static str = "a2c";
    const STATISTICS: &'static [&'static str] = GRADIENT;
    const REEVALUATES: bool = false;

    fn assess(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        gae(rows, self.gamma, self.gae_lambda, advantages, targets);
    }

    fn surrogate(&self, progress: Progress) -> Surrogate {
        Surrogate {
            policy: PolicyTerm::Gradient,
            value_clip: None,
            value_coef: self.value_coef,
            entropy_coef: progress.at(&self.entropy_coef),
            rho_clip: None,
        }
    }
}
