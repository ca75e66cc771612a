//! The memory of a turn in an evaluation.

use super::frames::Frames;
use hotloop_env::{Fault, LaneStates, Rows, RowsParts, Spaces, Stacks, end_flags};
use hotloop_rollout::{Bounding, Clip};

/// The rows that an evaluation needs: one, whose next is itself.
pub(super) struct Row {
    pub(super) frames: Frames,
    /// Eight-byte words, so that elements of any type are aligned.
    actions: Vec<u64>,
    masks: Vec<u8>,
    clip: Clip,
    pub(super) valid: Vec<u8>,
    pub(super) next_valid: Vec<u8>,
    rewards: Vec<f32>,
    pub(super) ends: Vec<u8>,
    pub(super) returns: Vec<f32>,
    pub(super) lengths: Vec<u32>,
    /// Failures that nobody has taken yet.
    pub(super) faults: Vec<Fault>,
}

impl Row {
    pub(super) fn new(spaces: &Spaces, lanes: usize, bounding: Bounding) -> Self {
        let words = |bytes: usize| vec![0u64; (bytes * lanes).div_ceil(8)];
        Self {
            frames: Frames::new(spaces, lanes),
            actions: words(spaces.action.record_bytes()),
            clip: Clip::new(&spaces.action, lanes, bounding),
            masks: vec![1; spaces.action.mask_bytes() * lanes],
            valid: vec![0; lanes],
            next_valid: vec![0; lanes],
            rewards: vec![0.0; lanes],
            ends: vec![0; lanes],
            returns: vec![0.0; lanes],
            lengths: vec![0; lanes],
            faults: vec![],
        }
    }

    /// Whether there is a state of this lane to be seen: after a failure there is none until it has begun anew.
    pub(super) fn has_state(&self, lane: usize) -> bool {
        self.next_valid[lane] != 0 || self.ends[lane] & end_flags::EPISODE != 0
    }

    /// What is decided on, observations and masks, and the place of the actions.
    pub(super) fn decision(&mut self, spaces: &Spaces) -> (Stacks<'_>, &[u8], &mut [u8]) {
        let n = self.valid.len();
        (
            self.frames.seen(spaces),
            &self.masks,
            &mut bytemuck::cast_slice_mut(&mut self.actions)[..n * spaces.action.record_bytes()],
        )
    }

    /// Clips the actions on their way; one that is not a number is the environment's to refuse.
    pub(super) fn clip(&mut self, spaces: &Spaces) {
        let bytes = self.valid.len() * spaces.action.record_bytes();
        self.clip
            .apply(&bytemuck::cast_slice(&self.actions)[..bytes], |_| {});
    }

    pub(super) fn rows<'a>(
        &'a mut self,
        spaces: &'a Spaces,
        lanes: &'a mut LaneStates,
    ) -> Rows<'a> {
        let n = self.valid.len();
        Rows::new(RowsParts {
            spaces,
            lanes,
            actions: self
                .clip
                .clipped(&bytemuck::cast_slice(&self.actions)[..n * spaces.action.record_bytes()]),
            valid: &mut self.valid,
            rewards: &mut self.rewards,
            ends: &mut self.ends,
            episode_returns: &mut self.returns,
            episode_lengths: &mut self.lengths,
            next_observations: self.frames.next(),
            next_masks: &mut self.masks,
            next_valid: &mut self.next_valid,
            faults: &mut self.faults,
        })
    }
}
