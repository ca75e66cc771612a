//! Runs on Atari games, whole: resumed ones end as those that were never stopped.
#![cfg(feature = "atari")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::hotloop;
use serde_json::Value;

/// Two lanes, a small network, and a step size that does not depend on how long the run is.
const TINY: &[&str] = &[
    "train",
    "atari",
    "--json",
    "--set",
    "rollout.envs=2",
    "--set",
    "rollout.horizon=16",
    "--set",
    "network.body=mlp",
    "--set",
    "network.hidden=[8]",
    "--set",
    "algo.epochs=1",
    "--set",
    "algo.minibatches=1",
    "--set",
    "algo.learning_rate_schedule=constant",
];

#[test]
fn a_game_goes_on_from_a_checkpoint_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let report = |args: &[&str]| -> Value {
        let done = hotloop(dir.path(), args);
        assert_eq!(done.code, 0, "{}", done.stderr);
        serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap()
    };
    let whole = report(&[TINY, &["--steps", "320", "--run-dir", "whole"]].concat());
    let half = report(&[TINY, &["--steps", "160", "--run-dir", "half"]].concat());
    assert_ne!(half["weights_hash"], whole["weights_hash"]);
    let resumed = report(&["train", "--resume", "half", "--steps", "320", "--json"]);
    for key in ["weights_hash", "env_steps", "episodes"] {
        assert_eq!(resumed[key], whole[key], "{key}");
    }
    let film = report(&[
        "eval",
        "whole",
        "--episodes",
        "1",
        "--render",
        "game.gif",
        "--json",
    ]);
    assert_eq!(film["episodes"], 1);
    assert!(dir.path().join("game.gif").exists());
}
