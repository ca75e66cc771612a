//! What a run tells the world: its directory on disk, its metrics as JSON lines, and its progress on
//! the terminal.
//!
//! A leaf of the workspace: the trainer reports one [`Update`] after another to a [`Reporter`], which
//! adds the times and hands them to every [`Sink`]. Nothing here knows of environments, tensors or
//! threads, and nothing here writes to standard output, which belongs to results.

mod atomic;
mod console;
mod error;
mod format;
mod manifest;
mod metrics;
mod progress;
mod reporter;
mod run_dir;
mod stamp;
mod update;

pub use atomic::write_atomic;
pub use console::Console;
pub use error::TelemetryError;
pub use manifest::{Host, Manifest};
pub use metrics::MetricsFile;
pub use progress::Progress;
pub use reporter::{Reporter, Totals};
pub use run_dir::RunDir;
pub use stamp::Stamp;
pub use update::{Evaluation, Flow, Run, Shares, Sink, Timing, Update};
