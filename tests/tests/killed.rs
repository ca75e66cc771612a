//! A run that is killed at any moment goes on from a checkpoint no older than the one before.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use hotloop_learn::checkpoint;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn toys(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotloop-toys"));
    command
        .args(args)
        .current_dir(dir)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Saves after every update, which takes most of its time: the network is large and the batch small.
const START: &[&str] = &[
    "train",
    "Mirror-v0",
    "--run-dir",
    "run",
    "--steps",
    "1e12",
    "--set",
    "rollout.envs=2",
    "--set",
    "rollout.horizon=4",
    "--set",
    "algo.epochs=1",
    "--set",
    "algo.minibatches=1",
    "--set",
    "network.hidden=[256, 256]",
    "--set",
    "normalize.observations=true",
    "--set",
    "checkpoint.every=1",
];

/// Updates of the checkpoint, if there is one: it must be whole at any moment.
fn saved(run: &Path) -> u64 {
    let checkpoints = run.join("checkpoints");
    if !checkpoints.join("last.json").exists() {
        return 0;
    }
    // While the run goes on, the file that the manifest named may be replaced before it is read.
    let manifest: Value =
        serde_json::from_slice(&fs::read(checkpoints.join("last.json")).unwrap()).unwrap();
    manifest["state"]["updates"].as_u64().unwrap()
}

fn wait_past(child: &mut Child, run: &Path, updates: u64) {
    while saved(run) <= updates {
        assert_eq!(child.try_wait().unwrap(), None, "the run ended");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn br_60_killed_at_any_moment_a_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let mut updates = 0;
    for kill in 0..20u64 {
        let args: &[&str] = if kill == 0 {
            START
        } else {
            &["train", "--resume", "run"]
        };
        let mut child = toys(dir.path(), args).spawn().unwrap();
        wait_past(&mut child, &run, updates);
        // Another moment of another save each time.
        std::thread::sleep(Duration::from_micros(kill * 1_700));
        let before = saved(&run);
        child.kill().unwrap();
        child.wait().unwrap();
        let loaded = checkpoint::load(&run.join("checkpoints"), "last").unwrap();
        let now = loaded.state["updates"].as_u64().unwrap();
        assert!(now >= before && now > updates, "{updates} {before} {now}");
        updates = now;
    }
    // Leftovers of saves that were cut short do not pile up.
    let steps = (8 * updates + 64).to_string();
    let done = toys(dir.path(), &["train", "--resume", "run", "--steps", &steps])
        .status()
        .unwrap();
    assert_eq!(done.code(), Some(0));
    let files = fs::read_dir(run.join("checkpoints")).unwrap().count();
    assert!(files <= 3, "{files} files");
    let eval = toys(dir.path(), &["eval", "run", "--episodes", "1"])
        .status()
        .unwrap();
    assert_eq!(eval.code(), Some(0));
}
