//! Asking a run to stop, from anywhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A handle with which a run can be asked to stop: it finishes its update, writes a checkpoint and
/// returns. Clones are handles on the same run.
#[derive(Clone, Debug, Default)]
pub struct StopHandle(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    to_stop: AtomicBool,
    /// Whether the run has begun to leave something behind.
    begun: Mutex<bool>,
}

impl StopHandle {
    /// A handle that asks for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the run to stop.
    pub fn stop(&self) {
        self.0.to_stop.store(true, Ordering::Release);
    }

    /// Whether the run has been asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.to_stop.load(Ordering::Acquire)
    }

    /// Does this if the run is still being put together, so that ending the process leaves nothing behind:
    /// neither a directory nor a change to one that is gone on with. The run does not begin meanwhile.
    pub fn before_it_begins(&self, act: impl FnOnce()) {
        let begun = self.begun();
        if !*begun {
            act();
        }
    }

    /// From here on the run leaves something behind.
    pub(crate) fn begin(&self) {
        *self.begun() = true;
    }

    fn begun(&self) -> MutexGuard<'_, bool> {
        self.0.begun.lock().unwrap_or_else(PoisonError::into_inner)
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
