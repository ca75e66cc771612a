//! Environments that do what an environment should not, and interpreters that are none: nobody else is held up, and
//! what is wrong is said.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod support;

use std::fs;
use std::future::{Future, poll_fn};
use std::os::unix::fs::PermissionsExt;
use std::pin::pin;
use std::time::Duration;
use support::{made, runtime, toy};

#[test]
fn br_46_a_slow_reset_holds_up_nobody_but_its_own_block() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("open");
    // The probe resets one, too.
    fs::write(&file, "").unwrap();
    let runtime = runtime();
    let gate = format!(r#"{{"file": "{}"}}"#, file.display());
    let mut slow = toy("Gate", &gate).desk(2);
    let mut fast = toy("Count", "{}").desk(2);
    fs::remove_file(&file).unwrap();
    let limit = Duration::from_secs(60);
    runtime.block_on(async {
        let mut its_reset = pin!(slow.turning(limit));
        let mut turns = 0;
        while turns < 100 {
            let mut turn = pin!(fast.turning(limit));
            poll_fn(|cx| {
                assert!(
                    its_reset.as_mut().poll(cx).is_pending(),
                    "after {turns} turns"
                );
                turn.as_mut().poll(cx)
            })
            .await;
            turns += 1;
        }
        fs::write(&file, "").unwrap();
        assert!(its_reset.await);
    });
    assert!(slow.faults.is_empty(), "{:?}", slow.faults);
    assert_eq!(
        (&slow.next_valid[..], slow.floats(1)[0]),
        (&[1, 1][..], 0.0)
    );
    assert!(fast.states.totals.iter().all(|lane| lane.episodes > 20));
}

#[test]
fn a_child_that_comes_back_is_no_second_worker() {
    for how in ["exit", "return"] {
        let mut desk = toy("Forks", &format!(r#"{{"how": "{how}"}}"#)).desk(2);
        for step in 0..4 {
            desk.turn();
            assert!(desk.faults.is_empty(), "{:?}", desk.faults);
            assert_eq!(
                (desk.floats(0)[0], desk.floats(1)[0]),
                (step as f32, step as f32)
            );
        }
    }
}

#[test]
fn output_folder_and_threads_are_the_environments_own() {
    let mut desk = toy("Careless", "{}").desk(2);
    for _ in 0..3 {
        desk.turn();
        assert!(desk.faults.is_empty(), "{:?}", desk.faults);
    }
}

#[test]
fn instances_of_other_spaces_are_refused_with_both() {
    let mut desk = toy("Varies", "{}").desk(2);
    desk.turn();
    assert_eq!(desk.faults.len(), 1, "{:?}", desk.faults);
    assert_eq!(desk.next_valid, [1, 0]);
    for part in ["Discrete(3)", "that of the first", "Discrete(2)"] {
        assert!(desk.faults[0].message.contains(part), "{}", desk.faults[0]);
    }
}

/// A program that runs the interpreter of the tests in its own way.
fn interpreter(dir: &tempfile::TempDir, name: &str, script: &str) -> String {
    let path = dir.path().join(name);
    let text = format!("#!/bin/sh\nexec {} {script}\n", support::python());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn an_interpreter_that_will_not_do_is_told_with_what_would() {
    let dir = tempfile::tempdir().unwrap();
    let old = "import sys; sys.version_info = (3, 8, 1); exec(sys.argv[3])";
    for (python, parts) in [
        (
            "/bin/true".to_string(),
            [
                "/bin/true, which has to be Python 3.9 or newer",
                "exit code 0",
            ],
        ),
        (
            interpreter(&dir, "bare", r#"-I -S "$@""#),
            ["No module named", "-m pip install gymnasium"],
        ),
        (
            interpreter(&dir, "old", &format!(r#"-c '{old}' "$@""#)),
            ["needs Python 3.9 or newer", "is Python 3.8"],
        ),
    ] {
        let mut cartpole = made("CartPole-v1");
        cartpole.interpreter = Some(python);
        let error = cartpole.spaces().unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error}");
        }
    }
}
