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
pub use model::{ArrayQueue, Place};

/// Room for one thing, that of a pointer: putting and taking are one atomic exchange.
#[cfg(not(feature = "loom"))]
pub struct Place<T>(crossbeam_utils::atomic::AtomicCell<Option<T>>);

#[cfg(not(feature = "loom"))]
impl<T> std::fmt::Debug for Place<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Place")
    }
}

#[cfg(not(feature = "loom"))]
impl<T> Place<T> {
    /// Nothing yet.
    pub fn empty() -> Self {
        const {
            assert!(
                crossbeam_utils::atomic::AtomicCell::<Option<T>>::is_lock_free(),
                "only what is as small as a pointer is exchanged without a lock"
            )
        }
        Self(crossbeam_utils::atomic::AtomicCell::new(None))
    }

    /// Puts a thing there, and returns the one that was.
    pub fn put(&self, item: T) -> Option<T> {
        self.0.swap(Some(item))
    }

    /// Takes the thing that is there.
    pub fn take(&self) -> Option<T> {
        self.0.take()
    }
}

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

    /// As the real one: an exchange is atomic, and synchronizes with the one before it.
    #[derive(Debug)]
    pub struct Place<T>(ArrayQueue<T>);

    impl<T> Place<T> {
        pub fn empty() -> Self {
            Self(ArrayQueue::new(1))
        }

        pub fn put(&self, item: T) -> Option<T> {
            let before = self.0.pop();
            assert!(
                self.0.push(item).is_ok(),
                "one thread at a time puts things"
            );
            before
        }

        pub fn take(&self) -> Option<T> {
            self.0.pop()
        }
    }

    fn claim(state: &AtomicUsize, from: usize) -> bool {
        state
            .compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}
