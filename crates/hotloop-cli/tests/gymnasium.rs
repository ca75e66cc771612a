//! Whole runs of environments in Python: how they start, are refused and go on, and that nothing of them is left.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The interpreter that the set-up has made.
fn python() -> PathBuf {
    match std::env::var_os("HOTLOOP_PYTHON") {
        Some(python) => python.into(),
        None => workspace().join(".venv/bin/python"),
    }
}

/// `hotloop ARGS` in `dir`; what it starts is known by the variable that has the folder's name.
fn hotloop(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotloop"));
    command
        .args(args)
        .current_dir(dir)
        .env_remove("RUST_LOG")
        .env("HOTLOOP_PYTHON", python())
        .env("PYTHONPATH", workspace().join("envs/gymnasium/tests"))
        .env("HOTLOOP_TEST", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A small run of a toy.
const RUN: &[&str] = &[
    "--run-dir=run",
    "--set=env.import=toys",
    "--set=rollout.envs=8",
    "--set=rollout.horizon=8",
    "--set=network.hidden=[8]",
    "--set=algo.epochs=1",
    "--set=algo.minibatches=1",
];

fn train(dir: &Path, toy: &str, args: &[&str]) -> Command {
    let env = format!("gymnasium:Toys/{toy}-v0");
    let all = [&["train", env.as_str()], RUN, args].concat();
    hotloop(dir, &all)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeeds(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = said(&output) + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    text
}

/// The numbers of all processes that a run in this folder has started, or is; zombies are none.
fn processes(dir: &Path) -> Vec<u32> {
    let mark = format!("HOTLOOP_TEST={}", dir.display());
    let of_run = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark.as_bytes())
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(of_run).collect()
}

fn none_left(dir: &Path) {
    let start = Instant::now();
    while !processes(dir).is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "left: {:?}",
            processes(dir)
        );
        sleep(Duration::from_millis(20));
    }
}

fn weights(text: &str) -> &str {
    text.lines()
        .find(|line| line.starts_with("weights"))
        .unwrap()
}

#[test]
fn a_run_trains_is_evaluated_and_goes_on_and_its_seed_decides() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let length = "--set=env.kwargs.length=4";
    let trained: Vec<String> = dirs
        .iter()
        .zip(["--threads=1", "--threads=2"])
        .map(|(dir, threads)| {
            succeeds(train(
                dir.path(),
                "Count",
                &["--steps=640", length, threads],
            ))
        })
        .collect();
    assert_eq!(weights(&trained[0]), weights(&trained[1]));
    let dir = dirs[0].path();
    assert!(succeeds(hotloop(dir, &["eval", "run", "--episodes=4"])).contains("4.00"));
    let more = succeeds(hotloop(dir, &["train", "--resume=run", "--steps=1280"]));
    assert_ne!(weights(&more), weights(&trained[0]));
    none_left(dir);
}

#[test]
fn what_cannot_start_is_told_in_one_paragraph_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let bare = dir.path().join("bare");
    fs::write(
        &bare,
        format!("#!/bin/sh\nexec {} -S \"$@\"\n", python().display()),
    )
    .unwrap();
    fs::set_permissions(&bare, fs::Permissions::from_mode(0o755)).unwrap();
    let bare = format!("--set=env.python={}", bare.display());
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "gymnasium:LunarLandr-v3",
            &[],
            "Did you mean: `LunarLander`",
        ),
        (
            "gymnasium:CartPole-v1",
            &["--set=env.import=no_such_module"],
            "no_such_module",
        ),
        (
            "gymnasium:CartPole-v1",
            &["--set=env.kwargs.colour=red"],
            "'colour'",
        ),
        (
            "gymnasium:CartPole-v1",
            &["--set=env.python=/no/python"],
            "/no/python (from env.python)",
        ),
        (
            "gymnasium:CartPole-v1",
            &[&bare],
            "-m pip install gymnasium",
        ),
        ("gymnasium:", &[], "gymnasium:NAME"),
        (
            "CartPole-v1",
            &["--set=env.kwargs.x=1"],
            "CartPole-v1 is none",
        ),
        (
            "gymnasium:Toys/Fault-v0",
            &["--set=env.import=toys", "--set=env.kwargs.kind=constructor"],
            "boom-42",
        ),
    ];
    for (env, args, part) in cases {
        let start = Instant::now();
        let args = [&["train", env, "--run-dir=run"], *args].concat();
        let output = hotloop(dir.path(), &args).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{env}: {text}");
        assert!(text.contains(part), "{env}: {text}");
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("error"))
                .count(),
            1,
            "{text}"
        );
        assert!(start.elapsed() < Duration::from_secs(60), "{env} took long");
        assert!(!dir.path().join("run").exists());
    }
    none_left(dir.path());
}
