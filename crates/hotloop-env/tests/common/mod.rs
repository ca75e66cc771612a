//! Toy environments and a two-row slab to step blocks on.
#![allow(dead_code, unreachable_pub)] // Each test binary uses its own part of this.

use hotloop_env::{
    ActionView, AsyncVectorEnv, End, Env, EnvError, EnvRng, Fault, LaneStates, ObservationMut,
    ResetCtx, Rows, RowsParts, Space, Spaces, Stream, Transition,
};
use std::task::{Context, Poll, Waker};

/// What `Count` does in place of a good step or reset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mishap {
    None,
    PanicInStep,
    ErrorInStep,
    PanicInReset,
    ErrorInReset,
    PanicInObserve,
    NanObservation,
    NanFirstObservation,
    InfiniteReward,
    HugeReward,
    EmptyMask,
    WrongShape,
}

/// Observes `10 * episode + step`, is rewarded 1 a step, ends after `length` steps by `end`; at step
/// `at` of episode `in_episode` the mishap happens.
pub struct Count {
    pub length: u32,
    pub end: End,
    pub mishap: Mishap,
    pub at: u32,
    pub in_episode: u64,
    pub masked: bool,
    pub episode: u64,
    pub step: u32,
    pub seeds: Vec<u64>,
}

impl Count {
    pub fn new(length: u32, end: End) -> Self {
        Self {
            length,
            end,
            mishap: Mishap::None,
            at: 0,
            in_episode: 0,
            masked: false,
            episode: 0,
            step: 0,
            seeds: vec![],
        }
    }

    pub fn with(mut self, mishap: Mishap, in_episode: u64, at: u32) -> Self {
        (self.mishap, self.in_episode, self.at) = (mishap, in_episode, at);
        self.masked = mishap == Mishap::EmptyMask;
        self
    }

    fn due(&self, mishap: Mishap) -> bool {
        self.mishap == mishap && self.episode == self.in_episode && self.step == self.at
    }
}

impl Env for Count {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        if self.masked {
            Space::masked_discrete(2)
        } else {
            Space::discrete(2)
        }
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        (self.episode, self.step) = (ctx.episode(), 0);
        self.seeds.push(ctx.seed());
        if self.due(Mishap::PanicInReset) {
            panic!("boom-{}", self.episode);
        }
        if self.due(Mishap::ErrorInReset) {
            return Err(format!("no start {}", self.episode).into());
        }
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        if self.due(Mishap::PanicInStep) {
            panic!("boom-42");
        }
        if self.due(Mishap::ErrorInStep) {
            return Err("lost the game".into());
        }
        let reward = if self.due(Mishap::InfiniteReward) {
            f64::INFINITY
        } else if self.due(Mishap::HugeReward) {
            1e39
        } else {
            1.0
        };
        self.step += 1;
        let over = self.step == self.length;
        Ok(Transition::new(
            reward,
            if over { self.end } else { End::Continue },
        ))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        if self.due(Mishap::PanicInObserve) {
            panic!("no picture");
        }
        if self.due(Mishap::WrongShape) {
            return out.write(&[0.0f32, 0.0]);
        }
        let nan = self.due(Mishap::NanObservation) || self.due(Mishap::NanFirstObservation);
        out.write(&[if nan {
            f32::NAN
        } else {
            (10 * self.episode) as f32 + self.step as f32
        }])
    }
    fn action_mask(&mut self, mask: &mut [u8]) {
        mask.fill(!self.due(Mishap::EmptyMask) as u8);
    }
}

/// What one turn left in the slab, by lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub observations: Vec<f32>,
    pub valid: Vec<u8>,
    pub rewards: Vec<f32>,
    pub ends: Vec<u8>,
    pub returns: Vec<f32>,
    pub lengths: Vec<u32>,
    pub next: Vec<f32>,
}

/// Rows `t` and `t + 1` of a slab whose observations are single `float32`s.
pub struct Slab {
    pub spaces: Spaces,
    pub lanes: LaneStates,
    pub actions: Vec<i32>,
    pub faults: Vec<Fault>,
    observations: Vec<f32>,
    valid: Vec<u8>,
    row: Row,
    masks: Vec<u8>,
}

impl Slab {
    pub fn new(spaces: &Spaces, lanes: usize) -> Self {
        let floats = spaces.observation.record_bytes() / 4 * lanes;
        Self {
            spaces: spaces.clone(),
            lanes: LaneStates::new(7, Stream::Env, 100, lanes),
            actions: vec![0; spaces.action.record_bytes() / 4 * lanes],
            faults: vec![],
            observations: vec![0.0; floats],
            // As before the first row: every lane is due for a reset.
            valid: vec![0; lanes],
            // Whatever a row held before must not matter.
            row: Row {
                observations: vec![],
                valid: vec![],
                rewards: vec![99.0; lanes],
                ends: vec![0xff; lanes],
                returns: vec![99.0; lanes],
                lengths: vec![99; lanes],
                next: vec![99.0; floats],
            },
            masks: vec![9; spaces.action.mask_bytes() * lanes],
        }
    }

    /// One call of `step` on rows `t` and `t + 1`; then `t` advances.
    pub fn turn(&mut self, step: impl FnOnce(&mut Rows<'_>)) -> Row {
        self.turn_quietly(step);
        let mut seen = self.row.clone();
        seen.observations = std::mem::replace(&mut self.observations, seen.next.clone());
        seen
    }

    /// As [`turn`](Self::turn), without a copy of the row.
    pub fn turn_quietly(&mut self, step: impl FnOnce(&mut Rows<'_>)) {
        let mut next_valid = std::mem::take(&mut self.row.valid);
        next_valid.resize(self.valid.len(), 0);
        next_valid.fill(9);
        step(&mut Rows::new(RowsParts {
            spaces: &self.spaces,
            lanes: &mut self.lanes,
            actions: bytemuck::cast_slice(&self.actions),
            valid: &mut self.valid,
            rewards: &mut self.row.rewards,
            ends: &mut self.row.ends,
            episode_returns: &mut self.row.returns,
            episode_lengths: &mut self.row.lengths,
            next_observations: bytemuck::cast_slice_mut(&mut self.row.next),
            next_masks: &mut self.masks,
            next_valid: &mut next_valid,
            faults: &mut self.faults,
        }));
        self.row.valid = std::mem::replace(&mut self.valid, next_valid);
    }

    /// Takes `lane` out of use before its next turn, as the engine does.
    pub fn set_aside(&mut self, lane: usize) {
        self.lanes.set_aside(lane);
        self.valid[lane] = 0;
    }

    /// The action masks beside the observations that the last turn wrote.
    pub fn masks(&self) -> &[u8] {
        &self.masks
    }

    /// As [`turn`](Self::turn), for an asynchronous block, polled until it is ready.
    pub fn drive(&mut self, block: &mut dyn AsyncVectorEnv) -> Row {
        self.turn(|rows| poll_to_the_end(block, rows))
    }

    /// As [`drive`](Self::drive), without a copy of the row.
    pub fn drive_quietly(&mut self, block: &mut dyn AsyncVectorEnv) {
        self.turn_quietly(|rows| poll_to_the_end(block, rows));
    }
}

fn poll_to_the_end(block: &mut dyn AsyncVectorEnv, rows: &mut Rows<'_>) {
    block.begin(rows);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        if let Poll::Ready(()) = block.poll(&mut cx, rows) {
            return;
        }
    }
    panic!("the block is not ready after 1000 polls");
}
