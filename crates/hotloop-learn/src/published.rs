//! Published policy versions: what inference reads while the learner goes on writing.
//!
//! A version is one set of weights with the statistics of its own. Publishing copies both
//! into a spare slot and makes it the newest; whoever acts with an older version keeps it until done.

use crate::{
    device,
    error::LearnError,
    normalize::{Normalizer, ValueUnit},
    params::Params,
};
use hotloop_math::Standardizer;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One policy version, as the store keeps it.
#[derive(Debug)]
struct Version {
    /// 0 is the initial policy, and each update makes one more.
    number: u64,
    params: Params,
    /// `None` if observations are not normalized.
    standardizer: Option<Standardizer>,
    value_unit: Option<ValueUnit>,
}

/// A version that may be shared; a tensor handle may only be used by one thread at a time, so each
/// holder takes a handle of its own out of the lock.
type Slot = Arc<Mutex<Version>>;

/// A version taken from the [`PolicyStore`]. As long as it lives its memory is not reused.
pub struct Lease {
    slot: Slot,
    /// This holder's own handle on the weights.
    pub params: Params,
    /// The observation statistics of this version.
    pub standardizer: Option<Standardizer>,
    /// The unit in which this version's network says values; `None` if it is that of rewards.
    pub value_unit: Option<ValueUnit>,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease")
            .field("number", &lock(&self.slot).number)
            .finish_non_exhaustive()
    }
}

/// The newest versions, and those still in use.
#[derive(Debug, Default)]
pub struct PolicyStore {
    slots: Mutex<Vec<Slot>>,
    newest: AtomicU64,
}

/// How many of the newest versions can be asked for: the current one, and the one before it, with
/// which overlapped rollouts act.
const KEPT: usize = 2;

impl PolicyStore {
    /// No version yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes version `number`, with the statistics of `normalizer`, the newest, copied into a slot that nobody uses any more, or into a new
    /// one while there is none.
    ///
    /// # Errors
    /// If the layout differs from earlier versions', or the device fails.
    pub fn publish(
        &self,
        number: u64,
        params: &Params,
        normalizer: &Normalizer,
    ) -> Result<(), LearnError> {
        let mut slots = lock(&self.slots);
        let spare = if slots.len() > KEPT {
            // Not `strong_count`, which does not wait for what the last holder read to be read.
            let free = |slot: &mut Slot| Arc::get_mut(slot).is_some();
            let old = slots.len() - KEPT + 1;
            slots[..old].iter_mut().position(free)
        } else {
            None
        };
        let slot = match spare.map(|i| slots.remove(i)) {
            Some(slot) => {
                {
                    let mut version = lock(&slot);
                    version.number = number;
                    version.params.copy_from(params)?;
                    version.value_unit = normalizer.value_unit();
                    match (&mut version.standardizer, normalizer.standardizer()) {
                        (Some(old), Some(new)) => old.copy_from(new),
                        (old, new) => *old = new.cloned(),
                    }
                }
                slot
            }
            None => Arc::new(Mutex::new(Version {
                number,
                params: params.duplicate(),
                standardizer: normalizer.standardizer().cloned(),
                value_unit: normalizer.value_unit(),
            })),
        };
        // Inference reads it on streams of its own.
        device::settle(params.device());
        slots.push(slot);
        self.newest.store(number, Ordering::Release);
        Ok(())
    }

    /// The number of the newest version; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// A handle on version `number`; `None` if it was never published or is gone.
    pub fn lease(&self, number: u64) -> Option<Lease> {
        let slots = lock(&self.slots);
        let slot = slots.iter().find(|slot| lock(slot).number == number)?;
        let version = lock(slot);
        Some(Lease {
            slot: Arc::clone(slot),
            params: version.params.share(),
            standardizer: version.standardizer.clone(),
            value_unit: version.value_unit,
        })
    }
}

/// A panic elsewhere cannot leave a version half written: `copy_from` is one call into libtorch.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::ParamLayout;
    use tch::Device;

    fn params(value: f32) -> Params {
        let mut layout = ParamLayout::default();
        layout.push("w", &[2]);
        Params::from_slice(Arc::new(layout), &[value; 2], Device::Cpu).unwrap()
    }

    #[test]
    fn a_lease_keeps_its_weights_while_newer_versions_are_published() {
        let store = PolicyStore::new();
        store
            .publish(0, &params(0.5), &Normalizer::default())
            .unwrap();
        let lease = store.lease(0).unwrap();
        for number in 1..20 {
            store
                .publish(number, &params(number as f32), &Normalizer::default())
                .unwrap();
            assert_eq!(store.newest(), number);
            for newest in number.saturating_sub(1)..=number {
                let expected = if newest == 0 { 0.5 } else { newest as f32 };
                assert_eq!(
                    store.lease(newest).unwrap().params.to_vec().unwrap(),
                    [expected; 2]
                );
            }
        }
        assert_eq!(lease.params.to_vec().unwrap(), [0.5; 2]);
        assert!(
            store.lease(7).is_none(),
            "old versions nobody uses are reused"
        );
    }

    #[test]
    fn memory_is_reused() {
        let store = PolicyStore::new();
        for number in 0..50 {
            store
                .publish(number, &params(1.0), &Normalizer::default())
                .unwrap();
        }
        assert!(lock(&store.slots).len() <= KEPT + 1);
    }
}
