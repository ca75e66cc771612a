//! Gives things to a task, one at a time.

use super::Close;
use super::seat::Seat;
use super::sync::{AtomicBool, Ordering, Place};
use std::task::{Context, Poll};

/// A place for one thing, at which one task waits. All of it lies in one cache line, since there may be
/// thousands that are used in turn.
#[derive(Debug)]
pub struct Handoff<T> {
    item: Place<T>,
    seat: Seat,
    closed: AtomicBool,
}

impl<T> Default for Handoff<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Handoff<T> {
    /// An empty place.
    pub fn new() -> Self {
        Self {
            item: Place::empty(),
            seat: Seat::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Gives a thing to the task. The one that was there is returned.
    pub fn give(&self, item: T) -> Option<T> {
        let before = self.leave(item);
        self.wake();
        before
    }

    /// Leaves a thing for the task, which is to be [woken](Handoff::wake) later. The one that was there is
    /// returned.
    pub fn leave(&self, item: T) -> Option<T> {
        self.item.put(item)
    }

    /// Wakes the task.
    pub fn wake(&self) {
        self.seat.wake_early();
    }

    /// Takes what was given; `None` once the place is closed. Always to be called by the same task.
    pub fn poll_take(&self, cx: &Context<'_>) -> Poll<Option<T>> {
        self.seat.sit(cx.waker());
        if self.closed.load(Ordering::Acquire) {
            return Poll::Ready(None);
        }
        match self.item.take() {
            Some(item) => Poll::Ready(Some(item)),
            None => Poll::Pending,
        }
    }
}

impl<T: Send> Close for Handoff<T> {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.seat.wake_early();
    }
}
