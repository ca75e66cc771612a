//! Every algorithm, and every unit of values, learns CartPole within seconds.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use hotloop::{Ended, StopHandle, TrainReport, Trainer, config::Layers, env::Registry};
use std::path::Path;

/// A run of CartPole in sync mode; `resume` goes on with the one in `dir`.
fn run(dir: &Path, resume: bool, settings: &[&str]) -> TrainReport {
    let mut layers = Layers::new();
    for set in [
        "env.id=CartPole-v1",
        "rollout.mode=sync",
        "rollout.envs=32",
        "rollout.horizon=32",
        "algo.learning_rate=0.003",
        "algo.learning_rate_schedule=linear",
    ]
    .iter()
    .chain(settings)
    {
        layers = layers.set(set).unwrap();
    }
    let (config, origins) = layers.finish();
    let mut registry = Registry::new();
    hotloop_classic::register(&mut registry);
    let builder = Trainer::builder()
        .registry(registry)
        .config(config)
        .origins(origins)
        .stop(StopHandle::new());
    let builder = if resume {
        builder.resume(dir)
    } else {
        builder.run_dir(dir)
    };
    builder.build().unwrap().train().unwrap()
}

fn learns(settings: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let report = run(&dir.path().join("run"), false, settings);
    assert_eq!(report.ended, Ended::Finished);
    let mean = report.return_mean_100.unwrap();
    assert!(mean > 100.0, "{settings:?}: {mean}");
}

#[test]
fn a2c_learns() {
    learns(&[
        "algo.name=a2c",
        "steps=80000",
        "algo.epochs=1",
        "algo.minibatches=1",
        "rollout.horizon=8",
    ]);
}

#[test]
fn impala_learns() {
    learns(&[
        "algo.name=impala",
        "steps=80000",
        "algo.epochs=1",
        "algo.minibatches=1",
        "rollout.horizon=8",
    ]);
}

#[test]
fn appo_learns() {
    learns(&["algo.name=appo", "steps=50000"]);
}

#[test]
fn values_are_learned_in_any_unit() {
    for values in ["none", "running", "popart"] {
        let values = format!("normalize.values={values}");
        learns(&["algo.name=ppo", "steps=50000", &values]);
    }
}

#[test]
fn br_57_normalized_values_and_corrected_rows_resume_bit_for_bit() {
    for settings in [
        ["algo.name=ppo", "normalize.values=popart"],
        ["algo.name=appo", "normalize.values=running"],
        ["algo.name=impala", "normalize.observations=true"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        // A schedule would end with the half.
        let settings = [&settings[..], &["algo.learning_rate_schedule=constant"]].concat();
        let to = |steps| [&settings[..], &[steps, "threads=2"]].concat();
        let expected = run(&whole, false, &to("steps=8192")).weights_hash;
        let half = run(&parts, false, &to("steps=4096"));
        assert_ne!(half.weights_hash, expected);
        let resumed = run(&parts, true, &to("steps=8192"));
        assert_eq!(resumed.weights_hash, expected, "{settings:?}");
        let one = [&settings[..], &["steps=8192", "threads=1"]].concat();
        let alone = run(&dir.path().join("one"), false, &one).weights_hash;
        assert_eq!(alone, expected, "{settings:?} on one thread");
    }
}
