//! What a policy sees and writes: some lanes at their current rows.

use hotloop_env::{Spaces, Stacks};

/// The lanes of a batch and how often each was decided on: what names a lane's random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a>(pub(crate) Kind<'a>);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    /// Lanes in succession, which all have been decided on equally often.
    Run { first_lane: usize, counter: u64 },
    /// Any lanes.
    Each {
        lanes: &'a [usize],
        counters: &'a [u64],
    },
}

impl Places<'_> {
    /// The number, over the whole run, of the batch's lane `i`.
    #[inline]
    pub fn lane(&self, i: usize) -> usize {
        match self.0 {
            Kind::Run { first_lane, .. } => first_lane + i,
            Kind::Each { lanes, .. } => lanes[i],
        }
    }

    /// How many rows of the batch's lane `i` were decided on before, over the whole run. Bootstrap
    /// rows do not count.
    #[inline]
    pub fn counter(&self, i: usize) -> u64 {
        match self.0 {
            Kind::Run { counter, .. } => counter,
            Kind::Each { counters, .. } => counters[i],
        }
    }
}

/// Observations of some lanes, and the places for the decisions on them. In lockstep all slices are the
/// slab's own row.
#[derive(Debug)]
pub struct Batch<'a> {
    pub(crate) spaces: &'a Spaces,
    /// `[stack][lanes][record]`.
    pub(crate) observations: &'a [u8],
    /// Empty without a stack.
    pub(crate) depths: &'a [u16],
    pub(crate) masks: &'a [u8],
    pub(crate) valid: &'a [u8],
    pub(crate) starts: &'a [u8],
    pub(crate) actions: &'a mut [u8],
    pub(crate) log_probs: &'a mut [f32],
    pub(crate) values: &'a mut [f32],
    pub(crate) states: &'a mut [u8],
    pub(crate) places: Places<'a>,
    pub(crate) version: u64,
    pub(crate) bootstrap: bool,
}

/// Where the decisions go, all at once.
#[derive(Debug)]
pub struct Outputs<'b> {
    /// As [`Batch::actions_mut`].
    pub actions: &'b mut [u8],
    /// As [`Batch::log_probs_mut`].
    pub log_probs: &'b mut [f32],
    /// As [`Batch::values_mut`].
    pub values: &'b mut [f32],
    /// As [`Batch::states_mut`].
    pub states: &'b mut [u8],
}

impl<'a> Batch<'a> {
    /// The number of lanes.
    #[allow(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub fn len(&self) -> usize {
        self.valid.len()
    }

    /// How observations and actions are stored.
    pub fn spaces(&self) -> &'a Spaces {
        self.spaces
    }

    /// One observation record for each lane, one after the other: the last frame of each, if
    /// [frames are stacked](Spaces::stacked).
    pub fn observations(&self) -> &'a [u8] {
        self.stacks().last()
    }

    /// The observations as a policy sees them, with all of their frames.
    pub fn stacks(&self) -> Stacks<'a> {
        Stacks::new(self.spaces, self.len(), self.observations, self.depths)
    }

    /// One action mask for each lane, one after the other; empty if the action space has none.
    pub fn masks(&self) -> &'a [u8] {
        self.masks
    }

    /// For each lane 1 if the decision will be acted on, 0 if the observation is a final one or lost.
    pub fn valid(&self) -> &'a [u8] {
        self.valid
    }

    /// For each lane 1 if the observation is the first of an episode, 0 if not. Where it is 1 a
    /// recurrent state begins anew before the observation is taken in.
    pub fn starts(&self) -> &'a [u8] {
        self.starts
    }

    /// Which lanes these are.
    pub fn places(&self) -> Places<'a> {
        self.places
    }

    /// The policy version to act with: the one that the segments were granted with, or what
    /// [`Policy::newest`](crate::Policy::newest) just returned.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether only values are wanted: the rows are the last of their segments. Then there is no place for
    /// actions and log-probabilities.
    pub fn bootstrap(&self) -> bool {
        self.bootstrap
    }

    /// The place of the action records, one for each lane; empty in a bootstrap batch.
    pub fn actions_mut(&mut self) -> &mut [u8] {
        self.actions
    }

    /// The place of the log-probabilities of the actions, as sampled; empty in a bootstrap batch.
    pub fn log_probs_mut(&mut self) -> &mut [f32] {
        self.log_probs
    }

    /// The place of the values of the observations.
    pub fn values_mut(&mut self) -> &mut [f32] {
        self.values
    }

    /// The place of the recurrent states, one for each lane, as they are before this row: zero where the
    /// row is the first of an episode. Empty in batches none of whose states are kept.
    pub fn states_mut(&mut self) -> &mut [u8] {
        self.states
    }

    /// All places at once.
    pub fn outputs(&mut self) -> Outputs<'_> {
        Outputs {
            actions: self.actions,
            log_probs: self.log_probs,
            values: self.values,
            states: self.states,
        }
    }
}
