//! How a task is woken: its waker is left here once, before the task first takes part in anything.
//!
//! A task's waker stays good for as long as the task lives, so one registration is enough, and a wait
//! costs the task no more than one load. No wake-up is lost: the waker is called after the thing that
//! the task waits for was published, and a wake during a poll makes the executor poll again.

use super::sync::{Ordering, fence};
use std::sync::OnceLock;
use std::task::Waker;

/// The place of one task's waker.
#[derive(Debug, Default)]
pub struct Seat(OnceLock<Waker>);

impl Seat {
    /// Leaves the waker, if it is not here yet. Whatever the task waits for must be looked at after
    /// this.
    pub fn sit(&self, waker: &Waker) {
        if self.0.get().is_none() {
            self.0.get_or_init(|| waker.clone());
            // Pairs with the fence in `wake_early`: a task that sits down while it is told something
            // either is woken or sees it.
            fence(Ordering::SeqCst);
        }
    }

    /// Wakes the task, which must have sat down. To be called after what it waits for was published.
    pub fn wake(&self) {
        if let Some(waker) = self.0.get() {
            waker.wake_by_ref();
        }
    }

    /// As [`Seat::wake`], for news that may come before the task has sat down.
    pub fn wake_early(&self) {
        fence(Ordering::SeqCst);
        self.wake();
    }
}
