//! Workers that raise, hang, crash, or are killed: named, replaced, and nothing of them left.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod support;

use hotloop_env::{Cause, Fault, FaultPhase};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Desk, lives, soon, toy};

fn fault(kind: &str, lane: usize) -> support::Made {
    toy("Fault", &format!(r#"{{"kind": "{kind}", "lane": {lane}}}"#))
}

/// Turns until something fails.
fn until_fault(desk: &mut Desk) -> Vec<Fault> {
    for _ in 0..10 {
        desk.turn();
        if !desk.faults.is_empty() {
            return std::mem::take(&mut desk.faults);
        }
    }
    panic!("nothing failed");
}

/// The lanes of a desk all step again.
fn recovers(desk: &mut Desk) {
    desk.turn();
    assert!(desk.faults.is_empty(), "{:?}", desk.faults);
    desk.turn();
    assert!(desk.valid.iter().all(|valid| *valid == 1));
}

#[test]
fn br_44_an_exception_is_its_own_lanes_alone_and_told_with_its_traceback() {
    for kind in ["raise", "exit"] {
        let mut desk = fault(kind, 3).desk(8);
        let faults = until_fault(&mut desk);
        assert_eq!(faults.len(), 1, "{faults:?}");
        let fault = &faults[0];
        assert_eq!(
            (fault.lane, fault.step, fault.phase),
            (3, 1, FaultPhase::Step)
        );
        assert_eq!(fault.cause, Cause::Error);
        let said = if kind == "raise" {
            "ValueError: boom-42"
        } else {
            "SystemExit: 3"
        };
        assert!(fault.message.starts_with(said), "{fault}");
        assert!(
            fault.message.contains("toys.py") && fault.message.contains("misbehave"),
            "{fault}"
        );
        // The others have made their step.
        assert_eq!(desk.valid, [1, 1, 1, 0, 1, 1, 1, 1]);
        assert_eq!(desk.floats(4)[0], 2.0);
        desk.turn();
        assert!(desk.faults.is_empty());
        assert_eq!((desk.floats(3)[0], desk.floats(4)[0]), (0.0, 3.0));
    }
}

#[test]
fn br_44_a_reset_that_fails_leaves_the_step_before_it() {
    let mut desk = fault("reset", 1).desk(3);
    let faults = until_fault(&mut desk);
    assert_eq!(faults.len(), 1, "{faults:?}");
    let fault = &faults[0];
    assert_eq!((fault.lane, fault.phase), (1, FaultPhase::Reset));
    assert!(fault.message.contains("boom-42 in reset"), "{fault}");
    assert_eq!(
        (desk.valid[1], desk.next_valid[1], desk.lengths[1]),
        (1, 0, 1)
    );
    desk.turn();
    assert!(desk.faults.is_empty());
    assert_eq!(desk.next_valid, [1, 1, 1]);
}

#[test]
fn br_44_a_constructor_that_fails_is_its_own_lanes_alone() {
    let mut desk = fault("constructor", 3).desk(8);
    desk.turn();
    assert_eq!(desk.faults.len(), 1, "{:?}", desk.faults);
    let fault = &desk.faults[0];
    assert_eq!((fault.lane, fault.phase), (3, FaultPhase::Build));
    assert!(
        fault.message.contains("boom-42 in the constructor"),
        "{fault}"
    );
    assert_eq!(desk.next_valid, [1, 1, 1, 0, 1, 1, 1, 1]);
    let before = desk.block.process_id();
    recovers(&mut desk);
    assert_eq!(desk.block.process_id(), before);
    assert_eq!((desk.floats(3)[0], desk.floats(4)[0]), (1.0, 2.0));
}

#[test]
fn a_reward_that_is_none_is_not_kept_where_the_reset_after_it_ends_the_worker() {
    for (reward, valid) in [("2.0", 1), ("np.nan", 0)] {
        let kwargs = serde_json::json!({
            "step": format!("(obs, {reward}, True, False, {{}})"),
            "reset": "(obs, {}) if episode == 0 else __import__('os')._exit(4)",
        });
        let mut desk = toy("Says", &kwargs.to_string()).desk(1);
        let faults = until_fault(&mut desk);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].message.contains("exit code 4"), "{}", faults[0]);
        assert_eq!((desk.valid[0], desk.next_valid[0]), (valid, 0));
        assert_eq!(desk.rewards[0], if valid == 1 { 2.0 } else { 0.0 });
    }
}

