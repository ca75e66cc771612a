//! The batch in which a first-ready worker gathers the rows of several blocks, and from which the
//! decisions go back.
#![allow(
    clippy::vec_box,
    clippy::borrowed_box,
    reason = "batons are boxed to move from queue to queue"
)]

use crate::batch::{Batch, Kind, Places};
use crate::first_ready::Baton;
use crate::hub::Hub;
use crate::ticket::Call;
use crate::{Policy, PolicyError};
use hotloop_env::Spaces;

/// All memory that a batch needs, taken once.
pub(crate) struct Staging {
    /// Words, so that records are aligned for any element.
    observations: Vec<u64>,
    masks: Vec<u8>,
    valid: Vec<u8>,
    starts: Vec<u8>,
    actions: Vec<u64>,
    log_probs: Vec<f32>,
    values: Vec<f32>,
    states: Vec<u64>,
    lanes: Vec<usize>,
    counters: Vec<u64>,
}

impl Staging {
    /// Room for `lanes`, whose states take `state` bytes each.
    pub(crate) fn new(spaces: &Spaces, lanes: usize, state: usize) -> Self {
        let words = |bytes: usize| vec![0u64; (lanes * bytes).div_ceil(size_of::<u64>())];
        Self {
            observations: words(spaces.observation.record_bytes()),
            masks: vec![0; lanes * spaces.action.mask_bytes()],
            valid: vec![0; lanes],
            starts: vec![0; lanes],
            actions: words(spaces.action.record_bytes()),
            log_probs: vec![0.0; lanes],
            values: vec![0.0; lanes],
            states: words(state),
            lanes: vec![0; lanes],
            counters: vec![0; lanes],
        }
    }

    /// Has `policy` decide on the rows of `batons`, which are all to be decided alike.
    pub(crate) fn decide(
        &mut self,
        batons: &mut [Box<Baton>],
        policy: &mut dyn Policy,
        hub: &Hub,
    ) -> Result<usize, PolicyError> {
        let spaces = &*hub.spaces;
        let (observation, mask, action) = (
            spaces.observation.record_bytes(),
            spaces.action.mask_bytes(),
            spaces.action.record_bytes(),
        );
        let Call { version, bootstrap } = batons[0].call;
        let observations: &mut [u8] = bytemuck::cast_slice_mut(&mut self.observations);
        let actions: &mut [u8] = bytemuck::cast_slice_mut(&mut self.actions);
        let states: &mut [u8] = bytemuck::cast_slice_mut(&mut self.states);
        let (mut end, mut kept) = (0, 0);
        for baton in batons.iter_mut() {
            let (row, counter, first_lane) = (
                baton.row,
                baton.decisions,
                hub.desks[baton.block].first_lane,
            );
            if row > 0 {
                baton.buf().mark_starts(row - 1);
            }
            let places = baton.buf().decision_row(row, bootstrap);
            let (start, n) = (end, places.valid.len());
            end += n;
            kept = kept.max(places.states.len() / n);
            observations[start * observation..end * observation]
                .copy_from_slice(places.observations);
            self.masks[start * mask..end * mask].copy_from_slice(places.masks);
            self.valid[start..end].copy_from_slice(places.valid);
            self.starts[start..end].copy_from_slice(places.starts);
            self.counters[start..end].fill(counter);
            for (i, lane) in self.lanes[start..end].iter_mut().enumerate() {
                *lane = first_lane + i;
            }
        }
        let decided = if bootstrap { 0 } else { end };
        policy.decide(&mut Batch {
            spaces,
            observations: &observations[..end * observation],
            masks: &self.masks[..end * mask],
            valid: &self.valid[..end],
            starts: &self.starts[..end],
            actions: &mut actions[..decided * action],
            log_probs: &mut self.log_probs[..decided],
            values: &mut self.values[..end],
            states: &mut states[..end * kept],
            places: Places(Kind::Each {
                lanes: &self.lanes[..end],
                counters: &self.counters[..end],
            }),
            version,
            bootstrap,
        })?;
        let mut start = 0;
        for baton in batons.iter_mut() {
            let row = baton.row;
            let places = baton.buf().decision_row(row, bootstrap);
            let end = start + places.values.len();
            places.values.copy_from_slice(&self.values[start..end]);
            if !places.states.is_empty() {
                places
                    .states
                    .copy_from_slice(&states[start * kept..end * kept]);
            }
            if !bootstrap {
                places
                    .log_probs
                    .copy_from_slice(&self.log_probs[start..end]);
                places
                    .actions
                    .copy_from_slice(&actions[start * action..end * action]);
            }
            start = end;
        }
        Ok(end)
    }
}
