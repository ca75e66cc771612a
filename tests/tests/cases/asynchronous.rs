//! Asynchronous training: what it bounds, how it stops and how it goes on.

use crate::{column, last, metrics};
use hotloop::{Ended, StopHandle, TrainReport};
use hotloop_env::{End, EnvSpec};
use hotloop_telemetry::Update;
use hotloop_tests::{Phase, Script, Twist, Watch, continued, echo, trainer};
use std::path::Path;
use std::time::Duration;

const ASYNC: &str = "rollout.mode=async";

fn spec() -> EnvSpec {
    Script::count(7, End::Truncated).spec()
}

fn run(spec: &EnvSpec, dir: &Path, settings: &[&str]) -> TrainReport {
    trainer(spec, &[&[ASYNC], settings].concat())
        .run_dir(dir)
        .build()
        .unwrap()
        .train()
        .unwrap()
}

/// The numbers `flow.KEY` of every line of a run's metrics.
fn flow(report: &TrainReport, key: &str) -> Vec<f64> {
    metrics(report)
        .iter()
        .map(|line| line["flow"][key].as_f64().unwrap())
        .collect()
}

#[test]
fn a_run_ends_at_its_steps_with_whole_books() {
    for scheduler in ["lockstep", "first-ready"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let scheduler = format!("rollout.scheduler={scheduler}");
        let report = run(&spec(), &path, &[&scheduler]);
        assert_eq!(report.ended, Ended::Finished);
        assert!((320..400).contains(&report.env_steps), "{report:?}");
        let updates: Vec<f64> = (1..=report.updates).map(|n| n as f64).collect();
        assert_eq!(column(&report, "update"), updates);
        let rows: f64 = column(&report, "rows").iter().sum();
        assert_eq!(rows, report.env_steps as f64);
        assert_eq!(last(&path).state["env_steps"], report.env_steps);
    }
}

#[test]
fn trained_rows_are_never_older_than_the_bound() {
    // Lanes 1 to 3 take 1, 2 and 3 ms for a step, lane 0 none.
    for (spec, scheduler) in [
        (spec(), "rollout.scheduler=lockstep"),
        (spec(), "rollout.scheduler=first-ready"),
        (echo(2, 0, 1), "rollout.scheduler=first-ready"),
    ] {
        for bound in [1, 2, 8] {
            let dir = tempfile::tempdir().unwrap();
            let most = format!("rollout.max_staleness={bound}");
            let own = ["rollout.envs_per_actor=1", "rollout.groups=1", "steps=960"];
            let report = run(
                &spec,
                &dir.path().join("run"),
                &[&[scheduler, &*most], &own[..]].concat(),
            );
            let oldest = flow(&report, "staleness_max");
            assert!(
                oldest.iter().all(|age| *age <= f64::from(bound)),
                "{oldest:?}"
            );
            assert!(
                oldest.iter().any(|age| *age > 0.0),
                "nothing overlapped: {oldest:?}"
            );
            let shares = flow(&report, "stale_rows");
            assert!(
                shares.iter().all(|share| (0.0..=1.0).contains(share)),
                "{shares:?}"
            );
        }
    }
}

#[test]
fn br_50_a_stopped_run_goes_on_from_its_learner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let stop = StopHandle::new();
    let watch = Watch({
        let stop = stop.clone();
        move |update: &Update| {
            if update.update == 3 {
                stop.stop();
            }
        }
    });
    let stopped = trainer(&spec(), &[ASYNC, "normalize.observations=true"])
        .run_dir(&path)
        .stop(stop)
        .sink(watch)
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert_eq!((stopped.ended, stopped.updates), (Ended::Interrupted, 3));
    assert_eq!(last(&path).state["env_steps"], stopped.env_steps);

    let resumed = continued(&spec(), &path, &[])
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert_eq!(resumed.ended, Ended::Finished);
    assert!(resumed.env_steps >= 320);
    let updates: Vec<f64> = (1..=resumed.updates).map(|n| n as f64).collect();
    assert_eq!(column(&resumed, "update"), updates);
}

#[test]
fn br_50_a_stop_does_not_wait_for_environments() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let stop = StopHandle::new();
    let hook = stop.clone();
    // Step 4 of the first episode takes long, in every lane.
    let slow = Script::count(7, End::Truncated)
        .hooked(move |now| {
            if (now.phase, now.episode, now.step) == (Phase::Step, 0, 4) {
                hook.stop();
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(Twist::None)
        })
        .spec();
    let report = trainer(&slow, &[ASYNC])
        .run_dir(&path)
        .stop(stop)
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert_eq!((report.ended, report.updates), (Ended::Interrupted, 0));
    assert_eq!(last(&path).state["updates"], 0);
}

#[test]
fn an_evaluation_ends_the_run_and_keeps_the_best() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let settings = ["eval.every=2", "eval.episodes=2", "until_return=-1e9"];
    let report = run(&spec(), &path, &settings);
    assert_eq!((report.ended, report.updates), (Ended::ReturnReached, 2));
    assert!(path.join("checkpoints/best.json").exists());
}

#[test]
fn br_59_a_schedule_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let stop = StopHandle::new();
    let watch = Watch({
        let stop = stop.clone();
        move |update: &Update| {
            if update.update == 4 {
                stop.stop();
            }
        }
    });
    let linear = [
        "algo.learning_rate_schedule=linear",
        "algo.learning_rate=1e-3",
        ASYNC,
    ];
    let stopped = trainer(&spec(), &linear)
        .run_dir(&path)
        .stop(stop)
        .sink(watch);
    stopped.build().unwrap().train().unwrap();
    let resumed = continued(&spec(), &path, &[])
        .build()
        .unwrap()
        .train()
        .unwrap();
    // 320 steps are 10 updates of 32 rows; past those it stays at 0.
    let expected = (0..resumed.updates).map(|n| 1e-3 * (1.0 - n as f64 / 10.0).max(0.0));
    for (rate, expected) in column(&resumed, "learning_rate").iter().zip(expected) {
        assert!((rate - expected).abs() < 1e-12, "{rate} is not {expected}");
    }
}
