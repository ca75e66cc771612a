//! A bounded queue with the sleep of those who find it empty: of rows that are ready for inference, and
//! of segments that are full.

use super::Close;
use super::event::Event;
use super::sync::{ArrayQueue, AtomicBool, Ordering};
use std::time::Instant;

/// What became of waiting for an item.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// Here it is.
    Item(T),
    /// None came before the deadline.
    TimedOut,
    /// The queue is closed; what is left in it is nobody's any more.
    Closed,
}

/// A bounded queue with sleeping consumers. An idle consumer takes what is there at once; nothing is
/// waited for in the hope of more.
#[derive(Debug)]
pub struct Inbox<T> {
    items: ArrayQueue<T>,
    closed: AtomicBool,
    arrivals: Event,
}

impl<T> Inbox<T> {
    /// An empty queue for at most `capacity` items.
    pub fn new(capacity: usize) -> Self {
        Self {
            items: ArrayQueue::new(capacity),
            closed: AtomicBool::new(false),
            arrivals: Event::new(),
        }
    }

    /// Adds an item and wakes consumers that sleep. A full queue returns the item: the capacity is to
    /// be chosen so that this cannot be.
    pub fn push(&self, item: T) -> Result<(), T> {
        self.items.push(item)?;
        self.arrivals.notify();
        Ok(())
    }

    /// Takes an item if there is one.
    pub fn try_pop(&self) -> Option<T> {
        self.items.pop()
    }

    /// Waits for an item, until `deadline` if there is one.
    pub fn pop(&self, deadline: Option<Instant>) -> Received<T> {
        let outcome = self.arrivals.wait_until(deadline, || {
            if self.closed.load(Ordering::Acquire) {
                return Some(Received::Closed);
            }
            self.try_pop().map(Received::Item)
        });
        outcome.unwrap_or(Received::TimedOut)
    }
}

impl<T: Send> Close for Inbox<T> {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.arrivals.notify();
    }
}
