//! Stopping a run in every phase, and going on as if nothing had happened.

use crate::{column, last};
use hotloop::{Ended, StopHandle, TrainReport, TrainerBuilder};
use hotloop_env::{End, EnvSpec};
use hotloop_tests::{Moment, Phase, Script, Spy, Twist, Watch, continued, trainer};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MODES: [&str; 2] = ["rollout.mode=sync", "rollout.mode=overlap"];

fn spec() -> EnvSpec {
    Script::count(7, End::Truncated).spec()
}

/// The hash of a run that nobody stopped.
fn whole(mode: &str, settings: &[&str]) -> TrainReport {
    let dir = tempfile::tempdir().unwrap();
    let run = trainer(&spec(), &[settings, &[mode]].concat()).run_dir(dir.path().join("run"));
    run.build().unwrap().train().unwrap()
}

/// Goes on with a stopped run, and compares it with one that nobody stopped.
#[track_caller]
fn goes_on(dir: &Path, stopped: &TrainReport, whole: &TrainReport) {
    assert_eq!(stopped.ended, Ended::Interrupted);
    assert_eq!(
        last(dir).state["env_steps"],
        stopped.env_steps,
        "the checkpoint is of now"
    );
    let resumed = continued(&spec(), dir, &[])
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert_eq!(resumed.ended, Ended::Finished);
    assert_eq!(resumed.weights_hash, whole.weights_hash);
    assert_eq!(
        (resumed.env_steps, resumed.updates, resumed.episodes),
        (whole.env_steps, whole.updates, whole.episodes)
    );
    let updates: Vec<f64> = (1..=whole.updates).map(|n| n as f64).collect();
    assert_eq!(column(&resumed, "update"), updates);
}

/// Stops as the script's environments come to some moment.
fn stopping_at(
    stop: &StopHandle,
    when: impl Fn(&Moment) -> bool + Send + Sync + 'static,
) -> EnvSpec {
    let stop = stop.clone();
    Script::count(7, End::Truncated)
        .hooked(move |now| {
            if when(now) {
                stop.stop();
            }
            Ok(Twist::None)
        })
        .spec()
}

fn run(builder: TrainerBuilder, dir: &Path, stop: &StopHandle) -> TrainReport {
    builder
        .run_dir(dir)
        .stop(stop.clone())
        .build()
        .unwrap()
        .train()
        .unwrap()
}

#[test]
fn br_50_before_anything_began() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let (path, stop) = (dir.path().join("run"), StopHandle::new());
        stop.stop();
        let stopped = run(trainer(&spec(), &[mode]), &path, &stop);
        assert_eq!((stopped.env_steps, stopped.updates), (0, 0));
        goes_on(&path, &stopped, &whole(mode, &[]));
    }
}

#[test]
fn br_50_while_environments_are_built_reset_or_stepped() {
    for mode in MODES {
        let whole = whole(mode, &[]);
        for (phase, episode, step) in [
            (Phase::Build, 0, 0),
            (Phase::Reset, 0, 0),
            (Phase::Step, 0, 3),
            (Phase::Step, 2, 1),
            (Phase::Observe, 3, 6),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let (path, stop) = (dir.path().join("run"), StopHandle::new());
            let spec = stopping_at(&stop, move |now| {
                (now.phase, now.episode, now.step) == (phase, episode, step)
            });
            let stopped = run(trainer(&spec, &[mode]), &path, &stop);
            assert!(stopped.updates < whole.updates, "{mode} {phase:?}");
            goes_on(&path, &stopped, &whole);
        }
    }
}

#[test]
fn br_50_during_an_update() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let spy = |stop: Option<StopHandle>| {
            Spy::looking(move |cx| {
                if let (4, Some(stop)) = (cx.progress.update, &stop) {
                    stop.stop();
                }
            })
        };
        let stop = StopHandle::new();
        let stopped = run(
            trainer(&spec(), &[mode]).algorithm(spy(Some(stop.clone()))),
            &path,
            &stop,
        );
        assert_eq!(stopped.ended, Ended::Interrupted);
        // In overlap mode the next rollout steps already: it is trained on before the run ends.
        assert_eq!(stopped.updates, if mode == MODES[0] { 5 } else { 6 });
        let resumed = continued(&spec(), &path, &[]).algorithm(spy(None));
        let resumed = resumed.build().unwrap().train().unwrap();
        let whole = trainer(&spec(), &[mode])
            .algorithm(spy(None))
            .run_dir(dir.path().join("whole"));
        assert_eq!(
            resumed.weights_hash,
            whole.build().unwrap().train().unwrap().weights_hash
        );
    }
}

#[test]
fn br_50_between_an_update_and_the_next() {
    for mode in MODES {
        let whole = whole(mode, &[]);
        for at in [1, 2, 7] {
            let dir = tempfile::tempdir().unwrap();
            let (path, stop) = (dir.path().join("run"), StopHandle::new());
            let watch = Watch({
                let stop = stop.clone();
                move |update: &hotloop_telemetry::Update| {
                    if update.update == at {
                        stop.stop();
                    }
                }
            });
            let stopped = run(trainer(&spec(), &[mode]).sink(watch), &path, &stop);
            goes_on(&path, &stopped, &whole);
        }
    }
}

