//! One seed, one result: whatever the number of threads, and however often the run was interrupted.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use hotloop::{Ended, StopHandle, TrainReport, Trainer, config::Layers, env::Registry};
use hotloop_telemetry::{Sink, TelemetryError, Timing, Update};
use std::path::Path;

fn registry() -> Registry {
    let mut registry = Registry::new();
    hotloop_classic::register(&mut registry);
    registry
}

/// Stops the run after an update.
struct StopAfter(u64, StopHandle);

impl Sink for StopAfter {
    fn update(&mut self, update: &Update, _: &Timing) -> Result<(), TelemetryError> {
        if update.update == self.0 {
            self.1.stop();
        }
        Ok(())
    }
}

/// A short run of CartPole with everything that has state switched on.
fn run(dir: &Path, resume: bool, stop_after: Option<u64>, settings: &[&str]) -> TrainReport {
    let mut layers = Layers::new().preset("cartpole").unwrap();
    for set in [
        "steps=8192",
        "rollout.envs=16",
        "rollout.horizon=32",
        "normalize.observations=true",
    ]
    .iter()
    .chain(&["normalize.rewards=true"])
    .chain(settings)
    {
        layers = layers.set(set).unwrap();
    }
    let (config, origins) = layers.finish();
    let stop = StopHandle::new();
    let mut builder = Trainer::builder()
        .registry(registry())
        .config(config)
        .origins(origins)
        .stop(stop.clone());
    builder = if resume {
        builder.resume(dir)
    } else {
        builder.run_dir(dir)
    };
    if let Some(update) = stop_after {
        builder = builder.sink(StopAfter(update, stop));
    }
    builder.build().unwrap().train().unwrap()
}

fn hash(settings: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    run(&dir.path().join("run"), false, None, settings).weights_hash
}

/// A network that remembers, and is trained over less than a rollout.
const MEMORY: [&str; 4] = [
    "network.recurrent=gru",
    "network.recurrent_size=8",
    "network.hidden=[16]",
    "algo.sequence=12",
];

/// Both modes, and one of them with a memory.
fn kinds() -> [Vec<&'static str>; 3] {
    let overlap = "rollout.mode=overlap";
    [
        vec!["rollout.mode=sync"],
        vec![overlap],
        [&[overlap], &MEMORY[..]].concat(),
    ]
}

#[test]
fn threads_change_no_bit_and_seeds_change_all() {
    for kind in kinds() {
        let with = |more| hash(&[&kind[..], &[more]].concat());
        let one = with("threads=1");
        assert_eq!(one, with("threads=2"), "{kind:?}");
        assert_eq!(one, with("threads=2"), "{kind:?}, again");
        assert_ne!(one, with("seed=2"), "{kind:?}");
    }
}

#[test]
fn br_57_a_run_that_was_stopped_and_resumed_ends_as_if_it_had_not() {
    for kind in kinds() {
        let whole = hash(&kind);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let first = run(&path, false, Some(3), &kind);
        assert_eq!(first.ended, Ended::Interrupted, "{kind:?}");
        assert_ne!(first.weights_hash, whole);
        let second = run(&path, true, Some(9), &kind);
        assert!(second.updates > first.updates && second.env_steps > first.env_steps);
        let last = run(&path, true, None, &kind);
        assert_eq!(
            (last.ended, &last.weights_hash),
            (Ended::Finished, &whole),
            "{kind:?}"
        );
        let metrics = std::fs::read_to_string(path.join("metrics.jsonl")).unwrap();
        assert_eq!(
            metrics.lines().count() as u64,
            last.updates,
            "one line for each update"
        );
    }
}