#[test]
fn br_47_a_worker_that_dies_is_named_and_its_lanes_begin_anew() {
    for (kind, parts) in [
        ("kill", vec!["SIGKILL"]),
        ("segv", vec!["SIGSEGV", "Fatal Python error", "misbehave"]),
        ("leave", vec!["exit code 7", "leaving in silence"]),
    ] {
        let mut desk = fault(kind, 1).desk(4);
        desk.turn();
        let before = desk.block.process_id();
        let faults = until_fault(&mut desk);
        assert_eq!(faults.len(), 4);
        assert_eq!((faults[0].lane, faults[0].cause), (1, Cause::Error));
        for part in parts {
            assert!(faults[0].message.contains(part), "{kind}: {}", faults[0]);
        }
        for other in &faults[1..] {
            assert_eq!((other.cause, other.in_a_row), (Cause::Lost, 0), "{other}");
            assert!(other.message.contains("with lane 1"), "{other}");
        }
        assert_eq!(desk.valid, [0; 4]);
        recovers(&mut desk);
        assert_ne!(desk.block.process_id(), before);
    }
}

#[test]
fn a_worker_that_eats_memory_fails_alone() {
    let mut desk = fault("memory", 0).desk(2);
    let faults = until_fault(&mut desk);
    assert_eq!(faults[0].lane, 0);
    assert!(faults[0].message.contains("MemoryError"), "{}", faults[0]);
}

#[test]
fn br_46_a_step_that_hangs_is_given_up_and_told_where() {
    for (kind, told) in [("hang", true), ("stop", false)] {
        let mut desk = fault(kind, 2).desk(4);
        desk.turn();
        desk.turn();
        desk.turn_that_hangs_in(2);
        assert_eq!(desk.faults.len(), 4, "{:?}", desk.faults);
        let fault = &desk.faults[0];
        assert_eq!(
            (fault.lane, fault.phase, fault.cause),
            (2, FaultPhase::Step, Cause::Deadline)
        );
        assert_eq!(fault.message.contains("misbehave"), told, "{fault}");
        assert!(
            desk.faults[1..]
                .iter()
                .all(|other| other.cause == Cause::Lost)
        );
        recovers(&mut desk);
    }
}

