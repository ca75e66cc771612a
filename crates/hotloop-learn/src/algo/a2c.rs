//! Advantage actor-critic (Mnih et al. 2016): the plain policy gradient on rows of the same policy.

use super::{
    Algorithm, LossContext,
    surrogate::{GRADIENT, PolicyTerm, Surrogate},
};
use crate::{
    error::LearnError,
    net::Outputs,
    objective::{HeadGrads, HeadRows, Loss},
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

impl A2c {
    fn surrogate(&self, cx: &LossContext<'_>) -> Surrogate {
        Surrogate {
            policy: PolicyTerm::Gradient,
            value_clip: None,
            value_coef: self.value_coef,
            entropy_coef: cx.progress.at(&self.entropy_coef),
            rho_clip: None,
        }
    }
}

impl Algorithm for A2c {
    fn name(&self) -> &'static str {
        "a2c"
    }

    fn statistics(&self) -> &'static [&'static str] {
        GRADIENT
    }

    fn estimate(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        gae(rows, self.gamma, self.gae_lambda, advantages, targets);
    }

    fn loss(&self, cx: &LossContext<'_>, outputs: &Outputs) -> Result<Loss, LearnError> {
        self.surrogate(cx).loss(cx, outputs)
    }

    fn host_gradient(
        &self,
        cx: &LossContext<'_>,
        rows: HeadRows<'_>,
        grads: HeadGrads<'_>,
    ) -> Option<Result<Vec<f64>, LearnError>> {
        self.surrogate(cx).host_gradient(cx, rows, grads)
    }
}
