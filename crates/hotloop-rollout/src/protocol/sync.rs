//! Atomics, locks and queues: the real ones, or loom's under the model checker.

#[cfg(not(feature = "loom"))]
pub use crossbeam_queue::ArrayQueue;
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(feature = "loom")]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(feature = "loom")]
pub use model::ArrayQueue;

/// Locks `mutex`. The states kept under locks here are whole at every moment, so a panic elsewhere
/// does not spoil them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Keeps two things that different threads write at a high rate out of one cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// Stand-ins for what the model checker cannot see into.
#[cfg(feature = "loom")]
mod model {
    use super::{AtomicUsize, Ordering};
    use loom::cell::UnsafeCell;

    const EMPTY: usize = 0;
    const BUSY: usize = 1;
    const FULL: usize = 2;

    /// A bounded queue without order, which synchronizes no more than a queue must: a pop with the push
    /// whose item it returns.
    #[derive(Debug)]
    pub struct ArrayQueue<T> {
        slots: Vec<(AtomicUsize, UnsafeCell<Option<T>>)>,
    }

    // SAFETY: an item is only touched by who has marked its slot busy.
    unsafe impl<T: Send> Sync for ArrayQueue<T> {}

    impl<T> ArrayQueue<T> {
        pub fn new(capacity: usize) -> Self {
            Self {
                slots: (0..capacity)
                    .map(|_| (AtomicUsize::new(EMPTY), UnsafeCell::new(None)))
                    .collect(),
            }
        }

        pub fn push(&self, item: T) -> Result<(), T> {
            for (state, cell) in &self.slots {
                if claim(state, EMPTY) {
                    // SAFETY: the slot is ours while it is busy.
                    cell.with_mut(|place| unsafe { *place = Some(item) });
                    state.store(FULL, Ordering::Release);
                    return Ok(());
                }
            }
            Err(item)
        }

        pub fn pop(&self) -> Option<T> {
            for (state, cell) in &self.slots {
                if claim(state, FULL) {
                    // SAFETY: the slot is ours while it is busy.
                    let item = cell.with_mut(|place| unsafe { (*place).take() });
                    state.store(EMPTY, Ordering::Release);
                    return item;
                }
            }
            None
        }

        pub fn capacity(&self) -> usize {
            self.slots.len()
        }

        pub fn is_empty(&self) -> bool {
            let full = |(state, _): &(AtomicUsize, _)| state.load(Ordering::Acquire) == FULL;
            !self.slots.iter().any(full)
        }
    }

    fn claim(state: &AtomicUsize, from: usize) -> bool {
        state
            .compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}
