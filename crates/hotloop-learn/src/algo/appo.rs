//! Asynchronous PPO: V-trace targets for rows of older policies, and PPO's clip for the policy.

use super::{
    Progress,
    surrogate::{CLIPPED_CORRECTED, PolicyTerm, Surrogate, Surrogated},
};
use hotloop_math::{Rows, Schedule, VTrace, vtrace};

/// Coefficients of APPO. The loss is PPO's, with the ratio π/μ to the policy that chose the row; one
/// pass or several. V-trace is taken once per update, before the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Appo {
    /// The estimator. Its advantages carry no weight of their own, whatever `rho_pg_clip` says: the
    /// surrogate's ratio is the same weight already.
    pub vtrace: VTrace,
    /// Half-width of the ratio's clip around 1.
    pub clip: Schedule,
    /// Half-width of the clip of values around their rollout values; `None` does not clip.
    pub value_clip: Option<f64>,
    /// Weight of the value loss `½ (V − target)²`.
    pub value_coef: f64,
    /// Weight of the entropy bonus.
    pub entropy_coef: Schedule,
}

impl Default for Appo {
    /// PPO's values, with V-trace's clips at 1.
    fn default() -> Self {
        Self {
            vtrace: VTrace {
                lambda: 0.95,
                ..VTrace::default()
            },
            clip: Schedule::Constant(0.2),
            value_clip: None,
            value_coef: 0.5,
            entropy_coef: Schedule::Constant(0.01),
        }
    }
}

impl Surrogated for Appo {
    const NAME: &'static str = "appo";
    const STATISTICS: &'static [&'static str] = CLIPPED_CORRECTED;
    const REEVALUATES: bool = true;

    fn assess(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        let unweighted = VTrace {
            rho_pg_clip: None,
            ..self.vtrace
        };
        vtrace(rows, &unweighted, advantages, targets);
    }

    fn surrogate(&self, progress: Progress) -> Surrogate {
        Surrogate {
            policy: PolicyTerm::Clipped(progress.at(&self.clip)),
            value_clip: self.value_clip,
            value_coef: self.value_coef,
            entropy_coef: progress.at(&self.entropy_coef),
            rho_clip: Some(self.vtrace.rho_clip),
        }
    }
}
