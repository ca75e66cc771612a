//! Evaluation: its quota of episodes, its seeds, its actions.

use crate::{holds, metrics};
use hotloop::env::Registry;
use hotloop::{Agent, Choice, Ended, EvalPlan, EvalReport, Which};
use hotloop_env::{
    ActionView, End, Env, EnvError, EnvRng, EnvSpec, ObservationMut, ResetCtx, Space, Transition,
};
use hotloop_tests::{Phase, Script, Twist, trainer, uneven};
use std::sync::atomic::{AtomicUsize, Ordering};

fn agent(spec: &EnvSpec, settings: &[&str]) -> Agent {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    trainer(spec, settings)
        .run_dir(&run)
        .build()
        .unwrap()
        .train()
        .unwrap();
    let mut registry = Registry::new();
    registry.add(spec.clone());
    Agent::load(&run, &registry, Which::Last, "cpu").unwrap()
}

fn plan(episodes: usize, choice: Choice) -> EvalPlan {
    EvalPlan {
        episodes,
        seed: 7,
        choice,
    }
}

#[test]
fn br_36_every_env_plays_its_share_however_short_its_episodes() {
    let mut agent = agent(&uneven(), &["steps=32"]);
    let report = agent.evaluate(plan(10, Choice::Greedy), 2).unwrap();
    assert_eq!(
        (report.episodes, report.return_mean, report.length_mean),
        (10, 4.5, 5.0)
    );
    assert_eq!(
        (report.return_min, report.return_max, report.return_std),
        (0.0, 9.0, 4.5)
    );
    // The first envs play one more where it does not divide: 4 of length 1 and 3 of length 9.
    let report = agent.evaluate(plan(7, Choice::Greedy), 2).unwrap();
    assert_eq!((report.episodes, report.return_mean), (7, 27.0 / 7.0));
    // No more envs than episodes.
    let report = agent.evaluate(plan(1, Choice::Greedy), 5).unwrap();
    assert_eq!((report.episodes, report.return_mean), (1, 0.0));
}

#[test]
fn br_36_evaluation_during_training_has_the_same_quota() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "steps=64",
        "eval.every=1",
        "eval.episodes=10",
        "eval.envs=2",
    ];
    let run = trainer(&uneven(), &settings)
        .run_dir(dir.path().join("run"))
        .build()
        .unwrap();
    for line in metrics(&run.train().unwrap()) {
        assert_eq!(line["evaluation"]["return_mean"], 4.5, "{line}");
        assert_eq!(line["evaluation"]["episodes"], 10);
    }
}

#[test]
fn episodes_depend_on_seed_and_number_alone() {
    let mut registry = Registry::new();
    hotloop_classic::register(&mut registry);
    let spec = registry.get("CartPole-v1").unwrap();
    let mut agent = agent(&spec, &["steps=320"]);
    for choice in [Choice::Greedy, Choice::Sample] {
        let reports: Vec<EvalReport> = [1, 3, 7, 11]
            .map(|envs| agent.evaluate(plan(11, choice), envs).unwrap())
            .to_vec();
        assert!(
            reports.iter().all(|report| *report == reports[0]),
            "{reports:?}"
        );
        let other = EvalPlan {
            seed: 8,
            ..plan(11, choice)
        };
        assert_ne!(agent.evaluate(other, 3).unwrap(), reports[0]);
    }
}

/// Every action is as good as any: all logits are equal, since all weights of the last layer see zeros.
struct Blank(usize);

impl Env for Blank {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::masked_discrete(4)
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.0 = 0;
        Ok(())
    }
    fn step(&mut self, action: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        self.0 += 1;
        let reward = action.discrete() as f64;
        Ok(if self.0 == 5 {
            Transition::terminated(reward)
        } else {
            Transition::running(reward)
        })
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[0.0f32])
    }
    fn action_mask(&mut self, mask: &mut [u8]) {
        mask.copy_from_slice(&[0, 1, 1, 1]);
    }
}

#[test]
fn ties_go_to_the_lowest_action_that_is_allowed() {
    // A learning rate too small to move a bias from 0.
    let spec = EnvSpec::new("Blank-v0", |_| Ok(Blank(0)));
    let mut agent = agent(&spec, &["steps=32", "algo.learning_rate=1e-45"]);
    let report = agent.evaluate(plan(6, Choice::Greedy), 3).unwrap();
    assert_eq!((report.return_min, report.return_max), (5.0, 5.0));
    let sampled = agent.evaluate(plan(6, Choice::Sample), 3).unwrap();
    assert!(sampled.return_std > 0.0, "{sampled:?}");
}

#[test]
fn br_44_an_evaluation_survives_failures_now_and_then() {
    let steps = AtomicUsize::new(0);
    let spec = Script::count(9, End::Terminated)
        .hooked(move |now| {
            let fails =
                now.phase == Phase::Step && steps.fetch_add(1, Ordering::Relaxed) % 40 == 39;
            if fails {
                panic!("boom-42")
            } else {
                Ok(Twist::None)
            }
        })
        .spec();
    let dir = tempfile::tempdir().unwrap();
    let settings = ["eval.every=2", "eval.episodes=8"];
    let run = trainer(&spec, &settings)
        .run_dir(dir.path().join("run"))
        .build()
        .unwrap();
    let report = run.train().unwrap();
    assert_eq!(
        (report.ended, report.best_return),
        (Ended::Finished, Some(9.0))
    );
    // Failures of evaluations are told apart, and are in the count of all.
    let lines = metrics(&report);
    let evaluations = lines.iter().filter_map(|line| line.get("evaluation"));
    let evaluated: u64 = evaluations.map(|e| e["faults"].as_u64().unwrap()).sum();
    let trained: usize = lines
        .iter()
        .filter_map(|line| line.get("failures")?.as_array())
        .map(Vec::len)
        .sum();
    assert!(evaluated > 0);
    assert_eq!(report.faults, evaluated + trained as u64);

    // Whole episodes alone are counted.
    let report = agent(&spec, &["steps=32"])
        .evaluate(plan(20, Choice::Greedy), 4)
        .unwrap();
    assert_eq!(
        (report.episodes, report.return_min, report.return_max),
        (20, 9.0, 9.0)
    );
    assert!(report.faults > 0);
}

#[test]
fn br_44_an_evaluation_ends_where_an_environment_always_fails() {
    let spec = Script::count(9, End::Terminated)
        .hooked(|now| match (now.phase, now.step) {
            (Phase::Step, 4) => panic!("boom-42"),
            _ => Ok(Twist::None),
        })
        .spec();
    // Training copes: every failure follows good steps.
    let mut agent = agent(&spec, &["steps=32"]);
    let error = agent.evaluate(plan(3, Choice::Greedy), 2).unwrap_err();
    let parts = [spec.id(), "evaluation, lane ", "step 4", "boom-42"];
    holds(&error.to_string(), &parts);
}
