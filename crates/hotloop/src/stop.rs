//! Asking a run to stop, from anywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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

/// What is nearly done when a run is asked to stop is still waited for, but not for ever.
pub(crate) struct Patience {
    stop: StopHandle,
    since: Option<Instant>,
}

impl Patience {
    const LASTS: Duration = Duration::from_secs(3);

    pub(crate) fn new(stop: &StopHandle) -> Self {
        Self {
            stop: stop.clone(),
            since: None,
        }
    }

    /// Whether it has been a while since the run was asked to stop.
    pub(crate) fn is_over(&mut self) -> bool {
        self.stop.is_stopped()
            && self.since.get_or_insert_with(Instant::now).elapsed() > Self::LASTS
    }
}
