//! What an actor does in a turn: steps its block, holds back what must not reach environments, and
//! reports failures.

use crate::RolloutError;
use crate::clip::Clip;
use crate::hub::Hub;
use crate::slab::{BlockRows, FirstRow};
use crate::snapshot::LaneSnapshot;
use hotloop_env::{
    Fault, FaultPhase, LaneStates, LaneTotals, Rows, RowsParts, Spaces, StateReader, StateWriter,
    Stream, VectorEnv,
};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A block of environments with everything the engine keeps for its lanes.
pub(crate) struct Runner {
    env: Box<dyn VectorEnv>,
    lanes: LaneStates,
    first_lane: usize,
    clip: Clip,
    faults: Vec<Fault>,
    spaces: Arc<Spaces>,
}

impl Runner {
    pub(crate) fn new(
        env: Box<dyn VectorEnv>,
        spaces: Arc<Spaces>,
        seed: u64,
        first_lane: usize,
    ) -> Self {
        let lanes = env.lanes();
        Self {
            clip: Clip::new(&spaces.action, lanes),
            env,
            lanes: LaneStates::new(seed, Stream::Env, first_lane, lanes),
            first_lane,
            faults: vec![],
            spaces,
        }
    }

    pub(crate) fn first_lane(&self) -> usize {
        self.first_lane
    }

    /// Starts the first episode of every lane.
    pub(crate) fn reset(&mut self, first: FirstRow<'_>, hub: &Hub) {
        // There is no row before the first: its columns are thrown away. No lane of it is valid, so
        // every lane's turn is a reset.
        let lanes = self.env.lanes();
        let action_bytes = lanes * self.spaces.action.record_bytes();
        let actions = vec![0u64; action_bytes.div_ceil(size_of::<u64>())];
        let rows = BlockRows {
            actions: &bytemuck::cast_slice(&actions)[..action_bytes],
            valid: &mut vec![0; lanes],
            rewards: &mut vec![0.0; lanes],
            ends: &mut vec![0; lanes],
            episode_returns: &mut vec![0.0; lanes],
            episode_lengths: &mut vec![0; lanes],
            next: first,
        };
        self.turn(rows, hub, |env, rows| env.reset(rows));
    }

    /// Steps every lane with the decisions of the row.
    #[inline]
    pub(crate) fn step(&mut self, rows: BlockRows<'_>, hub: &Hub) {
        self.turn(rows, hub, |env, rows| env.step(rows));
    }

    #[inline]
    fn turn(
        &mut self,
        rows: BlockRows<'_>,
        hub: &Hub,
        call: impl FnOnce(&mut dyn VectorEnv, &mut Rows<'_>),
    ) {
        let valid = rows.valid;
        let actions = self.clip.apply(rows.actions, |i| {
            if valid[i] != 0 {
                let lane = self.first_lane + i;
                lose(
                    lane,
                    &mut valid[i],
                    &mut self.lanes.totals[i],
                    &mut self.faults,
                );
            }
        });
        let mut view = Rows::new(RowsParts {
            spaces: &self.spaces,
            lanes: &mut self.lanes,
            actions,
            valid,
            rewards: rows.rewards,
            ends: rows.ends,
            episode_returns: rows.episode_returns,
            episode_lengths: rows.episode_lengths,
            next_observations: rows.next.observations,
            next_masks: rows.next.masks,
            next_valid: rows.next.valid,
            faults: &mut self.faults,
        });
        let env = &mut *self.env;
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| call(env, &mut view))) {
            hub.end(RolloutError::BlockPanic {
                first: self.first_lane,
                end: self.first_lane + self.env.lanes(),
                message: panic_message(payload.as_ref()),
            });
        }
        if !self.faults.is_empty() {
            self.report(hub);
        }
    }

    #[cold]
    fn report(&mut self, hub: &Hub) {
        self.faults.drain(..).for_each(|fault| hub.fault(fault));
    }

    /// The state of every lane.
    pub(crate) fn save(&self) -> Vec<LaneSnapshot> {
        (0..self.env.lanes())
            .map(|i| {
                let mut state = StateWriter::new();
                let saved = self.env.save(i, &mut state);
                LaneSnapshot {
                    rng: self.lanes.rngs[i].position(),
                    totals: self.lanes.totals[i],
                    env: saved.then(|| state.into_bytes()),
                }
            })
            .collect()
    }

    /// Goes to a state that [`Runner::save`] returned, lane by lane.
    pub(crate) fn load(&mut self, lanes: &[LaneSnapshot]) -> Result<(), RolloutError> {
        for (i, lane) in lanes.iter().enumerate() {
            self.lanes.rngs[i].seek(lane.rng);
            self.lanes.totals[i] = lane.totals;
            if let Some(env) = &lane.env {
                let mut state = StateReader::new(env);
                self.env
                    .load(i, &mut state)
                    .and_then(|()| state.finish())
                    .map_err(|error| {
                        RolloutError::Snapshot(format!("lane {}: {error}", self.first_lane + i))
                    })?;
            }
        }
        Ok(())
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
        panicked: false,
        in_a_row: totals.failures,
        message: "the policy's action is not finite".into(),
    });
    totals.episode_return = 0.0;
    totals.episode_length = 0;
    *valid = 0;
}

/// The message of a panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}
