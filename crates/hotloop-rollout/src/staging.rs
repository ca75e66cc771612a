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
use hotloop_env::Spaces;

/// All memory that a batch needs, taken once.
pub(crate) struct Staging {
    /// Words, so that records are aligned for any element. Frames that are seen at once lie a row apart.
    observations: Vec<u64>,
    depths: Vec<u16>,
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
            observations: words(spaces.stack * spaces.observation.record_bytes()),
            depths: vec![0; if spaces.stack > 1 { lanes } else { 0 }],
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

    /// Gathers the rows of `batons`, which are all to be decided alike.
    pub(crate) fn gather<'a>(&'a mut self, batons: &mut [Box<Baton>], hub: &'a Hub) -> Batch<'a> {
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
        // A row of the batch, of which there are as many as frames are seen at once.
        let across = batons.len() * hub.config.lanes_per_group() * observation;
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
            let row = n * observation;
            for frame in 0..spaces.stack {
                let at = frame * across + start * observation;
                observations[at..at + row]
                    .copy_from_slice(&places.observations[frame * row..(frame + 1) * row]);
            }
            if !places.depths.is_empty() {
                self.depths[start..end].copy_from_slice(places.depths);
            }
            self.masks[start * mask..end * mask].copy_from_slice(places.masks);
            self.valid[start..end].copy_from_slice(places.valid);
            self.starts[start..end].copy_from_slice(places.starts);
            self.counters[start..end].fill(counter);
            for (i, lane) in self.lanes[start..end].iter_mut().enumerate() {
                *lane = first_lane + i;
            }
        }
        let decided = if bootstrap { 0 } else { end };
        Batch {
            spaces,
            observations: &observations[..spaces.stack * end * observation],
            depths: &self.depths[..if spaces.stack > 1 { end } else { 0 }],
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
        }
    }

    /// Gives the decisions back to the rows that were gathered last.
    pub(crate) fn scatter(&self, batons: &mut [Box<Baton>]) {
        let actions: &[u8] = bytemuck::cast_slice(&self.actions);
        let states: &[u8] = bytemuck::cast_slice(&self.states);
        let mut start = 0;
        for baton in batons.iter_mut() {
            let (row, bootstrap) = (baton.row, baton.call.bootstrap);
            let places = baton.buf().decision_row(row, bootstrap);
            let n = places.values.len();
            places
                .values
                .copy_from_slice(&self.values[start..start + n]);
            // Empty where only values are wanted, and where states are not kept.
            let decided = places.log_probs.len();
            places
                .log_probs
                .copy_from_slice(&self.log_probs[start..start + decided]);
            let action = places.actions.len() / n;
            places
                .actions
                .copy_from_slice(&actions[start * action..(start + n) * action]);
            let state = places.states.len() / n;
            places
                .states
                .copy_from_slice(&states[start * state..(start + n) * state]);
            start += n;
        }
    }
}
