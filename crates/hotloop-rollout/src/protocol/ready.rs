//! The queue of what is ready for inference, and the sleep of workers who find it empty.

use super::Close;
use super::event::Event;
use super::sync::{ArrayQueue, AtomicBool, Ordering};

/// A bounded queue with sleeping consumers. An idle consumer takes what is there at once; nothing is
/// waited for in the hope of a fuller batch.
#[derive(Debug)]
pub struct ReadyQueue<T> {
    items: ArrayQueue<T>,
    closed: AtomicBool,
    arrivals: Event,
}

impl<T> ReadyQueue<T> {
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

    /// Waits for an item; `None` once the queue is closed.
    pub fn pop(&self) -> Option<T> {
        self.arrivals.wait(|| {
            if self.closed.load(Ordering::Acquire) {
                return Some(None);
            }
            self.try_pop().map(Some)
        })
    }
}

impl<T: Send> Close for ReadyQueue<T> {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.arrivals.notify();
    }
}
