//! Toy environments and policies of the tests.
#![allow(dead_code, reason = "each test file uses some of these")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use hotloop_env::{
    ActionView, Block, Copies, Env, EnvError, EnvRng, ObservationMut, ResetCtx, Space, Spaces,
    StateReader, StateWriter, Transition,
};
use hotloop_rollout::{Acting, Batch, Policy, PolicyError, Rollout, RolloutConfig, Segment};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How an episode of [`Count`] ends.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum EndBy {
    Term,
    Trunc,
}

/// Observation `10 * episode + step`, reward 1, ends after `length` steps.
pub(crate) struct Count {
    pub(crate) length: u32,
    pub(crate) end: EndBy,
    pub(crate) episode: u64,
    pub(crate) step: u32,
}

impl Count {
    pub(crate) fn new(length: u32, end: EndBy) -> Self {
        Self {
            length,
            end,
            episode: 0,
            step: 0,
        }
    }
}

impl Env for Count {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::discrete(5)
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.episode = ctx.episode();
        self.step = 0;
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        self.step += 1;
        Ok(match (self.step == self.length, self.end) {
            (false, _) => Transition::running(1.0),
            (true, EndBy::Term) => Transition::terminated(1.0),
            (true, EndBy::Trunc) => Transition::truncated(1.0),
        })
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[10.0 * self.episode as f32 + self.step as f32])
    }
}

/// Observation `[id, k]`, where `k` counts observations; reward is the action. Sleeps `latency` a step.
pub(crate) struct Echo {
    pub(crate) id: usize,
    pub(crate) k: u32,
    pub(crate) latency: Duration,
}

impl Env for Echo {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[2])
    }
    fn action_space(&self) -> Space {
        Space::discrete(5)
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        Ok(())
    }
    fn step(&mut self, action: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        if !self.latency.is_zero() {
            std::thread::sleep(self.latency);
        }
        self.k += 1;
        Ok(Transition::running(action.discrete() as f64))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.id as f32, self.k as f32])
    }
}

/// How [`Fault`] fails.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Failure {
    Error,
    Panic,
}

/// As `Count(1000, Term)`, but the step numbered `at` of every episode fails.
pub(crate) struct Fault {
    pub(crate) count: Count,
    pub(crate) failure: Failure,
    pub(crate) at: u32,
}

impl Fault {
    pub(crate) fn new(failure: Failure, at: u32) -> Self {
        Self {
            count: Count::new(1000, EndBy::Term),
            failure,
            at,
        }
    }
}

impl Env for Fault {
    fn observation_space(&self) -> Space {
        self.count.observation_space()
    }
    fn action_space(&self) -> Space {
        self.count.action_space()
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.count.reset(ctx)
    }
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        if self.count.step == self.at {
            match self.failure {
                Failure::Error => return Err("boom-42".into()),
                Failure::Panic => panic!("boom-42"),
            }
        }
        self.count.step(action, rng)
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.count.observe(out)
    }
}

/// A random walk that draws in reset and step, ends and is cut at random times, and can be saved.
#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) at: f32,
    pub(crate) saves: bool,
}

impl Env for Walk {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::discrete(5)
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.at = ctx.rng().uniform() as f32;
        Ok(())
    }
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        self.at += rng.normal() as f32 + action.discrete() as f32;
        let reward = self.at as f64;
        Ok(match rng.below(12) {
            0 => Transition::terminated(reward),
            1 => Transition::truncated(reward),
            _ => Transition::running(reward),
        })
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.at])
    }
    fn save(&self, out: &mut StateWriter) -> bool {
        out.f32(self.at);
        self.saves
    }
    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.at = state.f32()?;
        Ok(())
    }
}

/// Action `(7 * lane + counter) mod 5`, log-probability `-counter`, value the observation's last number
/// plus the version times 1000.
pub(crate) struct Scripted;

impl Policy for Scripted {
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        let width = batch.spaces().observation.record_bytes() / 4;
        let observations: &[f32] = bytemuck::cast_slice(batch.observations());
        let version = batch.version() as f32;
        for (value, observation) in batch
            .values_mut()
            .iter_mut()
            .zip(observations.chunks_exact(width))
        {
            *value = observation[width - 1] + 1000.0 * version;
        }
        for i in 0..batch.len() {
            assert!(!batch.valid().is_empty());
            if batch.bootstrap() {
                continue;
            }
            let (lane, counter) = (batch.places().lane(i), batch.places().counter(i));
            let outputs = batch.outputs();
            let actions: &mut [i32] = bytemuck::cast_slice_mut(outputs.actions);
            actions[i] = ((7 * lane as u64 + counter) % 5) as i32;
            outputs.log_probs[i] = -(counter as f32);
        }
        Ok(())
    }
}

/// As [`Scripted`], with a version that goes up by one every `calls` calls of the policy.
pub(crate) struct Ageing {
    pub(crate) calls: u64,
    pub(crate) made: Arc<AtomicU64>,
}

impl Policy for Ageing {
    fn newest(&mut self) -> u64 {
        self.made.load(Ordering::SeqCst) / self.calls
    }
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        self.made.fetch_add(1, Ordering::SeqCst);
        Scripted.decide(batch)
    }
}

/// One for each worker, all of one version.
pub(crate) fn ageing(calls: u64, workers: usize) -> Vec<Box<dyn Policy>> {
    let made: Arc<AtomicU64> = Arc::default();
    let policy = |_| {
        let made = made.clone();
        Box::new(Ageing { calls, made }) as Box<dyn Policy>
    };
    (0..workers).map(policy).collect()
}

pub(crate) fn scripted(workers: usize) -> Vec<Box<dyn Policy>> {
    (0..workers)
        .map(|_| Box::new(Scripted) as Box<dyn Policy>)
        .collect()
}

pub(crate) fn spaces_of(env: &impl Env) -> Spaces {
    Spaces::new(env.observation_space(), env.action_space()).unwrap()
}

/// Blocks of copies of what `make(lane)` makes.
pub(crate) fn blocks<E: Env + 'static>(
    make: impl Fn(usize) -> E + Clone + Send + 'static,
) -> impl FnMut(usize, usize) -> Result<Block, EnvError> {
    move |first, lanes| {
        let make = make.clone();
        // `Copies` builds lanes in order at first; which one it rebuilds is known in blocks of one only.
        let built = std::sync::atomic::AtomicUsize::new(0);
        let build = move || {
            let n = built.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(make(first + n % lanes))
        };
        Ok(Block::Sync(Box::new(Copies::new(lanes, build)?)))
    }
}

pub(crate) fn start<E: Env + 'static>(
    config: RolloutConfig,
    workers: usize,
    make: impl Fn(usize) -> E + Clone + Send + 'static,
) -> Rollout {
    let spaces = spaces_of(&make(0));
    Rollout::start(config, spaces, blocks(make), scripted(workers), None).unwrap()
}

/// Grants every group one segment and receives them, in order of groups.
pub(crate) fn round(rollout: &Rollout, version: u64) -> Vec<Segment> {
    for group in 0..rollout.groups() {
        rollout.grant(group, Acting::At(version)).unwrap();
    }
    let mut segments: Vec<_> = (0..rollout.groups())
        .map(|_| rollout.recv().unwrap())
        .collect();
    segments.sort_by_key(Segment::group);
    segments
}

/// The `f32` observations of a segment.
pub(crate) fn observations(segment: &Segment) -> &[f32] {
    bytemuck::cast_slice(segment.observations())
}

/// The actions of a segment.
pub(crate) fn actions(segment: &Segment) -> &[i32] {
    bytemuck::cast_slice(segment.actions())
}
