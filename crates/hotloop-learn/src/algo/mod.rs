//! Learning algorithms: what a batch of rows says about the policy, as a loss and statistics.

mod a2c;
mod appo;
mod host;
mod impala;
mod minibatch;
mod ppo;
mod surrogate;
#[cfg(test)]
mod tests;

pub use a2c::A2c;
pub use appo::Appo;
pub use impala::Impala;
pub use minibatch::{Minibatch, Sequences};
pub use ppo::Ppo;

use crate::{
    dist::HeadSpec,
    error::LearnError,
    net::Outputs,
    objective::{HeadGrads, HeadRows, Loss, Objective},
};
use hotloop_math::{Rows, Schedule};

/// How far a run has come, for scheduled coefficients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of the update, from 0.
    pub update: u64,
    /// Updates of the whole run.
    pub total: u64,
}

impl Progress {
    /// The value of a schedule at this update.
    pub fn at(&self, schedule: &Schedule) -> f64 {
        schedule.at(self.update, self.total)
    }
}

/// What an algorithm may look at when it computes a loss.
#[derive(Clone, Copy, Debug)]
pub struct LossContext<'a> {
    /// The action distribution.
    pub head: &'a HeadSpec,
    /// The rows, or the shard of them that is being differentiated.
    pub batch: &'a Minibatch,
    /// How far the run has come.
    pub progress: Progress,
}

/// An actor-critic algorithm: rows in, a loss and statistics out. It keeps no state.
///
/// Losses and statistics are sums over the valid rows handed in, divided by
/// [`Minibatch::valid_count`] of the whole minibatch, so that those of its shards add up.
pub trait Algorithm: Send + Sync {
    /// Short name, for logs and manifests.
    fn name(&self) -> &'static str;

    /// Names of the statistics that a loss returns, in order.
    fn statistics(&self) -> &'static [&'static str];

    /// Whether [`estimate`](Self::estimate) is to see the rows as the policy that is trained does. If so
    /// the values of its rows are those of the weights that the update begins with, and the rows have
    /// the log-ratios of their actions; else the values are the rollout's, and there are no log-ratios.
    fn reevaluates(&self) -> bool {
        false
    }

    /// Advantages and value targets of a segment, once per update, before the first step.
    fn estimate(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]);

    /// The loss over `cx.batch`, given the network's outputs for its rows.
    ///
    /// # Errors
    /// If the rows do not fit the outputs.
    fn loss(&self, cx: &LossContext<'_>, outputs: &Outputs) -> Result<Loss, LearnError>;

    /// The same loss with gradients of its own, see [`Objective::host_gradient`]. An algorithm that
    /// leaves this out is differentiated by autograd.
    fn host_gradient(
        &self,
        _cx: &LossContext<'_>,
        _rows: HeadRows<'_>,
        _grads: HeadGrads<'_>,
    ) -> Option<Result<Vec<f64>, LearnError>> {
        None
    }
}

/// An algorithm bound to the rows it is to be differentiated over.
pub struct BoundLoss<'a> {
    /// The algorithm.
    pub algorithm: &'a dyn Algorithm,
    /// Its rows.
    pub cx: LossContext<'a>,
}

impl Objective for BoundLoss<'_> {
    fn loss(&self, outputs: &Outputs) -> Result<Loss, LearnError> {
        self.algorithm.loss(&self.cx, outputs)
    }

    fn host_gradient(
        &self,
        rows: HeadRows<'_>,
        grads: HeadGrads<'_>,
    ) -> Option<Result<Vec<f64>, LearnError>> {
        self.algorithm.host_gradient(&self.cx, rows, grads)
    }
}
