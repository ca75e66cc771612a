//! What an actor does in a turn: steps its block, holds back what must not reach environments, and
//! reports failures.

use crate::clip::Clip;
use crate::hub::Hub;
use crate::schedule::Course;
use crate::slab::{BlockRows, FirstRow};
use crate::snapshot::LaneSnapshot;
use crate::timing::{Limits, Timing};
use crate::{RolloutConfig, RolloutError};
use hotloop_env::{
    Beacons, Block, Cause, Fault, FaultPhase, LaneStates, LaneTotals, Rows, RowsParts, Spaces,
    StateReader, StateWriter, Stream, panic_message,
};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// A block of environments with everything the engine keeps for its lanes.
pub(crate) struct Runner {
    block: Block,
    lanes: LaneStates,
    first_lane: usize,
    clip: Clip,
    faults: Vec<Fault>,
    timing: Timing,
    /// Turns in which the block waited, which say when a lane was given up.
    turns: u64,
    spaces: Arc<Spaces>,
}

/// Where a block finds the rows of its turn.
pub(crate) trait Place {
    /// The same rows each time.
    fn rows(&mut self) -> BlockRows<'_>;
}

/// What a block is called for.
#[derive(Clone, Copy)]
enum Call {
    Reset,
    Step,
}

impl Runner {
    /// The runner of one actor's block, which tells where it is at work at `place` of `beacons`.
    pub(crate) fn new(
        block: Block,
        first_lane: usize,
        config: &RolloutConfig,
        spaces: Arc<Spaces>,
        (beacons, place): (Arc<Beacons>, usize),
    ) -> Self {
        let lanes = block.lanes();
        let states = LaneStates::new(config.seed, Stream::Env, first_lane, lanes);
        Self {
            clip: Clip::new(&spaces.action, lanes, config.bounding),
            block,
            lanes: states.watched(beacons, place),
            first_lane,
            faults: vec![],
            timing: Timing::new(Limits::of(config), lanes),
            turns: 0,
            spaces,
        }
    }

    pub(crate) fn first_lane(&self) -> usize {
        self.first_lane
    }

