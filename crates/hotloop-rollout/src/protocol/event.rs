//! Where threads sleep until something has happened: an event count.
//!
//! Whoever makes something happen pays one fence and one load while nobody sleeps; no wake-up is lost
//! and no timer is needed.

use super::sync::{AtomicBool, Condvar, Mutex, Ordering, fence, lock};
use std::time::Instant;

/// A place to sleep at, with [`Event::notify`] as the alarm.
#[derive(Debug)]
pub struct Event {
    /// Set by whoever goes to sleep; taken by the one who rings the alarm, so that many who make things
    /// happen at once ring it once.
    sleeping: AtomicBool,
    alarms: Mutex<u64>,
    rung: Condvar,
}

impl Default for Event {
    fn default() -> Self {
        Self::new()
    }
}

impl Event {
    /// A place where nobody sleeps.
    pub fn new() -> Self {
        Self {
            sleeping: AtomicBool::new(false),
            alarms: Mutex::new(0),
            rung: Condvar::new(),
        }
    }

    /// Wakes everybody who sleeps here. To be called after whatever they wait for was made true.
    pub fn notify(&self) {
        // Pairs with the fence in `wait`: either the sleeper sees what was made true, or this sees the
        // sleeper.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::AcqRel) {
            *lock(&self.alarms) += 1;
            self.rung.notify_all();
        }
    }

    /// Sleeps until `ready` returns something; it is asked again after every [`Event::notify`].
    pub fn wait<T>(&self, ready: impl FnMut() -> Option<T>) -> T {
        match self.wait_until(None, ready) {
            Some(value) => value,
            None => unreachable!("a wait without a deadline ends only with a value"),
        }
    }

    /// As [`Event::wait`], but gives up at `deadline`.
    pub fn wait_until<T>(
        &self,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let Some(value) = ready() {
            return Some(value);
        }
        loop {
            let alarms = *lock(&self.alarms);
            // Release: whoever takes this rings later than `alarms` was read.
            self.sleeping.store(true, Ordering::Release);
            fence(Ordering::SeqCst);
            if let Some(value) = ready() {
                return Some(value);
            }
            if !self.sleep(alarms, deadline) {
                return ready();
            }
        }
    }

    /// Sleeps until there were more than `alarms` alarms. False at the deadline.
    fn sleep(&self, alarms: u64, deadline: Option<Instant>) -> bool {
        let mut now = lock(&self.alarms);
        while *now == alarms {
            now = match deadline {
                None => self
                    .rung
                    .wait(now)
                    .unwrap_or_else(|poisoned| poisoned.into_inner()),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.rung
                        .wait_timeout(now, left)
                        .unwrap_or_else(|poisoned| poisoned.into_inner())
                        .0
                }
            };
        }
        true
    }
}
