//! The one error of the facade, which knows whether its reader or the run is to blame.

use crate::config::ConfigError;
use hotloop_env::EnvError;
use hotloop_learn::LearnError;
use hotloop_rollout::RolloutError;
use hotloop_telemetry::TelemetryError;
use std::path::PathBuf;

/// What can go wrong in a run. Each message is one paragraph that can be shown as it is.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A configuration that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An environment that cannot be made, or failed in an evaluation.
    #[error(transparent)]
    Env(#[from] EnvError),
    /// Networks, optimiser, checkpoints or device.
    #[error(transparent)]
    Learn(#[from] LearnError),
    /// The rollout: a fault that ended it, or settings that cannot work.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// The run directory or a file in it.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// A run that cannot be gone on with or evaluated.
    #[error("run {}: {reason}", path.display())]
    Run {
        /// The run's directory.
        path: PathBuf,
        /// What does not fit, and what to do.
        reason: String,
    },
    /// A schedule that cannot be recorded or replayed.
    #[error("schedule {}: {reason}", path.display())]
    Schedule {
        /// Its file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// More memory than there is.
    #[error(
        "{what} of this run take {} MiB, but only {} MiB are available; use {instead}",
        needed >> 20, available >> 20
    )]
    Memory {
        /// What takes it.
        what: &'static str,
        /// Which settings would ask for less.
        instead: &'static str,
        /// Bytes asked for.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// A thread that cannot be started, or panicked.
    #[error("thread {name}: {reason}")]
    Thread {
        /// Its name.
        name: &'static str,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Whether the run could not begin because of what was asked for (exit code 2 of the command line),
    /// rather than failed (1).
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Config(_)
            | Error::Run { .. }
            | Error::Schedule { .. }
            | Error::Memory { .. } => true,
            Error::Learn(error) => {
                matches!(error, LearnError::Device { .. } | LearnError::Spec { .. })
            }
            Error::Rollout(error) => {
                matches!(
                    error,
                    RolloutError::Config { .. } | RolloutError::Memory { .. }
                )
            }
            Error::Telemetry(error) => matches!(error, TelemetryError::Place { .. }),
            Error::Env(_) | Error::Thread { .. } => false,
        }
    }
}
