//! IMPALA (Espeholt et al. 2018): the plain policy gradient on rows of older policies, corrected by
//! V-trace.

use super::{
    Progress,
    surrogate::{GRADIENT_CORRECTED, PolicyTerm, Surrogate, Surrogated},
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

impl Surrogated for Impala {
    const NAME: &'static str = "impala";
    const STATISTICS: &'static [&'static str] = GRADIENT_CORRECTED;
    const REEVALUATES: bool = true;

    fn assess(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        vtrace(rows, &self.vtrace, advantages, targets);
    }

    fn surrogate(&self, progress: Progress) -> Surrogate {
        Surrogate {
            policy: PolicyTerm::Gradient,
            value_clip: None,
            value_coef: self.value_coef,
            entropy_coef: progress.at(&self.entropy_coef),
            rho_clip: Some(self.vtrace.rho_clip),
        }
    }
}
