//! An actor that is alone is run by its worker, and nothing else differs.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::*;
use hotloop_env::{
    ActionView, Env, EnvError, EnvRng, ObservationMut, ResetCtx, Space, StateReader, StateWriter,
    Transition,
};
use hotloop_rollout::{Rollout, RolloutConfig};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

type Names = Arc<Mutex<BTreeSet<String>>>;

/// A walk that notes which threads step it.
struct Noting(Walk, Names);

impl Env for Noting {
    fn observation_space(&self) -> Space {
        self.0.observation_space()
    }
    fn action_space(&self) -> Space {
        self.0.action_space()
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.0.reset(ctx)
    }
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let name = std::thread::current().name().unwrap().to_string();
        self.1.lock().unwrap().insert(name);
        self.0.step(action, rng)
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.0.observe(out)
    }
    fn save(&self, out: &mut StateWriter) -> bool {
        self.0.save(out)
    }
    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.0.load(state)
    }
}

fn config(lanes_per_actor: usize) -> RolloutConfig {
    RolloutConfig {
        lanes: 8,
        lanes_per_actor,
        groups: 1,
        steps: 16,
        env_threads: 2,
        ..Default::default()
    }
}

fn walk(names: &Names) -> impl Fn(usize) -> Noting + Clone + Send + use<> {
    let names = names.clone();
    move |_| {
        let walk = Walk {
            at: 0.0,
            saves: true,
        };
        Noting(walk, names.clone())
    }
}

/// The observations of some rounds.
fn rounds(rollout: &Rollout, range: std::ops::Range<u64>) -> Vec<Vec<f32>> {
    let one = |version| observations(&round(rollout, version)[0]).to_vec();
    range.map(one).collect()
}

#[test]
fn it_is_stepped_by_its_worker_with_the_same_outcome_and_goes_on_from_a_snapshot() {
    let (alone, beside) = (Names::default(), Names::default());
    let first = start(config(8), 1, walk(&alone));
    let expected = rounds(&start(config(2), 1, walk(&beside)), 0..4);
    assert_eq!(rounds(&first, 0..2), expected[..2]);

    let second = Rollout::start(
        config(8),
        spaces_of(&Walk::default()),
        blocks(walk(&alone)),
        scripted(1),
        Some(first.snapshot().unwrap()),
    );
    assert_eq!(rounds(&second.unwrap(), 2..4), expected[2..]);
    assert_eq!(rounds(&first, 2..4), expected[2..]);

    let stepping = first.shutdown().workers[0].stepping;
    assert!(!stepping.is_zero());
    let names = |names: &Names| names.lock().unwrap().iter().cloned().collect::<Vec<_>>();
    assert_eq!(names(&alone), ["hotloop-infer-0"]);
    assert_eq!(names(&beside), ["hotloop-env"]);
}
