//! The one error type of this crate.

use crate::dist::DistError;
use std::path::PathBuf;

/// What can go wrong in networks, losses, optimisers, checkpoints and devices.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// libtorch refused an operation; the text is its own.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),

    /// A tensor has another shape or type than the operation needs.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        /// Which tensor, in words.
        what: String,
        /// The shape or type needed.
        expected: String,
        /// The shape or type found.
        found: String,
    },

    /// A specification that cannot be built.
    #[error("invalid {what}: {reason}")]
    Spec {
        /// The thing specified, for example `network`.
        what: &'static str,
        /// What was wrong and what to do.
        reason: String,
    },

    /// A row whose action distribution cannot be used.
    #[error("row {row}: {source}")]
    Distribution {
        /// Row of the batch (a lane, in a rollout).
        row: usize,
        /// Why.
        source: DistError,
    },

    /// Too many updates in a row with gradients that are not finite.
    #[error(
        "{skipped} optimiser steps in a row had a gradient norm that is not finite (last: \
         {norm}); training has diverged. Lower the learning rate, or look for NaN or infinite \
         observations and rewards"
    )]
    Diverged {
        /// Steps skipped in a row.
        skipped: u64,
        /// The last gradient norm.
        norm: f64,
    },

    /// A worker thread of the gradient pool panicked.
    #[error("gradient shard {shard} panicked: {message}")]
    ShardPanicked {
        /// Which shard.
        shard: usize,
        /// The panic's text.
        message: String,
    },

    /// A file operation failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried, for example `write`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },

    /// A checkpoint that does not fit, or is damaged.
    #[error("checkpoint {path}: {reason}")]
    Checkpoint {
        /// The manifest or tensors file.
        path: PathBuf,
        /// What does not fit: tensor, expected, found.
        reason: String,
    },

    /// A device that cannot be used.
    #[error("device `{spelling}`: {reason}")]
    Device {
        /// What the user asked for.
        spelling: String,
        /// The real reason and what would be accepted.
        reason: String,
    },
}
