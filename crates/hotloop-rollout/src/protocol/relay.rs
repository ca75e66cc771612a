//! Wakes many tasks at the price of one wake-up from outside the runtime.
//!
//! A wake from an OS thread goes through a queue that all of the runtime's threads share, under a lock;
//! a wake from inside goes to the waking thread's own queue. So a thread lists whom to wake, and wakes
//! only the relay, a task that wakes the others.

use super::Close;
use super::seat::Seat;
use super::sync::{ArrayQueue, AtomicBool, Ordering};
use std::task::{Context, Poll};

/// How many tasks are woken at a time: fewer than a thread's own queue holds, so that none goes the way
/// outside, and so few that what waking them touched is still in the cache when they run.
const SLICE: usize = if cfg!(feature = "loom") { 1 } else { 64 };

/// A list of tasks to be woken by another one.
#[derive(Debug)]
pub struct Relay {
    list: ArrayQueue<usize>,
    seat: Seat,
    closed: AtomicBool,
}

impl Relay {
    /// For at most `capacity` tasks at a time.
    pub fn new(capacity: usize) -> Self {
        Self {
            list: ArrayQueue::new(capacity),
            seat: Seat::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Lists a task. Returned if the list is full.
    pub fn list(&self, task: usize) -> Result<(), usize> {
        self.list.push(task)
    }

    /// Has all listed tasks woken.
    pub fn run(&self) {
        self.seat.wake_early();
    }

    /// The relay's own task: calls `wake` for each task listed, and ends when the relay is closed.
    pub fn poll(&self, cx: &Context<'_>, wake: impl Fn(usize)) -> Poll<()> {
        self.seat.sit(cx.waker());
        for _ in 0..SLICE {
            let Some(task) = self.list.pop() else { break };
            wake(task);
        }
        if !self.list.is_empty() {
            // The rest after these have run.
            cx.waker().wake_by_ref();
        }
        if self.closed.load(Ordering::Acquire) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Close for Relay {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.seat.wake_early();
    }
}
