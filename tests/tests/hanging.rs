//! Whole programs whose environments hang.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use hotloop_learn::checkpoint;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Four environments and rounds of 8 steps, saved after every update; lane 2 hangs at its 200th step, in
/// the 25th round.
const START: &[&str] = &[
    "--run-dir=run",
    "--steps=1e12",
    "--set=rollout.envs=4",
    "--set=rollout.horizon=8",
    "--set=network.hidden=[8]",
    "--set=algo.epochs=1",
    "--set=algo.minibatches=1",
    "--set=checkpoint.every=1",
    "--set=env.options.time=0.0",
    "--set=env.options.hang_every=200",
    "--set=env.options.faulty_lane=2",
];

fn toys(dir: &Path, env: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotloop-toys"));
    command
        .args(["train", env])
        .args(START)
        .args(args)
        .current_dir(dir)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Updates of the last checkpoint that is whole.
fn saved(run: &Path) -> u64 {
    let Ok(manifest) = fs::read(run.join("checkpoints/last.json")) else {
        return 0;
    };
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    manifest["state"]["updates"].as_u64().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn br_46_a_stuck_environment_is_named_and_the_program_ends_with_a_checkpoint() {
    for mode in ["sync", "overlap", "async"] {
        let dir = tempfile::tempdir().unwrap();
        let mode = format!("--set=rollout.mode={mode}");
        let args = [mode.as_str(), "--set=rollout.stuck_after=1"];
        let output = toys(dir.path(), "Synthetic/Busy-v0", &args)
            .output()
            .unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{mode}: {text}");
        for part in [
            "error: Synthetic/Busy-v0, lane 2, step 99: step has not returned for 1.0 s",
            "stuck_after",
        ] {
            assert!(text.contains(part), "{mode}: {text}");
        }
        let checkpoint = checkpoint::load(&dir.path().join("run/checkpoints"), "last").unwrap();
        assert!(checkpoint.state["updates"].as_u64() >= Some(5), "{mode}");
    }
}

#[test]
fn br_50_ctrl_c_ends_a_program_whose_environment_hangs() {
    for (env, args) in [
        (
            "Synthetic/Busy-v0",
            [
                "--set=rollout.scheduler=lockstep",
                "--set=rollout.mode=sync",
            ],
        ),
        (
            "Synthetic/Busy-v0",
            [
                "--set=rollout.scheduler=first-ready",
                "--set=rollout.mode=async",
            ],
        ),
        (
            "Synthetic/Wait-v0",
            [
                "--set=rollout.scheduler=lockstep",
                "--set=rollout.mode=overlap",
            ],
        ),
        (
            "Synthetic/Wait-v0",
            [
                "--set=rollout.scheduler=first-ready",
                "--set=rollout.mode=sync",
            ],
        ),
        (
            "Synthetic/Wait-v0",
            [
                "--set=rollout.scheduler=first-ready",
                "--set=rollout.mode=async",
            ],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        // The lanes that do not hang could go on alone in async mode: all hang.
        let all = "--set=env.options.faulty_lane=-1";
        let mut command = toys(
            dir.path(),
            env,
            &[args[0], args[1], all, "--set=rollout.stuck_after=0"],
        );
        let mut child = command.spawn().unwrap();
        let run = dir.path().join("run");
        // All hang once nothing is saved any more; if it only looks so, the end is another one.
        let mut updates = 0;
        while updates < 5 || saved(&run) > updates {
            updates = saved(&run);
            assert!(
                child.try_wait().unwrap().is_none(),
                "{env} {args:?} ended early"
            );
            std::thread::sleep(Duration::from_millis(500));
        }
        // SAFETY: a signal to a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
        let output = child.wait_with_output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(130), "{env} {args:?}: {text}");
        assert!(saved(&run) >= 5, "{env} {args:?}: {text}");
    }
}
