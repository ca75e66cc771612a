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
use crate::{Policy, PolicyError};
use hotloop_env::Spaces;

/// All memory that a batch needs, taken once.
pub(crate) struct Staging {
    /// Words, so that records are aligned for any element.
    observations: Vec<u64>,
    masks: Vec<u8>,
    valid: Vec<u8>,
    actions: Vec<u64>,
    log_probs: Vec<f32>,
    values: Vec<f32>,
    lanes: Vec<usize>,
    counters: Vec<u64>,
}

impl Staging {
    pub(crate) fn new(spaces: &Spaces, lanes: usize) -> Self {
        let words = |bytes: usize| vec![0u64; (lanes * bytes).div_ceil(size_of::<u64>())];
        Self {
            observations: words(spaces.observation.record_bytes()),
            masks: vec![0; lanes * spaces.action.mask_bytes()],
            valid: vec![0; lanes],
            actions: words(spaces.action.record_bytes()),
            log_probs: vec![0.0; lanes],
            values: vec![0.0; lanes],
            lanes: vec![0; lanes],
            counters: vec![0; lanes],
        }
    }

    /// Has `policy` decide on the rows of `batons`, which all have one version, and all or none of
    /// which are to be evaluated only.
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
        let (bootstrap, version) = (batons[0].bootstrap(), batons[0].version);
        let observations: &mut [u8] = bytemuck::cast_slice_mut(&mut self.observations);
        let actions: &mut [u8] = bytemuck::cast_slice_mut(&mut self.actions);
        let mut end = 0;
        for baton in batons.iter_mut() {
            let (row, counter, first_lane) = (
                baton.row,
                baton.decisions,
                hub.desks[baton.block].first_lane,
            );
            let places = baton.buf().decision_row(row);
            let (start, n) = (end, places.valid.len());
            end += n;
            observations[start * observation..end * observation]
                .copy_from_slice(places.observations);
            self.masks[start * mask..end * mask].copy_from_slice(places.masks);
            self.valid[start..end].copy_from_slice(places.valid);
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
            actions: &mut actions[..decided * action],
            log_probs: &mut self.log_probs[..decided],
            values: &mut self.values[..end],
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
            let places = baton.buf().decision_row(row);
            let end = start + places.values.len();
            places.values.copy_from_slice(&self.values[start..end]);
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
