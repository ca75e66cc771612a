//! What the engine keeps for each lane of a block from turn to turn.

use crate::{Beacons, EnvRng, FaultPhase, Philox, Stream, Whereabouts};
use std::sync::Arc;

/// The totals of a lane's episode so far, of raw rewards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LaneTotals {
    /// The sum of raw rewards.
    pub episode_return: f64,
    /// The number of steps.
    pub episode_length: u32,
    /// Failures since the last step that went well.
    pub failures: u32,
    /// The same before the last step, for when that one is found not to have gone well after all.
    pub failures_before: u32,
    /// Episodes that are over for the learner, whether they ended or were lost to a failure; so, the
    /// number of the present one.
    pub episodes: u64,
}

/// What the engine keeps for each lane of a block: its random numbers and totals.
#[derive(Clone, Debug)]
pub struct LaneStates {
    seed: u64,
    stream: Stream,
    /// Those of [`ResetCtx::seed`].
    pub(crate) seeds: Philox,
    pub(crate) first_lane: usize,
    /// Whose random numbers each lane uses: its own number's, or an episode's in an evaluation.
    pub(crate) identities: Vec<u64>,
    /// The random numbers of each lane's environment.
    pub rngs: Vec<EnvRng>,
    /// The totals of each lane.
    pub totals: Vec<LaneTotals>,
    /// Lanes that are not used any more.
    pub(crate) aside: Vec<bool>,
    /// Where those who watch look for this block, and at which place.
    beacons: (Arc<Beacons>, usize),
    /// Counts turns, for them.
    turns: u64,
}

impl LaneStates {
    /// The states of lanes `first_lane .. first_lane + lanes` at the start of a run.
    pub fn new(seed: u64, stream: Stream, first_lane: usize, lanes: usize) -> Self {
        let identities: Vec<u64> = (first_lane as u64..(first_lane + lanes) as u64).collect();
        let seeds = match stream {
            Stream::Eval => Stream::EvalSeed,
            _ => Stream::Seed,
        };
        Self {
            seed,
            stream,
            seeds: Philox::new(seed, seeds),
            first_lane,
            rngs: identities
                .iter()
                .map(|&lane| EnvRng::new(seed, lane, stream))
                .collect(),
            identities,
            totals: vec![LaneTotals::default(); lanes],
            aside: vec![false; lanes],
            beacons: (Arc::new(Beacons::new(1)), 0),
            turns: 0,
        }
    }

    /// The same, and the block tells where it is at work at `place` of `beacons`.
    #[must_use]
    pub fn watched(mut self, beacons: Arc<Beacons>, place: usize) -> Self {
        self.beacons = (beacons, place);
        self
    }

    /// A call of the block begins, for those who watch.
    #[inline]
    pub fn begin_call(&mut self) {
        self.turns += 1;
        let (beacons, place) = &self.beacons;
        beacons.set(*place, Whereabouts::whole_block(self.turns));
    }

    /// The call has returned.
    #[inline]
    pub fn end_call(&self) {
        let (beacons, place) = &self.beacons;
        beacons.set(*place, 0);
    }

    #[inline]
    pub(crate) fn at_work(&self, i: usize, phase: FaultPhase) {
        let (beacons, place) = &self.beacons;
        let step = self.totals[i].episode_length;
        beacons.set(*place, Whereabouts::word(self.turns, i, step, phase));
    }

    /// Takes lane `i` out of use for good: none of its rows is valid from now on, and its failures do not
    /// count.
    pub fn set_aside(&mut self, i: usize) {
        self.aside[i] = true;
    }

    /// Whether lane `i` was taken out of use.
    pub fn is_set_aside(&self, i: usize) -> bool {
        self.aside[i]
    }

    /// Starts lane `i` afresh with the random numbers of `identity`, whichever they were before: an
    /// evaluation's episode depends on its own number, not on the lane that plays it.
    pub fn restart(&mut self, i: usize, identity: u64) {
        self.identities[i] = identity;
        self.rngs[i] = EnvRng::new(self.seed, identity, self.stream);
        self.totals[i] = LaneTotals::default();
    }
}