#[test]
fn a_worker_that_is_killed_between_turns_is_replaced() {
    let mut desk = toy("Count", r#"{"length": 100}"#).desk(2);
    desk.turn();
    let id = desk.block.process_id().unwrap();
    Command::new("kill")
        .args(["-9", &id.to_string()])
        .status()
        .unwrap();
    soon("the end", || !lives(id));
    desk.turn();
    assert_eq!(desk.faults.len(), 2);
    assert!(
        desk.faults
            .iter()
            .all(|f| f.cause == Cause::Error && f.message.contains("SIGKILL"))
    );
    recovers(&mut desk);
}

#[test]
fn br_46_no_lane_is_blamed_for_a_worker_that_does_not_begin() {
    let mut desk = toy("Count", r#"{"length": 100}"#).desk(3);
    desk.turn();
    let id = desk.block.process_id().unwrap();
    Command::new("kill")
        .args(["-STOP", &id.to_string()])
        .status()
        .unwrap();
    assert!(!desk.turn_within(Duration::from_millis(500)));
    assert_eq!(desk.faults.len(), 3);
    for fault in &desk.faults {
        assert_eq!(fault.cause, Cause::Deadline, "{fault}");
        assert!(fault.message.contains("no lane was at work"), "{fault}");
    }
    assert!(!lives(id));
    recovers(&mut desk);
}

#[test]
fn br_46_no_lane_is_blamed_for_a_worker_that_has_done_with_all() {
    let mut desk = toy("Late", "{}").desk(1);
    desk.turn();
    for _ in 0..3 {
        assert!(
            desk.turn_within(Duration::from_secs(2)),
            "{:?}",
            desk.faults
        );
        assert!(desk.faults.is_empty(), "{:?}", desk.faults);
    }
}

#[test]
fn br_44_a_worker_that_leaves_in_its_own_way_is_not_said_to_be_killed() {
    let mut desk = toy("Leaves", "{}").desk(2);
    desk.turn();
    desk.turn();
    let id = desk.block.process_id().unwrap();
    Command::new("kill")
        .args(["-TERM", &id.to_string()])
        .status()
        .unwrap();
    soon("the end", || !lives(id));
    desk.turn();
    assert_eq!(desk.faults.len(), 2);
    for fault in &desk.faults {
        assert!(
            fault
                .message
                .starts_with("its worker is gone: SystemExit: 3")
                && fault.message.contains("odd.py"),
            "{fault}"
        );
    }
    recovers(&mut desk);
}

#[test]
fn br_44_a_worker_that_can_no_longer_answer_says_why() {
    let step = "(__import__('os').closerange(3, 100), (obs, 1.0, False, False, {}))[1]";
    let kwargs = serde_json::json!({"step": step});
    let mut desk = toy("Says", &kwargs.to_string()).desk(1);
    for fault in until_fault(&mut desk) {
        let told = &fault.message;
        assert!(
            told.contains("exit code 1") && told.contains("Bad file descriptor"),
            "{fault}"
        );
    }
}

#[test]
fn a_worker_that_talks_much_is_heard_and_does_not_stop() {
    let mut desk = fault("talk", 0).desk(2);
    for _ in 0..5 {
        desk.turn();
        assert!(desk.faults.is_empty(), "{:?}", desk.faults);
    }
}

#[test]
fn br_47_shared_memory_of_an_environments_own_does_not_outlive_its_worker() {
    let dir = tempfile::tempdir().unwrap();
    for leaves in [true, false] {
        let file = dir.path().join(format!("names-{leaves}"));
        let kwargs = serde_json::json!({"file": file, "leaves": leaves});
        let mut desk = toy("Shares", &kwargs.to_string()).desk(2);
        desk.turn();
        desk.turn();
        assert_eq!(desk.faults.len(), if leaves { 2 } else { 0 });
        drop(desk);
        let names = std::fs::read_to_string(&file).unwrap();
        // The probe's and two of each worker.
        assert!(names.lines().count() >= 3, "{names}");
        for name in names.lines() {
            let memory = std::path::Path::new("/dev/shm").join(name);
            soon("the removal of its memory", || !memory.exists());
        }
    }
}

/// What the next test starts as a process of its own; alone it does nothing.
#[test]
fn a_process_to_be_killed() {
    let Ok(file) = std::env::var("HOTLOOP_TEST_KILLED") else {
        return;
    };
    let hangs = std::env::var_os("HOTLOOP_TEST_HANGS").is_some();
    let mut desk = toy("Child", &format!(r#"{{"hangs": {hangs}}}"#)).desk(2);
    desk.turn();
    let child = |lane: usize| f64::from_ne_bytes(desk.record(lane).try_into().unwrap()) as u32;
    let pids = [desk.block.process_id().unwrap(), child(0), child(1)];
    let text: Vec<String> = pids.iter().map(u32::to_string).collect();
    std::fs::write(format!("{file}.part"), text.join(" ")).unwrap();
    std::fs::rename(format!("{file}.part"), &file).unwrap();
    if hangs {
        desk.turn_within(Duration::from_secs(60));
    } else {
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn br_47_workers_and_their_children_end_with_the_program_however_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    for (signal, hangs) in [("-9", false), ("-9", true), ("-15", false), ("-6", true)] {
        let file = dir.path().join(format!("{signal} {hangs}"));
        let mut program = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_to_be_killed"])
            .env("HOTLOOP_TEST_KILLED", &file)
            .envs(hangs.then_some(("HOTLOOP_TEST_HANGS", "1")))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..6 {
            if file.exists() {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        soon("the start", || file.exists());
        let text = std::fs::read_to_string(&file).unwrap();
        let pids: Vec<u32> = text.split(' ').map(|pid| pid.parse().unwrap()).collect();
        assert!(pids.iter().all(|pid| lives(*pid)));
        if hangs {
            // So that it is in the step; if it is not yet, all is as without.
            std::thread::sleep(Duration::from_millis(500));
        }
        Command::new("kill")
            .args([signal, &program.id().to_string()])
            .status()
            .unwrap();
        program.wait().unwrap();
        soon("the end of all", || !pids.iter().any(|pid| lives(*pid)));
    }
}
