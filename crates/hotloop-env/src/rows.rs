//! The two rows of the slab that a block touches in one step, as a writer in which each outcome
//! hands out the one place that its observation belongs to.
//!
//! Row `t` holds the decisions; the outcome of each goes beside it. The observation that follows goes
//! into row `t + 1`, whatever it is: the next of the episode, the first of the next episode (after
//! termination), or the final one (after truncation), which is marked as not to be trained on. The
//! turn after a truncation is [`Turn::Reset`].

use crate::contain::check_mask;
use crate::env::episode_seed;
use crate::finite::all_finite;
use crate::{
    ActionView, Cause, DType, End, EnvError, EnvRng, Fault, FaultPhase, LaneStates, ObservationMut,
    Philox, ResetCtx, Spaces, Transition,
};

/// Flags of a row's `ends` byte.
pub mod end_flags {
    /// The decision process ended with this row's action, for the learner.
    pub const TERMINATED: u8 = 1;
    /// The episode was cut after this row's action, for the learner.
    pub const TRUNCATED: u8 = 2;
    /// The environment's own episode is over: its totals stand in `episode_returns` and `episode_lengths`.
    pub const EPISODE: u8 = 4;
}

/// The slices that make up a [`Rows`]; the engine fills it in. All are of the block's lanes only.
pub struct RowsParts<'a> {
    /// The layouts of observations and actions.
    pub spaces: &'a Spaces,
    /// What the engine keeps for each lane.
    pub lanes: &'a mut LaneStates,
    /// Row `t`: action records, ready for the environment.
    pub actions: &'a [u8],
    /// Row `t`: 1 where the row's decision is to be acted on, 0 where a reset is due. Cleared by a failure.
    pub valid: &'a mut [u8],
    /// Row `t`: rewards as the learner sees them.
    pub rewards: &'a mut [f32],
    /// Row `t`: [`end_flags`].
    pub ends: &'a mut [u8],
    /// Row `t`: raw returns of episodes that ended here.
    pub episode_returns: &'a mut [f32],
    /// Row `t`: lengths of episodes that ended here.
    pub episode_lengths: &'a mut [u32],
    /// Row `t + 1`: observation records.
    pub next_observations: &'a mut [u8],
    /// Row `t + 1`: action masks.
    pub next_masks: &'a mut [u8],
    /// Row `t + 1`: whether that row's decision will be acted on.
    pub next_valid: &'a mut [u8],
    /// Failures are added here.
    pub faults: &'a mut Vec<Fault>,
}

/// What a lane is to do now.
pub enum Turn<'a> {
    /// Take this action.
    Step(ActionView<'a>, &'a mut EnvRng),
    /// Start an episode; the decision in this row is not acted on.
    Reset(ResetCtx<'a>),
}

/// A block's view of rows `t` and `t + 1`. In one call every lane gets one outcome:
/// [`proceed`](Self::proceed), or [`begin`](Self::begin) where a reset was due, or
/// [`fail`](Self::fail), or [`skip`](Self::skip) where it is [out of use](Self::is_set_aside). The first two
/// return the place of the observation that goes with them.
pub struct Rows<'a> {
    parts: RowsParts<'a>,
}

impl<'a> Rows<'a> {
    /// A view made of `parts`, whose slices must fit each other.
    #[inline]
    pub fn new(parts: RowsParts<'a>) -> Self {
        debug_assert_eq!(
            parts.actions.len(),
            parts.valid.len() * parts.spaces.action.record_bytes()
        );
        debug_assert_eq!(
            parts.next_observations.len(),
            parts.valid.len() * parts.spaces.observation.record_bytes()
        );
        Self { parts }
    }

    /// The number of lanes.
    #[inline]
    pub fn lanes(&self) -> usize {
        self.parts.valid.len()
    }

    /// The number, over the whole run, of lane `i` of the block.
    pub fn lane(&self, i: usize) -> usize {
        self.parts.lanes.first_lane + i
    }

