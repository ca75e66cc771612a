//! Gives things to a task, one at a time.

use super::Close;
use super::seat::Seat;
use super::sync::{ArrayQueue, AtomicBool, Ordering};
use std::task::{Context, Poll};

/// A place for one thing, at which one task waits.
#[derive(Debug)]
pub struct Handoff<T> {
    item: ArrayQueue<T>,
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
            item: ArrayQueue::new(1),
            seat: Seat::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Gives a thing to the task. Returned if there is one already.
    pub fn give(&self, item: T) -> Result<(), T> {
        self.leave(item)?;
        self.wake();
        Ok(())
    }

    /// Leaves a thing for the task, which is to be [woken](Handoff::wake) later.
    pub fn leave(&self, item: T) -> Result<(), T> {
        self.item.push(item)
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
        match self.item.pop() {
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