    /// Whether the block's environments wait for something outside.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.block, Block::Async(_))
    }

    /// Starts the first episode of every lane.
    pub(crate) async fn reset(&mut self, first: FirstRow<'_>, hub: &Hub) {
        let mut place = BeforeFirst::new(self.block.lanes(), &self.spaces, first);
        self.turn(Call::Reset, &mut place, hub).await;
    }

    /// Steps every lane with the decisions of the row.
    #[inline]
    pub(crate) async fn step(&mut self, place: &mut impl Place, hub: &Hub) {
        self.turn(Call::Step, place, hub).await;
    }

    #[inline]
    async fn turn(&mut self, call: Call, place: &mut impl Place, hub: &Hub) {
        let rows = place.rows();
        self.clip.apply(rows.actions, |i| {
            if rows.valid[i] != 0 {
                let lane = self.first_lane + i;
                let totals = &mut self.lanes.totals[i];
                lose(lane, &mut rows.valid[i], totals, &mut self.faults);
            }
        });
        let waits = self.contained(place, hub, |block, rows| match (block, call) {
            (Block::Sync(block), Call::Step) => {
                block.step(rows);
                false
            }
            (Block::Sync(block), Call::Reset) => {
                block.reset(rows);
                false
            }
            (Block::Async(block), _) => {
                block.begin(rows);
                true
            }
        });
        if waits == Some(true) {
            self.timing.begin();
            self.turns += 1;
            poll_fn(|cx| self.poll(cx, place, hub)).await;
        }
        if !self.faults.is_empty() {
            let rest = self.report(place, hub);
            if !rest.is_zero() {
                let end = Instant::now() + rest;
                poll_fn(|cx| self.poll_rest(end, cx, hub)).await;
            }
        }
    }

    /// Goes on with the turn of a block that waits.
    fn poll(&mut self, cx: &mut Context<'_>, place: &mut impl Place, hub: &Hub) -> Poll<()> {
        loop {
            // Closing wakes all actors, so that none waits for an environment that may never answer.
            if hub.is_closed() {
                return Poll::Ready(());
            }
            if let Some(i) = self.given_up(hub) {
                self.give_up(
                    i,
                    "no answer in time when this was recorded".into(),
                    place,
                    hub,
                );
                continue;
            }
            let polled = self.contained(place, hub, |block, rows| match block {
                Block::Async(block) => block.poll(cx, rows),
                Block::Sync(_) => Poll::Ready(()),
            });
            let (Some(Poll::Pending), Block::Async(block)) = (polled, &self.block) else {
                return Poll::Ready(());
            };
            // The poll may have come to a reset that was given up.
            if self.given_up(hub).is_some() {
                continue;
            }
            let overdue = self.timing.poll_overdue(cx, |lane| block.busy(lane));
            let Poll::Ready((lane, why)) = overdue else {
                return Poll::Pending;
            };
            if let Some(phase) = block.busy(lane)
                && let Err(error) = hub
                    .course
                    .gave_up(self.first_lane + lane, self.turns, phase)
            {
                hub.end(error);
            }
            self.give_up(lane, why, place, hub);
        }
    }

    /// In a replay: the lane that was given up in this turn while it did what it is doing now.
    fn given_up(&self, hub: &Hub) -> Option<usize> {
        let (Course::Following(player), Block::Async(block)) = (&hub.course, &self.block) else {
            return None;
        };
        (0..block.lanes()).find(|i| {
            let doing = block.busy(*i);
            doing.is_some() && doing == player.gives_up(self.first_lane + i, self.turns)
        })
    }

    fn give_up(&mut self, i: usize, why: String, place: &mut impl Place, hub: &Hub) {
        self.contained(place, hub, |block, rows| {
            if let Block::Async(block) = block {
                block.give_up(rows, i, why);
            }
        });
    }

    /// Waits for the end of a rest, or of the rollout.
    fn poll_rest(&mut self, end: Instant, cx: &mut Context<'_>, hub: &Hub) -> Poll<()> {
        if hub.is_closed() {
            return Poll::Ready(());
        }
        self.timing.poll_until(end, cx)
    }

    /// Calls the block. Its lanes are contained one by one inside; a panic that comes out here is the
    /// block's own and ends the run.
    #[inline]
    fn contained<T>(
        &mut self,
        place: &mut impl Place,
        hub: &Hub,
        call: impl FnOnce(&mut Block, &mut Rows<'_>) -> T,
    ) -> Option<T> {
        let rows = place.rows();
        self.lanes.begin_call();
        let mut view = Rows::new(RowsParts {
            spaces: &self.spaces,
            lanes: &mut self.lanes,
            actions: self.clip.clipped(rows.actions),
            valid: rows.valid,
            rewards: rows.rewards,
            ends: rows.ends,
            episode_returns: rows.episode_returns,
            episode_lengths: rows.episode_lengths,
            next_observations: rows.next.observations,
            next_masks: rows.next.masks,
            next_valid: rows.next.valid,
            faults: &mut self.faults,
        });
        let block = &mut self.block;
        let outcome = catch_unwind(AssertUnwindSafe(|| call(block, &mut view)));
        self.lanes.end_call();
        match outcome {
            Ok(value) => Some(value),
            Err(payload) => {
                hub.end(RolloutError::BlockPanic {
                    first: self.first_lane,
                    end: self.first_lane + self.block.lanes(),
                    message: panic_message(payload.as_ref()),
                });
                None
            }
        }
    }

    /// Reports what failed, and takes lanes that failed too often out of use. Returns the rest that is due
    /// before the next turn.
    #[cold]
    fn report(&mut self, place: &mut impl Place, hub: &Hub) -> Duration {
        let mut failures = 0;
        for fault in self.faults.drain(..) {
            let i = fault.lane - self.first_lane;
            let in_a_row = fault.in_a_row;
            if hub.fault(fault) {
                self.lanes.set_aside(i);
            }
            if self.lanes.is_set_aside(i) {
                // What was rebuilt in this turn is not used.
                place.rows().next.valid[i] = 0;
            } else {
                failures = failures.max(in_a_row);
            }
        }
        if (0..self.block.lanes()).all(|i| self.lanes.is_set_aside(i)) {
            hub.retire(self.first_lane);
        }
        self.timing.limits().rest(failures)
    }

    /// The state of every lane.
    pub(crate) fn save(&self) -> Vec<LaneSnapshot> {
        (0..self.block.lanes())
            .map(|i| {
                let mut state = StateWriter::new();
                let saved = match &self.block {
                    Block::Sync(block) => block.save(i, &mut state),
                    Block::Async(_) => false,
                };
                LaneSnapshot {
                    rng: self.lanes.rngs[i].position(),
                    totals: self.lanes.totals[i],
                    env: saved.then(|| state.into_bytes()),
                }
            })
            .collect()
    }

    /// Goes to a state that [`Runner::save`] returned, lane by lane. `limit` failures in a row are allowed.
    pub(crate) fn load(&mut self, lanes: &[LaneSnapshot], limit: u32) -> Result<(), RolloutError> {
        for (i, lane) in lanes.iter().enumerate() {
            self.lanes.rngs[i].seek(lane.rng);
            self.lanes.totals[i] = lane.totals;
            // A lane that was set aside is tried once more.
            let failures = &mut self.lanes.totals[i].failures;
            *failures = limit.min(*failures);
            let Some(env) = &lane.env else {
                continue;
            };
            let mut state = StateReader::new(env);
            let loaded = match &mut self.block {
                Block::Sync(block) => block.load(i, &mut state),
                Block::Async(_) => Err("an environment that waits does not load states".into()),
            };
            loaded.and_then(|()| state.finish()).map_err(|error| {
                RolloutError::Snapshot(format!("lane {}: {error}", self.first_lane + i))
            })?;
        }
        Ok(())
    }
}