    /// The layouts of observations and actions.
    pub fn spaces(&self) -> &'a Spaces {
        self.parts.spaces
    }

    /// Whether lane `i` is to start an episode rather than to step.
    #[inline]
    pub fn reset_due(&self, i: usize) -> bool {
        self.parts.valid[i] == 0
    }

    /// The random numbers of lane `i`, for a block that takes them along for the length of a turn.
    pub(crate) fn rng(&mut self, i: usize) -> &mut EnvRng {
        &mut self.parts.lanes.rngs[i]
    }

    /// What identifies lane `i`'s present episode, as [`reset_ctx`](Self::reset_ctx) tells it: the seeds,
    /// whose random numbers the lane uses, the episode's number.
    pub(crate) fn episode(&self, i: usize) -> (Philox, u64, u64) {
        let lanes = &*self.parts.lanes;
        (lanes.seeds, lanes.identities[i], lanes.totals[i].episodes)
    }

    /// Whether lane `i` was taken out of use: a reset is due in each of its turns, and none needs be made.
    /// [`skip`](Self::skip) is its outcome.
    pub fn is_set_aside(&self, i: usize) -> bool {
        self.parts.lanes.is_set_aside(i)
    }

    /// Says that lane `i` is at work, and what it does, to those who watch for calls that do not return.
    /// [`turn`](Self::turn) and [`reset_ctx`](Self::reset_ctx) say it as well.
    #[inline]
    pub fn at_work(&self, i: usize, phase: FaultPhase) {
        self.parts.lanes.at_work(i, phase);
    }

    /// Whether lane `i`'s episode terminated in this call.
    pub(crate) fn terminated(&self, i: usize) -> bool {
        self.parts.ends[i] & end_flags::TERMINATED != 0
    }

    /// What lane `i` is to do.
    #[inline]
    pub fn turn(&mut self, i: usize) -> Turn<'_> {
        if self.reset_due(i) {
            return Turn::Reset(self.reset_ctx(i));
        }
        self.at_work(i, FaultPhase::Step);
        let bytes = self.parts.spaces.action.record_bytes();
        let record = &self.parts.actions[i * bytes..(i + 1) * bytes];
        Turn::Step(
            ActionView::new(record, &self.parts.spaces.action),
            &mut self.parts.lanes.rngs[i],
        )
    }

    /// For starting the next episode of lane `i` in the same call in which one terminated, after
    /// [`proceed`](Self::proceed) was told so.
    pub fn reset_ctx(&mut self, i: usize) -> ResetCtx<'_> {
        self.at_work(i, FaultPhase::Reset);
        let lanes = &mut *self.parts.lanes;
        let episode = lanes.totals[i].episodes;
        ResetCtx::with_seeds(
            &mut lanes.rngs[i],
            lanes.seeds,
            lanes.identities[i],
            episode,
        )
    }

    /// The [seed](ResetCtx::seed) of the episode after lane `i`'s present one, for a simulator that starts the
    /// next by itself when one terminates. To be asked before the turn's outcome is given.
    pub fn seed_after(&self, i: usize) -> u64 {
        let lanes = &*self.parts.lanes;
        let episode = lanes.totals[i].episodes + 1;
        episode_seed(&lanes.seeds, lanes.identities[i], episode)
    }

    /// Lane `i` took its action. The place returned is for the observation that follows: the next one
    /// of the episode; after termination the *first* one of the next episode; after truncation the
    /// *final* one of this episode, so that a simulator that resets itself cannot lose it.
    #[inline(always)]
    pub fn proceed(&mut self, i: usize, transition: Transition) -> ObservationMut<'_> {
        let parts = &mut self.parts;
        let totals = &mut parts.lanes.totals[i];
        totals.episode_return += transition.raw_reward();
        totals.episode_length += 1;
        totals.failures_before = std::mem::take(&mut totals.failures);
        parts.rewards[i] = transition.reward() as f32;
        let mut flags = 0;
        if transition.end() != End::Continue || transition.raw_end() != End::Continue {
            flags = match transition.end() {
                End::Continue => 0,
                End::Terminated => end_flags::TERMINATED,
                End::Truncated => end_flags::TRUNCATED,
            };
            if transition.raw_end().is_over() {
                flags |= end_flags::EPISODE;
                parts.episode_returns[i] = totals.episode_return as f32;
                parts.episode_lengths[i] = totals.episode_length;
                totals.episode_return = 0.0;
                totals.episode_length = 0;
            }
            if transition.end().is_over() {
                totals.episodes += 1;
            }
        }
        parts.ends[i] = flags;
        parts.next_valid[i] = (transition.end() != End::Truncated) as u8;
        self.next(i)
    }

    /// Lane `i` started an episode, as was due. The place returned is for its first observation.
    #[inline]
    pub fn begin(&mut self, i: usize) -> ObservationMut<'_> {
        let parts = &mut self.parts;
        parts.rewards[i] = 0.0;
        parts.ends[i] = 0;
        parts.next_valid[i] = !parts.lanes.aside[i] as u8;
        self.next(i)
    }

    /// Lane `i` is [out of use](Self::is_set_aside), and nothing was done.
    pub fn skip(&mut self, i: usize) {
        let parts = &mut self.parts;
        parts.rewards[i] = 0.0;
        parts.ends[i] = 0;
        parts.next_valid[i] = 0;
        self.next(i).record().fill(0);
        self.mask(i).fill(1);
    }

    /// Lane `i` failed: its row is not to be trained on, the unfinished episode is dropped, and the
    /// next turn is a reset, unless [`recover`](Self::recover) follows in the same call. It may be
    /// called after [`proceed`](Self::proceed) or [`begin`](Self::begin), which it undoes.
    #[cold]
    pub fn fail(&mut self, i: usize, phase: FaultPhase, cause: Cause, message: String) {
        let parts = &mut self.parts;
        parts.valid[i] = 0;
        parts.rewards[i] = 0.0;
        parts.ends[i] = 0;
        self.fail_next(i, phase, cause, message);
    }

    /// Lane `i` was lost in the failure of another with which it shares a process, say: as
    /// [`fail`](Self::fail), but none of its failures in a row.
    #[cold]
    pub fn lose(&mut self, i: usize, phase: FaultPhase, message: String) {
        let failures = self.parts.lanes.totals[i].failures;
        self.fail(i, phase, Cause::Lost, message);
        self.parts.lanes.totals[i].failures = failures;
        if !self.is_set_aside(i)
            && let Some(fault) = self.parts.faults.last_mut()
        {
            fault.in_a_row = failures;
        }
    }

    /// Lane `i` ended its episode with [`proceed`](Self::proceed), but could not start the next one:
    /// the row stands, and the next turn is a reset, unless [`recover`](Self::recover) follows in the
    /// same call. Also for further failures of a lane that failed in this call.
    #[cold]
    pub fn fail_next(&mut self, i: usize, phase: FaultPhase, cause: Cause, message: String) {
        let lane = self.lane(i);
        let parts = &mut self.parts;
        let totals = &mut parts.lanes.totals[i];
        if !parts.lanes.aside[i] {
            totals.failures += 1;
            parts.faults.push(Fault {
                lane,
                step: totals.episode_length,
                phase,
                cause,
                in_a_row: totals.failures,
                message,
            });
        }
        totals.episode_return = 0.0;
        totals.episode_length = 0;
        // A retry is another episode: it must not get the seed that may have caused the failure.
        totals.episodes += (phase != FaultPhase::Build) as u64;
        parts.next_valid[i] = 0;
        // Whatever the failed call left there must not reach the policy as NaN.
        self.next(i).record().fill(0);
        self.mask(i).fill(1);
    }

    /// Takes back the count of the step that lane `i` just made, so that a failure found after it is
    /// reported at that step, and is one more in a row. [`fail`](Self::fail) is to follow.
    pub fn retract(&mut self, i: usize) {
        let parts = &mut self.parts;
        let over = parts.ends[i] & end_flags::EPISODE != 0;
        let totals = &mut parts.lanes.totals[i];
        let length = if over {
            parts.episode_lengths[i]
        } else {
            totals.episode_length
        };
        totals.episode_length = length.saturating_sub(1);
        totals.failures = totals.failures_before;
    }

    /// A lane that failed in this call has been rebuilt and reset: the place returned is for the first
    /// observation of its new episode.
    pub fn recover(&mut self, i: usize) -> ObservationMut<'_> {
        self.parts.next_valid[i] = !self.parts.lanes.aside[i] as u8;
        self.next(i)
    }

    /// The mask that goes with the observation just written: one byte for each choice of every masked
    /// leaf; empty if the action space has no masks.
    #[inline]
    pub fn mask(&mut self, i: usize) -> &mut [u8] {
        let bytes = self.parts.spaces.action.mask_bytes();
        &mut self.parts.next_masks[i * bytes..(i + 1) * bytes]
    }

    /// The place of the observation that follows lane `i`'s turn, once more after
    /// [`proceed`](Self::proceed): for the first observation of the next episode, when the reset is
    /// made after the outcome was given.
    #[inline]
    pub fn next(&mut self, i: usize) -> ObservationMut<'_> {
        let bytes = self.parts.spaces.observation.record_bytes();
        ObservationMut::new(
            &mut self.parts.next_observations[i * bytes..(i + 1) * bytes],
            &self.parts.spaces.observation,
        )
    }

    /// An error if the mask just written for lane `i` leaves nothing to choose.
    pub fn check_mask(&self, i: usize) -> Result<(), EnvError> {
        let masks = &self.parts.spaces.action;
        let bytes = masks.mask_bytes();
        check_mask(masks, &self.parts.next_masks[i * bytes..(i + 1) * bytes])
    }

    /// An error that says where the observation just written for lane `i` holds a NaN or an infinity.
    pub fn check_finite(&self, i: usize) -> Result<(), EnvError> {
        let layout = &self.parts.spaces.observation;
        let record =
            &self.parts.next_observations[i * layout.record_bytes()..][..layout.record_bytes()];
        layout.check_finite(record)
    }

    /// The first lane from `from` on whose observation holds a NaN or an infinity, and where. Neither
    /// may reach the policy: for lanes of such observations [`fail`](Self::fail) is called.
    pub fn first_not_finite(&self, from: usize) -> Option<(usize, String)> {
        let layout = &self.parts.spaces.observation;
        if !layout.has_floats() {
            return None;
        }
        if layout.single().is_some_and(|leaf| leaf.dtype == DType::F32) {
            let rest = &self.parts.next_observations[from * layout.record_bytes()..];
            if all_finite(bytemuck::cast_slice(rest)) {
                return None;
            }
        }
        (from..self.lanes()).find_map(|i| Some((i, self.check_finite(i).err()?.to_string())))
    }
}