#[test]
fn br_50_while_a_checkpoint_is_written() {
    for mode in MODES {
        // Checkpoints change nothing.
        let whole = whole(mode, &["checkpoint.every=2"]);
        assert_eq!(whole.weights_hash, self::whole(mode, &[]).weights_hash);
        let dir = tempfile::tempdir().unwrap();
        let (path, stop) = (dir.path().join("run"), StopHandle::new());
        let spec = stopping_at(&stop, |now| now.phase == Phase::Save);
        let stopped = run(trainer(&spec, &[mode, "checkpoint.every=2"]), &path, &stop);
        goes_on(&path, &stopped, &whole);
    }
}

#[test]
fn br_50_twice_in_one_run() {
    for mode in MODES {
        let whole = whole(mode, &[]);
        let dir = tempfile::tempdir().unwrap();
        let (path, stop) = (dir.path().join("run"), StopHandle::new());
        let spec = stopping_at(&stop, |now| now.episode == 1);
        let first = run(trainer(&spec, &[mode]), &path, &stop);
        // Stopped again before it has done anything, and again after some steps.
        let at_once = StopHandle::new();
        at_once.stop();
        let second = continued(&spec, &path, &[])
            .stop(at_once)
            .build()
            .unwrap()
            .train()
            .unwrap();
        assert_eq!(
            (second.ended, second.updates),
            (Ended::Interrupted, first.updates)
        );
        let stop = StopHandle::new();
        let spec = stopping_at(&stop, |now| now.episode == 5);
        let third = continued(&spec, &path, &[])
            .stop(stop)
            .build()
            .unwrap()
            .train()
            .unwrap();
        assert!(third.updates > first.updates);
        goes_on(&path, &third, &whole);
    }
}

#[test]
fn br_50_a_slow_environment_does_not_hold_up_the_end() {
    // One step takes longer than the patience for a rollout that is nearly done: its rows are given up.
    let dir = tempfile::tempdir().unwrap();
    let (path, stop) = (dir.path().join("run"), StopHandle::new());
    let sleeper = stop.clone();
    let spec = Script::count(7, End::Truncated)
        .hooked(move |now| {
            if (now.phase, now.lane, now.episode, now.step) == (Phase::Step, 1, 2, 5) {
                sleeper.stop();
                std::thread::sleep(Duration::from_millis(3_600));
            }
            Ok(Twist::None)
        })
        .spec();
    let stopped = run(trainer(&spec, &[]), &path, &stop);
    assert_eq!((stopped.ended, stopped.updates), (Ended::Interrupted, 2));
    let resumed = continued(&self::spec(), &path, &[])
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert_eq!(
        (resumed.ended, resumed.env_steps >= 320),
        (Ended::Finished, true)
    );
}

#[test]
fn br_50_an_evaluation_without_end_does_not_hold_up_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let (path, stop) = (dir.path().join("run"), StopHandle::new());
    let spec = hotloop_tests::echo(2, 0, 0);
    let spy = Spy::looking(|_| ()).at_begin({
        let stop = stop.clone();
        move || stop.stop()
    });
    let endless = trainer(&spec, &["eval.every=1"]).algorithm(spy);
    let stopped = run(endless, &path, &stop);
    assert_eq!((stopped.ended, stopped.updates), (Ended::Interrupted, 1));
    assert_eq!(
        (stopped.best_return, last(&path).state["updates"].as_u64()),
        (None, Some(1))
    );
}

#[test]
fn br_46_a_slow_reset_is_no_fault() {
    let spec = Script::count(7, End::Truncated)
        .hooked(|now| {
            if (now.phase, now.lane, now.episode) == (Phase::Reset, 1, 0) {
                std::thread::sleep(Duration::from_millis(300));
            }
            Ok(Twist::None)
        })
        .spec();
    let dir = tempfile::tempdir().unwrap();
    let slow = run(
        trainer(&spec, &[]),
        &dir.path().join("run"),
        &StopHandle::new(),
    );
    let quick = whole("rollout.mode=sync", &[]);
    assert_eq!((slow.faults, slow.weights_hash), (0, quick.weights_hash));
}

#[test]
fn br_49_stopping_at_any_step_joins_everything() {
    for scheduler in [
        "rollout.scheduler=lockstep",
        "rollout.scheduler=first-ready",
    ] {
        for at in (0..200).step_by(7) {
            let (steps, stop) = (Arc::new(AtomicU64::new(0)), StopHandle::new());
            let handle = stop.clone();
            let spec = stopping_at(&stop, move |now| {
                now.phase == Phase::Step && steps.fetch_add(1, Ordering::Relaxed) == at
            });
            let dir = tempfile::tempdir().unwrap();
            let settings = [
                scheduler,
                "rollout.mode=overlap",
                "rollout.envs_per_actor=1",
            ];
            let stopped = run(trainer(&spec, &settings), &dir.path().join("run"), &handle);
            assert_eq!(stopped.ended, Ended::Interrupted, "{at}");
        }
    }
}
