//! Stacks of frames that the engine keeps are, to the bit, those of the wrapper.

use hotloop::{Agent, Choice, EvalPlan, TrainReport, Which};
use hotloop_env::{
    ActionView, Env, EnvError, EnvRng, EnvSpec, ImageLayout, ObservationMut, Registry, ResetCtx,
    Space, StateReader, StateWriter, Transition, wrappers::FrameStack,
};
use hotloop_tests::{continued, trainer};
use std::path::Path;

/// Moving dots, or numbers: random walks whose episodes end in every way, and fail at times.
#[derive(Clone)]
struct Film {
    images: bool,
    at: [u32; 2],
    failing: bool,
}

const SIZE: usize = 10;

impl Env for Film {
    fn observation_space(&self) -> Space {
        match self.images {
            true => Space::image([SIZE, SIZE, 2], ImageLayout::Hwc),
            false => Space::boxed(0.0, 10.0, &[2]),
        }
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.at = [0, 1].map(|_| ctx.rng().below(SIZE as u64) as u32);
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let before = self.at;
        for (i, at) in self.at.iter_mut().enumerate() {
            let by = rng.below(3) as u32 + if i == 0 { action.discrete() as u32 } else { 0 };
            *at = (*at + by) % SIZE as u32;
        }
        let reward = f64::from(self.at[0]) - f64::from(before[1]) / 2.0;
        match rng.below(40) {
            0 if self.failing => Err("the film tore".into()),
            1..4 => Ok(Transition::terminated(reward)),
            4..7 => Ok(Transition::truncated(reward)),
            _ => Ok(Transition::running(reward)),
        }
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        if !self.images {
            return out.write(&self.at.map(|at| at as f32 * 0.7));
        }
        let mut pixels = [0u8; SIZE * SIZE * 2];
        for (channel, at) in self.at.into_iter().enumerate() {
            pixels[(at as usize * SIZE + 3) * 2 + channel] = 100 + 10 * at as u8;
        }
        out.write(&pixels)
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        self.at.into_iter().for_each(|at| out.u32(at));
        true
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        for at in &mut self.at {
            *at = state.u32()?;
        }
        Ok(())
    }
}

/// The film itself, and what shows four frames of it at once.
fn films(images: bool) -> [EnvSpec; 2] {
    let film = Film {
        images,
        at: [0; 2],
        failing: true,
    };
    let wrapped = film.clone();
    [
        EnvSpec::new("Film-v0", move |_| Ok(film.clone())),
        EnvSpec::new("Film-v0", move |_| FrameStack::new(wrapped.clone(), 4)),
    ]
}

/// The wrapper's way and the engine's.
const WAYS: [&str; 2] = ["env.frame_stack=4", "env.frame_stack=0"];

fn run(spec: &EnvSpec, way: &str, settings: &[&str], dir: &Path) -> TrainReport {
    let settings = [&[way], settings].concat();
    let run = trainer(spec, &settings).run_dir(dir);
    run.build().unwrap().train().unwrap()
}

#[track_caller]
fn same(images: bool, settings: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let [film, wrapped] = films(images);
    let engine = run(&film, WAYS[0], settings, &dir.path().join("engine"));
    let wrapper = run(&wrapped, WAYS[1], settings, &dir.path().join("wrapper"));
    assert!(engine.faults > 0 && engine.episodes > 10, "{settings:?}");
    assert_eq!(engine.faults, wrapper.faults, "{settings:?}");
    assert_eq!(engine.weights_hash, wrapper.weights_hash, "{settings:?}");

    // One frame is another run.
    let alone = run(&film, WAYS[1], settings, &dir.path().join("alone"));
    assert_ne!(engine.weights_hash, alone.weights_hash, "{settings:?}");
}

#[test]
fn br_34_a_run_with_stacks_is_the_run_with_the_wrapper() {
    same(false, &[]);
    same(true, &[]);
    same(true, &["network.fast=false", "rollout.mode=overlap"]);
}

#[test]
fn br_34_in_segments_shorter_than_a_stack() {
    same(false, &["rollout.horizon=2", "rollout.mode=overlap"]);
    same(true, &["rollout.horizon=1"]);
}

#[test]
fn br_34_normalized_staged_and_evaluated_anew() {
    let normalized = "normalize.observations=true";
    same(false, &[normalized]);
    same(false, &[normalized, "staged=true"]);
    let anew = ["algo.name=impala", "rollout.mode=sync"];
    same(true, &[&anew[..], &[normalized, "staged=true"]].concat());
}

#[test]
fn br_34_with_a_memory() {
    same(false, &["network.recurrent=lstm", "algo.sequence=4"]);
    let anew = ["algo.name=impala", "rollout.mode=sync"];
    same(false, &[&anew[..], &["network.recurrent=gru"]].concat());
}

#[test]
fn br_34_a_resumed_run_goes_on_with_the_frames_it_had() {
    for images in [false, true] {
        let [film, _] = films(images);
        let dir = tempfile::tempdir().unwrap();
        let whole = run(&film, WAYS[0], &[], &dir.path().join("whole"));
        let part = dir.path().join("part");
        run(&film, WAYS[0], &["steps=96"], &part);
        let resumed = continued(&film, &part, &["steps=320"]);
        let resumed = resumed.build().unwrap().train().unwrap();
        assert_eq!(resumed.weights_hash, whole.weights_hash);
    }
}

#[test]
fn br_34_evaluations_show_the_same_frames() {
    let settings = ["eval.every=2", "eval.episodes=12", "eval.envs=5"];
    for images in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let returns = films(images).into_iter().zip(WAYS).map(|(spec, way)| {
            let path = dir.path().join(way);
            let report = run(&spec, way, &settings, &path);
            let mut registry = Registry::new();
            registry.add(spec);
            let mut agent = Agent::load(&path, &registry, Which::Last, "cpu").unwrap();
            let plan = EvalPlan {
                episodes: 20,
                seed: 3,
                choice: Choice::Sample,
            };
            assert!(report.best_return.is_some());
            (report.best_return, agent.evaluate(plan, 7).unwrap())
        });
        let returns: Vec<_> = returns.collect();
        assert_eq!(returns[0], returns[1]);
    }
}
