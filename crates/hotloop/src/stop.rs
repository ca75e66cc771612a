//! Asking a run to stop, from anywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A handle with which a run can be asked to stop: it finishes its update, writes a checkpoint and
/// returns. Clones are handles on the same run.
#[derive(Clone, Debug, Default)]
pub struct StopHandle(Arc<AtomicBool>);

impl StopHandle {
    /// A handle that asks for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the run to stop.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the run has been asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