/// The rows of the first reset. There is no row before the first, so its columns are thrown away; no
/// lane of it is valid, so that every lane's turn is a reset.
struct BeforeFirst<'a> {
    actions: Vec<u64>,
    action_bytes: usize,
    valid: Vec<u8>,
    rewards: Vec<f32>,
    ends: Vec<u8>,
    episode_returns: Vec<f32>,
    episode_lengths: Vec<u32>,
    first: FirstRow<'a>,
}

impl<'a> BeforeFirst<'a> {
    fn new(lanes: usize, spaces: &Spaces, first: FirstRow<'a>) -> Self {
        let action_bytes = lanes * spaces.action.record_bytes();
        Self {
            actions: vec![0; action_bytes.div_ceil(size_of::<u64>())],
            action_bytes,
            valid: vec![0; lanes],
            rewards: vec![0.0; lanes],
            ends: vec![0; lanes],
            episode_returns: vec![0.0; lanes],
            episode_lengths: vec![0; lanes],
            first,
        }
    }
}

impl Place for BeforeFirst<'_> {
    fn rows(&mut self) -> BlockRows<'_> {
        BlockRows {
            actions: &bytemuck::cast_slice(&self.actions)[..self.action_bytes],
            valid: &mut self.valid,
            rewards: &mut self.rewards,
            ends: &mut self.ends,
            episode_returns: &mut self.episode_returns,
            episode_lengths: &mut self.episode_lengths,
            next: FirstRow {
                observations: self.first.observations,
                masks: self.first.masks,
                valid: self.first.valid,
            },
        }
    }
}

/// Takes a lane's turn to step away, because its action is not finite: it is reset instead.
#[cold]
fn lose(lane: usize, valid: &mut u8, totals: &mut LaneTotals, faults: &mut Vec<Fault>) {
    totals.failures += 1;
    faults.push(Fault {
        lane,
        step: totals.episode_length,
        phase: FaultPhase::Step,
        cause: Cause::NotFinite,
        in_a_row: totals.failures,
        message: "the policy's action is not finite".into(),
    });
    totals.episode_return = 0.0;
    totals.episode_length = 0;
    totals.episodes += 1;
    *valid = 0;
}
