//! What only a memory can do, from a preset through training to the evaluation of what it left on disk.

use hotloop::{
    Agent, Choice, EvalPlan, TrainReport, Trainer, Which, config::Layers, env::Registry,
};
use std::path::Path;

/// Trains in a short T-maze, from the preset, and leaves the run in `dir`.
fn train(dir: &Path, more: &[&str]) -> (TrainReport, Registry) {
    let mut layers = Layers::new().preset("t-maze").unwrap();
    let settings = [
        "env.options.length=3",
        "steps=100_000",
        "rollout.envs=16",
        "rollout.horizon=32",
        "network.hidden=[16]",
        "network.recurrent_size=16",
        "algo.learning_rate=4e-3",
    ];
    for setting in settings.iter().chain(more) {
        layers = layers.set(setting).unwrap();
    }
    let (config, origins) = layers.finish();
    let mut registry = Registry::new();
    hotloop_memory::register(&mut registry);
    let trainer = Trainer::builder()
        .registry(registry.clone())
        .config(config)
        .origins(origins)
        .run_dir(dir);
    (trainer.build().unwrap().train().unwrap(), registry)
}

/// The share of episodes that end at the goal after a short training.
fn success(more: &[&str]) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let (_, registry) = train(&run, more);
    let plan = EvalPlan {
        episodes: 100,
        seed: 1,
        choice: Choice::Greedy,
    };
    let mut agent = Agent::load(&run, &registry, Which::Last, "cpu").unwrap();
    // Wrong turns cost 0.1, and the goal gives 4.
    (agent.evaluate(plan, 7).unwrap().return_mean + 0.1) / 4.1
}

#[test]
fn a_memory_finds_the_goal_of_a_t_maze_and_no_memory_guesses() {
    let (with, without) = (success(&[]), success(&["network.recurrent=none"]));
    assert!(with > 0.95, "{with}");
    assert!((0.25..0.75).contains(&without), "{without}");
}

#[test]
fn a_memory_trains_with_every_scheduler_and_algorithm() {
    for settings in [
        &["algo.name=appo", "rollout.mode=async"][..],
        &[
            "algo.name=impala",
            "algo.epochs=1",
            "rollout.mode=async",
            "rollout.scheduler=first-ready",
            "network.recurrent=lstm",
            "network.shared=false",
            "algo.sequence=12",
        ],
        &["algo.name=a2c", "algo.epochs=1", "rollout.mode=overlap"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let settings = [settings, &["steps=6_000"]].concat();
        let (report, _) = train(&dir.path().join("run"), &settings);
        assert!(report.env_steps >= 6_000, "{settings:?}");
        assert!(
            report.return_mean_100.is_some_and(f64::is_finite),
            "{settings:?}"
        );
    }
}
