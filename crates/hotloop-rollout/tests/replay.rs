//! Recorded schedules: a replay gives the same bytes, and says where it cannot.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::*;
use hotloop_env::{
    ActionView, AsyncCopies, AsyncEnv, Block, EnvError, EnvRng, ObservationMut, ResetCtx, Space,
    Transition,
};
use hotloop_rollout::{
    Acting, Batch, Policy, PolicyError, Rollout, RolloutConfig, RolloutError, Schedule,
    ScheduleFile, Scheduler, Segment, StateColumn, Statistics,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SCHEDULERS: [Scheduler; 2] = [Scheduler::Lockstep, Scheduler::FirstReady { max_batch: 6 }];

/// A number that differs from run to run, and from call to call.
fn chance(below: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let nanos = now.unwrap().as_nanos() as u64;
    ((nanos ^ (call << 20)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % below
}

/// Which calls never answer, now and then.
#[derive(Clone, Copy, PartialEq)]
enum Hangs {
    Never,
    Steps,
    /// Always the same ones.
    Resets,
}

/// A random walk that takes its time, never the same, fails now and then, and `hangs`.
struct Late {
    walk: Walk,
    hangs: Hangs,
}

impl AsyncEnv for Late {
    fn observation_space(&self) -> Space {
        hotloop_env::Env::observation_space(&self.walk)
    }
    fn action_space(&self) -> Space {
        hotloop_env::Env::action_space(&self.walk)
    }
    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        if ctx.rng().below(24) == 0 && self.hangs == Hangs::Resets {
            std::future::pending::<()>().await;
        }
        hotloop_env::Env::reset(&mut self.walk, ctx)
    }
    async fn step(
        &mut self,
        action: ActionView<'_>,
        rng: &mut EnvRng,
    ) -> Result<Transition, EnvError> {
        if rng.below(16) == 0 {
            return Err(EnvError::new("now and then"));
        }
        if self.hangs == Hangs::Steps && chance(64) == 0 {
            std::future::pending::<()>().await;
        }
        if chance(4) == 0 {
            tokio::time::sleep(Duration::from_micros(chance(2000))).await;
        }
        hotloop_env::Env::step(&mut self.walk, action, rng)
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        hotloop_env::Env::observe(&mut self.walk, out)
    }
}

/// Decides by everything that it could get to know: the version, who is in the batch and in which order,
/// what became of the lane before.
struct Curious {
    newest: Arc<AtomicU64>,
    last: Arc<Vec<AtomicU64>>,
}

impl Policy for Curious {
    fn newest(&mut self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        assert!(
            batch.version() <= self.newest.load(Ordering::SeqCst),
            "not published yet"
        );
        if chance(8) == 0 {
            std::thread::sleep(Duration::from_micros(chance(300)));
        }
        let (places, n, version) = (batch.places(), batch.len(), batch.version());
        let (bootstrap, starts) = (batch.bootstrap(), batch.starts());
        let before = if n > 1 { places.lane(0) } else { 0 };
        let outputs = batch.outputs();
        for (i, start) in starts.iter().enumerate() {
            let lane = places.lane(i);
            let last = &self.last[lane];
            let state = if *start != 0 {
                0
            } else {
                last.load(Ordering::Relaxed)
            };
            outputs.values[i] = (version * 100 + (n * 10 + before + i) as u64 + state % 7) as f32;
            if let Some(place) = outputs.states.get_mut(8 * i..8 * (i + 1)) {
                place.copy_from_slice(&state.to_ne_bytes());
            }
            if !bootstrap {
                let action = (state + version + n as u64) % 5;
                bytemuck::cast_slice_mut::<u8, i32>(outputs.actions)[i] = action as i32;
                outputs.log_probs[i] = i as f32;
                last.store(state * 3 + action + 1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// Who a segment is of, and all of its bytes.
type Received = (usize, Vec<u8>);

fn bytes(segment: &Segment) -> Received {
    let mut all = vec![];
    all.extend(bytemuck::cast_slice::<u64, u8>(segment.versions()));
    for column in [
        segment.observations(),
        segment.actions(),
        segment.valid(),
        segment.ends(),
        segment.starts(),
        segment.states(),
        bytemuck::cast_slice(segment.rewards()),
        bytemuck::cast_slice(segment.log_probs()),
        bytemuck::cast_slice(segment.values()),
    ] {
        all.extend(column);
    }
    (segment.group(), all)
}

struct Run {
    config: RolloutConfig,
    workers: usize,
    hangs: Hangs,
    updates: u64,
    /// Segments of an update.
    batch: usize,
}

impl Run {
    fn new(scheduler: Scheduler) -> Self {
        Self {
            config: RolloutConfig {
                lanes: 12,
                lanes_per_actor: 2,
                groups: 3,
                steps: 7,
                segments_per_group: 2,
                scheduler,
                env_threads: 2,
                max_staleness: Some(1),
                state: Some(StateColumn { bytes: 8, every: 3 }),
                max_failures_in_a_row: 1000,
                ..Default::default()
            },
            workers: 2,
            hangs: Hangs::Never,
            updates: 40,
            batch: 4,
        }
    }

    fn start(&self, schedule: Schedule, newest: &Arc<AtomicU64>) -> Result<Rollout, RolloutError> {
        let config = RolloutConfig {
            schedule,
            ..self.config.clone()
        };
        let last = Arc::new(
            (0..config.lanes)
                .map(|_| AtomicU64::new(0))
                .collect::<Vec<_>>(),
        );
        let policies = (0..self.workers).map(|_| {
            let (newest, last) = (newest.clone(), last.clone());
            Box::new(Curious { newest, last }) as Box<dyn Policy>
        });
        let hangs = self.hangs;
        let make = |_: usize, lanes: usize| {
            let build = move || {
                Ok(Late {
                    walk: Walk::default(),
                    hangs,
                })
            };
            Ok(Block::Async(Box::new(AsyncCopies::new(lanes, build)?)))
        };
        let spaces = spaces_of(&Walk::default());
        Rollout::start(config, spaces, make, policies.collect(), None)
    }

    /// Trains nothing: receives, publishes, grants. Returns what it received, update by update.
    fn go(&self, schedule: Schedule) -> Result<(Vec<Received>, Statistics), RolloutError> {
        let newest = Arc::default();
        let rollout = self.start(schedule, &newest)?;
        for group in (0..rollout.groups()).chain(0..rollout.groups()) {
            rollout.grant(group, Acting::Newest)?;
        }
        let mut received = vec![];
        for update in 1..=self.updates {
            let mut batch = vec![];
            while batch.len() < self.batch {
                let next = rollout.recv_timeout(Duration::from_secs(60))?;
                batch.push(next.expect("a run goes on"));
                // Whatever else is there by chance belongs to the update as well.
                while let Some(more) = rollout.recv_timeout(Duration::ZERO)? {
                    batch.push(more);
                }
            }
            received.push((usize::MAX, vec![batch.len() as u8]));
            received.extend(batch.iter().map(bytes));
            rollout.publish(update, || newest.store(update, Ordering::SeqCst))?;
            for segment in batch {
                let group = segment.group();
                drop(segment);
                rollout.grant(group, Acting::Newest)?;
            }
        }
        Ok((received, rollout.shutdown()))
    }
}

/// A file that goes with the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let name = format!("hotloop-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
    fn file(&self) -> ScheduleFile {
        ScheduleFile {
            path: self.0.clone(),
            settings: vec![("algo".into(), "appo".into())],
        }
    }
    fn record(&self) -> Schedule {
        Schedule::Record(self.file())
    }
    fn replay(&self) -> Schedule {
        Schedule::Replay(self.file())
    }
}

impl AsRef<Path> for Temporary {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_replay_receives_the_same_bytes_in_the_same_order() {
    for scheduler in SCHEDULERS {
        let file = Temporary::new("same");
        let run = Run::new(scheduler);
        let (recorded, statistics) = run.go(file.record()).unwrap();
        assert!(statistics.short_segments > 0, "{statistics:?}");
        let mut other = Run::new(scheduler);
        other.config.env_threads = 1;
        for replay in [&run, &other] {
            let (replayed, again) = replay.go(file.replay()).unwrap();
            assert!(recorded == replayed, "{scheduler:?}");
            assert!(again.short_segments > 0);
        }
    }
}

#[test]
fn without_a_replay_the_bytes_differ() {
    // Otherwise the other tests here would show nothing.
    let run = Run::new(SCHEDULERS[1]);
    let (first, _) = run.go(Schedule::Free).unwrap();
    assert!((0..5).any(|_| run.go(Schedule::Free).unwrap().0 != first));
}

#[test]
fn lanes_that_were_given_up_are_given_up_again() {
    for scheduler in SCHEDULERS {
        let file = Temporary::new("deadlines");
        let mut run = Run::new(scheduler);
        run.hangs = Hangs::Steps;
        run.config.step_deadline = Some(Duration::from_millis(20));
        run.config.backoff = Duration::from_millis(1);
        let (recorded, statistics) = run.go(file.record()).unwrap();
        assert!(statistics.faults.deadlines > 0);
        run.hangs = Hangs::Never;
        let (replayed, again) = run.go(file.replay()).unwrap();
        assert!(recorded == replayed, "{scheduler:?}");
        assert!(again.faults.deadlines > 0);
    }
}

#[test]
fn resets_that_were_given_up_are_given_up_again_whether_they_answer_or_not() {
    for scheduler in SCHEDULERS {
        let file = Temporary::new("resets");
        let mut run = Run::new(scheduler);
        run.hangs = Hangs::Resets;
        run.config.reset_deadline = Some(Duration::from_millis(10));
        run.config.backoff = Duration::from_millis(1);
        let (recorded, statistics) = run.go(file.record()).unwrap();
        assert!(statistics.faults.deadlines > 0);
        for hangs in [Hangs::Resets, Hangs::Never] {
            run.hangs = hangs;
            let (replayed, again) = run.go(file.replay()).unwrap();
            assert!(recorded == replayed, "{scheduler:?}");
            assert_eq!(again.faults.deadlines, statistics.faults.deadlines);
        }
    }
}

#[test]
fn the_grant_that_was_refused_is_refused_and_none_before() {
    let file = Temporary::new("refused");
    let go = |schedule| {
        let config = RolloutConfig {
            lanes: 4,
            steps: 5,
            segments_per_group: 2,
            max_failures_in_a_row: 0,
            scheduler: SCHEDULERS[1],
            schedule,
            ..Default::default()
        };
        let hopeless = |lane| Fault::new(Failure::Error, if lane == 0 { 0 } else { u32::MAX });
        let rollout = start(config, 1, hopeless);
        let first = rollout.grant(0, Acting::Newest).unwrap();
        // Its segment is full, if with nothing, once the group has no lane left.
        while first && rollout.statistics().segments == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        (first, rollout.grant(0, Acting::Newest).unwrap())
    };
    assert_eq!(go(file.record()), (true, false));
    assert_eq!(go(file.replay()), (true, false));
}

#[test]
fn a_replay_with_other_settings_is_refused_by_name() {
    let file = Temporary::new("settings");
    let mut run = Run::new(SCHEDULERS[1]);
    run.updates = 2;
    run.go(file.record()).unwrap();
    let refused = |run: &Run, schedule| match run.go(schedule) {
        Err(RolloutError::Schedule { path, reason }) => {
            assert_eq!(path, file.0);
            reason
        }
        other => panic!("{other:?}"),
    };
    run.config.seed = 7;
    let reason = refused(&run, file.replay());
    assert!(
        reason.contains("rollout.seed = 0, and now it is 7"),
        "{reason}"
    );
    run.config.seed = 0;
    let other = Schedule::Replay(ScheduleFile {
        settings: vec![("algo".into(), "ppo".into())],
        ..file.file()
    });
    let reason = refused(&run, other);
    assert!(
        reason.contains("algo = appo, and now it is ppo"),
        "{reason}"
    );
    std::fs::write(&file, "something else").unwrap();
    assert!(refused(&run, file.replay()).contains("is not a schedule"));
    std::fs::remove_file(&file).unwrap();
    assert!(refused(&run, file.replay()).contains("cannot be read"));
}

/// Observations that differ from run to run.
struct Noise(u64);

impl hotloop_env::Env for Noise {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::discrete(5)
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        self.0 += 1;
        Ok(Transition::running(0.0))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[if self.0 == 3 {
            chance(1 << 20) as f32
        } else {
            0.0
        }])
    }
}

#[test]
fn a_replay_that_cannot_follow_says_where() {
    for scheduler in SCHEDULERS {
        let file = Temporary::new("stray");
        let go = |schedule: Schedule, consume: fn(&Rollout) -> Result<(), RolloutError>| {
            let config = RolloutConfig {
                steps: 5,
                schedule,
                scheduler,
                ..Default::default()
            };
            let rollout = start(config, 1, |_| Noise(0));
            rollout.grant(0, Acting::Newest)?;
            consume(&rollout)
        };
        let twice = |rollout: &Rollout| -> Result<(), RolloutError> {
            drop(rollout.recv()?);
            rollout.publish(1, || ())?;
            rollout.grant(0, Acting::Newest)?;
            rollout.recv().map(drop)
        };
        go(file.record(), twice).unwrap();
        let error = go(file.replay(), twice).unwrap_err().to_string();
        assert!(
            error.contains("batch 3, of 1 lanes from lane 0 on"),
            "{error}"
        );
        assert!(error.contains("sees other observations"), "{error}");

        let steady = |schedule: Schedule, consume: fn(&Rollout) -> Result<(), RolloutError>| {
            let config = RolloutConfig {
                steps: 5,
                schedule,
                scheduler,
                ..Default::default()
            };
            let rollout = start(config, 1, |_| Count::new(3, EndBy::Trunc));
            rollout.grant(0, Acting::Newest)?;
            consume(&rollout)
        };
        steady(file.record(), twice).unwrap();
        steady(file.replay(), twice).unwrap();
        let message = |consume| steady(file.replay(), consume).unwrap_err().to_string();
        let error = message(|rollout| rollout.publish(1, || ()));
        assert!(
            error.contains("published version 1, the recorded one received"),
            "{error}"
        );
        let error = message(|rollout| {
            drop(rollout.recv()?);
            rollout.recv().map(drop)
        });
        assert!(
            error.contains("waits for a segment, the recorded one published"),
            "{error}"
        );
        let error = message(|rollout| {
            drop(rollout.recv()?);
            rollout.publish(1, || ())?;
            rollout.recv().map(drop)
        });
        assert!(
            error.contains("needs group 0, which was not granted"),
            "{error}"
        );
        let error = message(|rollout| {
            drop(rollout.recv()?);
            rollout.publish(1, || ())?;
            rollout.grant(0, Acting::Newest)?;
            drop(rollout.recv()?);
            rollout.grant(0, Acting::Newest)?;
            rollout.recv().map(drop)
        });
        assert!(error.contains("the log ends where"), "{error}");
    }
}

#[test]
fn a_log_whose_process_died_is_good_up_to_there() {
    let file = Temporary::new("torn");
    let mut run = Run::new(SCHEDULERS[1]);
    run.updates = 20;
    let (recorded, _) = run.go(file.record()).unwrap();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() * 2 / 3]).unwrap();
    let error = run.go(file.replay()).unwrap_err();
    assert!(matches!(error, RolloutError::Replay(_)), "{error}");
    run.updates = 8;
    let (replayed, _) = run.go(file.replay()).unwrap();
    assert!(recorded[..replayed.len()] == replayed);
}

#[test]
fn a_replay_can_be_stopped_at_any_moment() {
    for scheduler in SCHEDULERS {
        let file = Temporary::new("stopped");
        let mut run = Run::new(scheduler);
        run.updates = 6;
        run.go(file.record()).unwrap();
        for after in 0..20 {
            let rollout = run.start(file.replay(), &Arc::default()).unwrap();
            (0..rollout.groups()).for_each(|group| drop(rollout.grant(group, Acting::Newest)));
            std::thread::sleep(Duration::from_micros(100 * after));
            rollout.shutdown();
        }
    }
}
