//! Stacks of frames: whatever happens to an episode, a policy and a consumer see the last frames of it and
//! of no other, while the slab keeps one frame for each row.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::{blocks, scripted, spaces_of};
use hotloop_env::{
    ActionView, Env, EnvError, EnvRng, ObservationMut, ResetCtx, Space, Spaces, Stacks,
    StateReader, StateWriter, Transition,
};
use hotloop_rollout::{
    Acting, Batch, Policy, PolicyError, Rollout, RolloutConfig, Scheduler, Segment, Snapshot,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Frames that are seen at once.
const STACK: usize = 4;

/// Shows its lane, a number that no other episode has, and the steps made. Episodes end in every way, and
/// resets fail at times.
struct Film {
    lane: usize,
    episode: u32,
    step: u32,
    saves: bool,
}

static EPISODES: AtomicU64 = AtomicU64::new(1);

impl Env for Film {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[3])
    }
    fn action_space(&self) -> Space {
        Space::discrete(5)
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        if ctx.rng().below(20) == 0 {
            return Err("the reset failed".into());
        }
        (self.episode, self.step) = (EPISODES.fetch_add(1, Relaxed) as u32, 0);
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        self.step += 1;
        match rng.below(30) {
            0 => Err("the step failed".into()),
            1..4 => Ok(Transition::terminated(1.0)),
            4..7 => Ok(Transition::truncated(1.0)),
            _ => Ok(Transition::running(1.0)),
        }
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.lane as f32, self.episode as f32, self.step as f32])
    }
    fn save(&self, out: &mut StateWriter) -> bool {
        out.u32(self.episode);
        out.u32(self.step);
        self.saves
    }
    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        (self.episode, self.step) = (state.u32()?, state.u32()?);
        Ok(())
    }
}

fn spaces() -> Spaces {
    let film = film(false)(0);
    spaces_of(&film).stacked(STACK).unwrap()
}

fn film(saves: bool) -> impl Fn(usize) -> Film + Clone + Send + 'static {
    move |lane| Film {
        lane,
        episode: 0,
        step: 0,
        saves,
    }
}

/// Checks every observation's frames; returns how many steps each had made.
fn check(stacks: &Stacks<'_>, n: usize) -> Vec<u32> {
    let of = |i: usize| {
        let frames: Vec<&[f32]> = stacks.frames(i).map(bytemuck::cast_slice).collect();
        let last = frames[STACK - 1];
        for (back, frame) in frames.iter().rev().enumerate() {
            let step = (last[2] - back as f32).max(0.0);
            assert_eq!(*frame, [last[0], last[1], step], "{frames:?}");
        }
        last[2] as u32
    };
    (0..n).map(of).collect()
}

struct Looking;

impl Policy for Looking {
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        check(&batch.stacks(), batch.len());
        scripted(1)[0].decide(batch)
    }
}

fn start(config: RolloutConfig, saves: bool, from: Option<Snapshot>) -> Rollout {
    let policies = vec![Box::new(Looking) as Box<dyn Policy>, Box::new(Looking)];
    Rollout::start(config, spaces(), blocks(film(saves)), policies, from).unwrap()
}

/// Rounds of segments, whose rows are checked; returns how many began in the middle of an episode.
fn rounds(rollout: &Rollout, rounds: usize) -> usize {
    let mut middle = 0;
    for round in 0..rounds {
        for group in 0..rollout.groups() {
            rollout.grant(group, Acting::At(round as u64)).unwrap();
        }
        for _ in 0..rollout.groups() {
            let segment: Segment = rollout.recv().unwrap();
            let (rows, lanes) = (segment.rows() + 1, segment.lanes());
            let steps = check(&segment.stacks(), rows * lanes);
            let last = segment.stacks().last();
            assert_eq!(last, segment.observations());
            assert_eq!(last.len(), rows * lanes * 12);
            middle += steps[..lanes].iter().filter(|&&step| step >= 3).count();
        }
    }
    middle
}

#[test]
fn br_34_every_way_to_end_an_episode_in_segments_of_any_length() {
    let first_ready = Scheduler::FirstReady { max_batch: 4 };
    for scheduler in [Scheduler::Lockstep, first_ready] {
        for steps in [1, 2, 7] {
            for segments_per_group in [1, 2] {
                let config = RolloutConfig {
                    lanes: 8,
                    lanes_per_actor: 2,
                    groups: 2,
                    steps,
                    segments_per_group,
                    scheduler,
                    env_threads: 2,
                    seed: steps as u64,
                    max_failures_in_a_row: 100,
                    ..Default::default()
                };
                let rollout = start(config, false, None);
                let middle = rounds(&rollout, 280 / steps);
                assert!(middle > 8, "{middle}");
                assert!(rollout.statistics().faults.total() > 8);
            }
        }
    }
}

#[test]
fn br_34_frames_go_on_where_lanes_were_saved() {
    let first_ready = Scheduler::FirstReady { max_batch: 4 };
    for scheduler in [Scheduler::Lockstep, first_ready] {
        for saves in [true, false] {
            let config = RolloutConfig {
                lanes: 8,
                groups: 2,
                steps: 2,
                scheduler,
                max_failures_in_a_row: 100,
                ..Default::default()
            };
            let rollout = start(config.clone(), saves, None);
            rounds(&rollout, 20);
            let saved = rollout.snapshot().unwrap().to_bytes();
            drop(rollout);
            let snapshot = Snapshot::from_bytes(&saved).unwrap();
            let rollout = start(config.clone(), saves, Some(snapshot));
            // Lanes that could not save begin with the frames of the episode that they give up.
            assert!(rounds(&rollout, 1) > 0);
            rounds(&rollout, 20);

            // Of another stack they are not.
            let snapshot = Snapshot::from_bytes(&saved).unwrap();
            let alone = spaces_of(&film(saves)(0));
            let policies = scripted(2);
            let other =
                Rollout::start(config, alone, blocks(film(saves)), policies, Some(snapshot));
            let error = other.err().unwrap().to_string();
            assert!(error.contains("bytes of observations"), "{error}");
        }
    }
}

#[test]
fn br_34_a_short_segment_passes_its_frames_on() {
    let made = Arc::new(AtomicU64::new(0));
    struct Ageing(Arc<AtomicU64>);
    impl Policy for Ageing {
        fn newest(&mut self) -> u64 {
            self.0.load(Relaxed) / 3
        }
        fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
            self.0.fetch_add(1, Relaxed);
            Looking.decide(batch)
        }
    }
    let config = RolloutConfig {
        lanes: 4,
        steps: 8,
        max_staleness: Some(1),
        max_failures_in_a_row: 100,
        ..Default::default()
    };
    let policies: Vec<Box<dyn Policy>> = vec![Box::new(Ageing(made))];
    let rollout = Rollout::start(config, spaces(), blocks(film(false)), policies, None).unwrap();
    let mut short = 0;
    for _ in 0..60 {
        rollout.grant(0, Acting::Newest).unwrap();
        let segment = rollout.recv().unwrap();
        check(&segment.stacks(), (segment.rows() + 1) * 4);
        short += usize::from(segment.rows() < 8);
    }
    assert!(short > 50, "{short}");
}
