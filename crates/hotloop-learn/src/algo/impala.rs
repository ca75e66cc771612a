//! IMPALA (Espeholt et al. 2018): the plain policy gradient on rows of older policies, corrected by
//! V-trace.

use super::{
    Algorithm, LossContext,
    surrogate::{GRADIENT_CORRECTED, PolicyTerm, Surrogate},
};
use crate::{
    error::LearnError,
    net::Outputs,
    objective::{HeadGrads, HeadRows, Loss},
};
use hotloop_math::{Rows, Schedule, VTrace, vtrace};

/// Coefficients of IMPALA. The loss is `−A·ln π + value_coef · value − entropy_coef · entropy`, where
/// `A` is weighted by the clipped ratio; it is meant for one pass over each batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Impala {
    /// The estimator.
    pub vtrace: VTrace,
    /// Weight of the value loss `½ (V − target)²`.
    pub value_coef: f64,
    /// Weight of the entropy bonus.
    pub entropy_coef: Schedule,
}

impl Default for Impala {
    /// The paper's values.
    fn default() -> Self {
        Self {
            vtrace: VTrace::default(),
            value_coef: 0.5,
            entropy_coef: Schedule::Constant(0.01),
        }
    }
}

impl Impala {
    fn surrogate(&self, cx: &LossContext<'_>) -> Surrogate {
        Surrogate {
            policy: PolicyTerm::Gradient,
            value_clip: None,
            value_coef: self.value_coef,
            entropy_coef: cx.progress.at(&self.entropy_coef),
            rho_clip: Some(self.vtrace.rho_clip),
        }
    }
}

impl Algorithm for Impala {
    fn name(&self) -> &'static str {
        "impala"
    }

    fn statistics(&self) -> &'static [&'static str] {
        GRADIENT_CORRECTED
    }

    fn reevaluates(&self) -> bool {
        true
    }

    fn estimate(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        vtrace(rows, &self.vtrace, advantages, targets);
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
