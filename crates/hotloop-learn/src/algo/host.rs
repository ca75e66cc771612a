//! A minibatch's columns as slices, for losses that differentiate themselves.

use super::Minibatch;
use crate::memory;
use std::borrow::Cow;

/// A minibatch's columns as slices.
pub(super) struct HostColumns<'a> {
    pub(super) actions: &'a [i32],
    pub(super) old_log_probs: &'a [f32],
    pub(super) old_values: &'a [f32],
    pub(super) advantages: &'a [f32],
    pub(super) targets: &'a [f32],
    pub(super) valid: &'a [u8],
    pub(super) masks: Option<Cow<'a, [u8]>>,
}

impl<'a> HostColumns<'a> {
    pub(super) fn new(batch: &'a Minibatch) -> Self {
        // SAFETY: a minibatch is only read while losses over it are computed.
        unsafe {
            let valid = memory::u8s(&batch.valid);
            Self {
                actions: memory::i32s(&batch.actions),
                old_log_probs: memory::f32s(&batch.old_log_probs),
                old_values: memory::f32s(&batch.old_values),
                advantages: memory::f32s(&batch.advantages),
                targets: memory::f32s(&batch.targets),
                valid,
                masks: batch
                    .masks
                    .as_ref()
                    .map(|m| full_if_invalid(memory::u8s(m), valid)),
            }
        }
    }
}

/// An invalid row may have an empty mask: it gets a full one, and drops out of the sums.
fn full_if_invalid<'a>(masks: &'a [u8], valid: &[u8]) -> Cow<'a, [u8]> {
    if valid.iter().all(|v| *v != 0) {
        return Cow::Borrowed(masks);
    }
    let width = masks.len() / valid.len();
    let mut masks = masks.to_vec();
    for (mask, _) in masks
        .chunks_exact_mut(width)
        .zip(valid)
        .filter(|(_, v)| **v == 0)
    {
        mask.fill(1);
    }
    Cow::Owned(masks)
}
