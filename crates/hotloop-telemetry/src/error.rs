//! What can go wrong with a run's files.

use std::io;
use std::path::PathBuf;

/// A file or directory of a run that cannot be used: which, and why.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The run directory's path cannot be one.
    #[error("run directory {path:?}: {reason}")]
    Place {
        /// The path as it was given.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: String,
    },

    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried (`create the run directory`, `write`, …).
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason the system gave.
        source: io::Error,
    },

    /// A file of the run holds something else than expected.
    #[error("{} is not what hotloop wrote: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl TelemetryError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.into(),
            source,
        }
    }
}
