//! Action distributions over the network's outputs.
//!
//! A [`HeadSpec`] has one part for each leaf of the action space. It has two faces that must agree: plain Rust on
//! host memory, one row at a time for sampling in the rollout and on many rows for hand-written gradients (`rows`),
//! and tensors, for any loss that autograd differentiates (`tensor`). What is stored, and what a log-probability is
//! of, is the policy's own sample before any clip; for a tanh-squashed Gaussian the pre-squash value.

mod categorical;
mod gaussian;
mod head;
mod rows;
pub(crate) mod tensor;
#[cfg(test)]
mod tests;

pub use head::{Deviation, HeadPart, HeadSpec};
pub use rows::{Densities, DensityGrads};

/// Why a row's action distribution cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistError {
    /// The mask leaves nothing to choose from.
    #[error(
        "the action mask of dimension {dimension} allows no action; an environment must leave at \
         least one action valid in every state that is not terminal"
    )]
    NoValidAction {
        /// Element of the stored action, 0 for a single discrete action.
        dimension: usize,
    },
    /// The network's outputs are NaN or infinite.
    #[error(
        "the network's output for action dimension {dimension} is not finite; look for NaN or \
         infinite observations, or a learning rate that is too high"
    )]
    NotFinite {
        /// Element of the stored action, 0 for a single discrete action.
        dimension: usize,
    },
}

/// How an action is chosen from its distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Drawn.
    Sample,
    /// The likeliest: ties go to the lowest index; the mean of a Gaussian.
    Greedy,
}
