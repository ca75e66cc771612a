//! Environments that wait: their evaluations, and stops while one of them does not answer.

use crate::{last, metrics};
use hotloop::{Ended, StopHandle, TrainReport};
use hotloop_env::{
    ActionView, AsyncEnv, EnvError, EnvRng, EnvSpec, ObservationMut, ResetCtx, Space, Transition,
};
use hotloop_tests::{Watch, continued, trainer};
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Interval, interval};

/// As many as are built before those of evaluations: one that is asked for its spaces, and the rollout's.
const TRAINING: usize = 5;

/// Rewards of 1, six to an episode. Each step waits for a timer that is as old as the environment.
struct Clocked {
    clock: Option<Interval>,
    built: usize,
    step: usize,
    steps: usize,
    answers: Arc<Answers>,
}

/// Whether the environment that was built as number … answers to its step number …, over all episodes.
type Answers = dyn Fn(usize, usize) -> bool + Send + Sync;

fn clocked(answers: impl Fn(usize, usize) -> bool + Send + Sync + 'static) -> EnvSpec {
    let (built, answers): (_, Arc<Answers>) = (AtomicUsize::new(0), Arc::new(answers));
    EnvSpec::asynchronous("Clocked-v0", move |_| {
        Ok(Clocked {
            clock: None,
            built: built.fetch_add(1, Ordering::Relaxed),
            step: 0,
            steps: 0,
            answers: Arc::clone(&answers),
        })
    })
}

impl AsyncEnv for Clocked {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    async fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.step = 0;
        self.clock
            .get_or_insert_with(|| interval(Duration::from_millis(1)));
        Ok(())
    }

    async fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        if let Some(clock) = &mut self.clock {
            clock.tick().await;
        }
        if !(self.answers)(self.built, self.steps) {
            pending::<()>().await;
        }
        (self.step, self.steps) = (self.step + 1, self.steps + 1);
        Ok(match self.step {
            6 => Transition::terminated(1.0),
            _ => Transition::running(1.0),
        })
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.step as f32])
    }
}

const OVERLAP: [&str; 4] = [
    "rollout.mode=overlap",
    "eval.every=1",
    "eval.episodes=2",
    "eval.envs=2",
];

#[track_caller]
fn goes_on(dir: &Path) -> TrainReport {
    let resumed = continued(&clocked(|_, _| true), dir, &["until_return=1000"]);
    let resumed = resumed.build().unwrap().train().unwrap();
    assert_eq!(resumed.ended, Ended::Finished);
    resumed
}

#[test]
fn timers_and_sockets_outlive_an_evaluation() {
    let dir = tempfile::tempdir().unwrap();
    let run = trainer(&clocked(|_, _| true), &OVERLAP).run_dir(dir.path().join("run"));
    let report = run.build().unwrap().train().unwrap();
    assert_eq!((report.faults, report.best_return), (0, Some(6.0)));
    for line in metrics(&report) {
        assert_eq!(line["evaluation"]["faults"], 0, "{line}");
    }
}

#[test]
fn a_stopped_evaluation_is_not_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let (path, stop) = (dir.path().join("run"), StopHandle::new());
    // The second evaluation never ends, while the next rollout steps already, which ends the run with
    // one more update.
    let spec = clocked({
        let stop = stop.clone();
        move |built, step| {
            let answers = built < TRAINING || step < 6;
            if !answers {
                stop.stop();
            }
            answers
        }
    });
    let run = trainer(&spec, &OVERLAP).run_dir(&path).stop(stop);
    let report = run.build().unwrap().train().unwrap();
    assert_eq!((report.ended, report.updates), (Ended::Interrupted, 3));
    assert_eq!(metrics(&report)[1].get("evaluation"), None);
    goes_on(&path);
}

#[test]
fn a_return_that_is_reached_is_kept_though_the_next_rollout_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let (path, stop) = (dir.path().join("run"), StopHandle::new());
    // The second rollout hangs.
    let spec = clocked(|built, step| built >= TRAINING || step < 12);
    let watch = Watch({
        let stop = stop.clone();
        move |_: &hotloop_telemetry::Update| stop.stop()
    });
    let settings = [&OVERLAP[..], &["until_return=6"]].concat();
    let run = trainer(&spec, &settings).run_dir(&path).stop(stop);
    let report = run.sink(watch).build().unwrap().train().unwrap();
    assert_eq!((report.ended, report.updates), (Ended::ReturnReached, 1));
    assert_eq!(last(&path).state["updates"], 1);
    goes_on(&path);
}
