//! First-ready rollouts on one thread and on tokio's paused clock, so that what depends on time can be
//! counted exactly: actors are the real ones, and the test serves inference.

#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use crate::first_ready::{self, Baton, Floor, Worker};
use crate::hub::Hub;
use crate::schedule::Course;
use crate::slab::Slab;
use crate::{Acting, Batch, Policy, PolicyError, RolloutConfig, RolloutError, Scheduler, start};
use hotloop_env::{Block, EnvSpec, Fault, OptionValue, Registry};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Always action 1.
struct One;

impl Policy for One {
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        bytemuck::cast_slice_mut::<u8, i32>(batch.actions_mut()).fill(1);
        batch.values_mut().fill(0.0);
        Ok(())
    }
}

/// One actor for each lane.
struct Stage {
    hub: Arc<Hub>,
    floor: Arc<Floor>,
    worker: Worker,
    actors: Vec<JoinHandle<()>>,
    /// How often any actor was polled.
    polls: Arc<AtomicU64>,
    /// Valid rows of each lane.
    steps: Vec<u64>,
    /// Groups that took no more segments.
    retired: Vec<bool>,
}

/// Options of `Synthetic/Wait-v0`.
type Options<'a> = &'a [(&'a str, OptionValue)];

fn wait_spec() -> EnvSpec {
    let mut registry = Registry::new();
    hotloop_synthetic::register(&mut registry);
    registry.get("Synthetic/Wait-v0").unwrap().clone()
}

fn config(lanes: usize) -> RolloutConfig {
    RolloutConfig {
        env: "Synthetic/Wait-v0".into(),
        lanes,
        steps: 8,
        segments_per_group: 2,
        scheduler: Scheduler::FirstReady { max_batch: lanes },
        ..Default::default()
    }
}

impl Stage {
    /// All lanes with the options of `of(lane)`.
    fn new(config: RolloutConfig, of: impl Fn(usize) -> Vec<(&'static str, OptionValue)>) -> Self {
        let spec = wait_spec();
        let spaces = Arc::new(
            spec.spaces(&spec.options(&BTreeMap::new()).unwrap())
                .unwrap(),
        );
        let make = |first: usize, lanes: usize| -> Result<Block, _> {
            let given = of(first).into_iter().map(|(k, v)| (k.to_string(), v));
            spec.make(&spec.options(&given.collect())?, lanes)
        };
        let (runners, beacons) = start::build(&config, &spaces, make, None).unwrap();
        let columns = config.columns(&spaces).unwrap();
        let (mut batons, mut segments) = (vec![], vec![]);
        for block in 0..config.effective_groups() {
            let slab = Slab::new(columns.clone(), config.segments_per_group).unwrap();
            batons.push(Baton::new(block, &columns, None));
            segments.push(slab.1);
        }
        let (lanes, groups) = (config.lanes, batons.len());
        let floor = Arc::new(Floor::new(batons, 1));
        let hub = Hub::new(
            config,
            spaces,
            segments,
            1,
            beacons,
            Course::Free,
            vec![floor.clone()],
        );
        let hub = Arc::new(hub);
        let polls = Arc::new(AtomicU64::new(0));
        let actors = runners.into_iter().enumerate().map(|(block, runner)| {
            let actor = first_ready::actor(block, runner, floor.clone(), hub.clone());
            let (mut actor, polls) = (Box::pin(actor), polls.clone());
            tokio::spawn(poll_fn(move |cx| {
                polls.fetch_add(1, Relaxed);
                actor.as_mut().poll(cx)
            }))
        });
        let actors = actors.collect();
        tokio::spawn(first_ready::relay(0, floor.clone()));
        let worker = Worker::new(0, Box::new(One), floor.clone(), hub.clone(), lanes);
        Self {
            hub,
            floor,
            worker,
            actors,
            polls,
            steps: vec![0; lanes],
            retired: vec![false; groups],
        }
    }

    fn grant(&mut self, group: usize) {
        let granted = self.hub.grant(group, Acting::At(0)).unwrap();
        self.retired[group] = !granted;
        if granted {
            self.floor.granted(group, &self.hub);
        }
    }

    fn grant_all(&mut self) {
        (0..self.retired.len()).for_each(|group| self.grant(group));
    }

    /// Lets everything go on that can without time passing, and grants a segment for every one received
    /// if there is to be `more`.
    async fn settle(&mut self, more: bool) {
        let mut idle = 0;
        while idle < 4 {
            tokio::task::yield_now().await;
            idle += 1;
            while let Some(baton) = self.floor.ready.try_pop() {
                self.worker.serve(baton).unwrap();
                idle = 0;
            }
            let now = std::time::Instant::now();
            while let Ok(Some(full)) = self.hub.take_full(Some(now)) {
                idle = 0;
                let group = full.group;
                self.steps[group] += full.buf.env_steps(full.rows);
                drop(full.right);
                self.hub.desks[group].free.push(full.buf).unwrap();
                if more {
                    self.grant(group);
                }
            }
        }
    }

    async fn run(&mut self, time: Duration, more: bool) {
        let end = Instant::now() + time;
        loop {
            self.settle(more).await;
            if Instant::now() >= end || self.hub.is_closed() {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn faults(&self) -> Vec<Fault> {
        self.hub.take_faults().collect()
    }

    /// Closes, and is done when all actors have ended, which takes no time.
    async fn close(self) {
        let before = Instant::now();
        self.hub.close();
        for actor in self.actors {
            actor.await.unwrap();
        }
        assert_eq!(Instant::now(), before);
    }
}

fn paused(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test);
}

/// Thousands, as there are meant to be.
const LANES: usize = 4096;
const SECOND: Duration = Duration::from_secs(1);

/// Steps that take 1 to 50 ms.
fn spread(more: Options<'_>) -> Vec<(&'static str, OptionValue)> {
    let mut options = vec![("latency", "uniform".into()), ("length", 0i64.into())];
    for (name, value) in more {
        // The names are the spec's own.
        let name: &'static str = match *name {
            "hang_every" => "hang_every",
            "panic_every" => "panic_every",
            "fail_every" => "fail_every",
            "reset_time" => "reset_time",
            other => panic!("{other}"),
        };
        options.push((name, value.clone()));
    }
    options
}

/// Steps by lane of 10 s, and the faults, where lane 5 hangs from its 3rd step on and lane 9 panics at
/// every 100th; or where none does.
fn show(faulty: bool) -> (Vec<u64>, Vec<Fault>) {
    let mut outcome = (vec![], vec![]);
    paused(async {
        let config = RolloutConfig {
            step_deadline: Some(2 * SECOND),
            ..config(LANES)
        };
        let mut stage = Stage::new(config, |lane| match lane {
            5 if faulty => spread(&[("hang_every", 3i64.into())]),
            9 if faulty => spread(&[("panic_every", 100i64.into())]),
            _ => spread(&[]),
        });
        stage.grant_all();
        stage.grant_all();
        stage.run(10 * SECOND, true).await;
        outcome = (stage.steps.clone(), stage.faults());
        stage.close().await;
    });
    outcome
}

#[test]
fn br_46_other_lanes_make_the_steps_that_they_make_without_faults() {
    let ((steps, faults), (expected, none)) = (show(true), show(false));
    assert!(none.is_empty());
    for lane in 0..LANES {
        if lane != 5 && lane != 9 {
            assert_eq!(steps[lane], expected[lane], "lane {lane}");
            assert!(steps[lane] > 300, "{steps:?}");
        }
    }
    let of = |lane: usize| faults.iter().filter(move |fault| fault.lane == lane);
    assert_eq!(of(5).count() + of(9).count(), faults.len());
    // Two steps, 2 s for the third, and on.
    assert!((3..=4).contains(&of(5).count()), "{faults:?}");
    for fault in of(5) {
        assert_eq!(fault.cause, hotloop_env::Cause::Deadline);
        assert_eq!(fault.message, "no answer within 2 s");
    }
    assert!((3..=4).contains(&of(9).count()), "{faults:?}");
    assert!(of(9).all(|fault| fault.cause == hotloop_env::Cause::Panic));
    // One row lost to each panic, and none of the other rows.
    assert!(
        steps[9] + 8 * 3 > expected[9],
        "{} {}",
        steps[9],
        expected[9]
    );
}

#[test]
fn br_46_a_slow_reset_is_no_fault_and_each_call_has_its_own_limit() {
    paused(async {
        let config = RolloutConfig {
            step_deadline: Some(SECOND),
            reset_deadline: Some(30 * SECOND),
            ..config(8)
        };
        let mut stage = Stage::new(config, |lane| match lane {
            3 => spread(&[("reset_time", 8_000.0.into())]),
            4 => spread(&[("reset_time", 31_000.0.into())]),
            _ => spread(&[]),
        });
        stage.grant_all();
        stage.grant_all();
        stage.run(40 * SECOND, true).await;
        let faults = stage.faults();
        let [fault] = &faults[..] else {
            panic!("{faults:?}")
        };
        assert_eq!(
            (fault.lane, fault.phase),
            (4, hotloop_env::FaultPhase::Reset)
        );
        assert_eq!(fault.message, "no answer within 30 s");
        assert!(
            stage.steps[3] > 1000 && stage.steps[0] > 1200,
            "{:?}",
            stage.steps
        );
        assert_eq!(stage.hub.counters.read().faults.deadlines, 1);
        stage.close().await;
    });
}

#[test]
fn a_lane_that_fails_at_every_step_rests_longer_and_longer_and_is_set_aside() {
    paused(async {
        let config = RolloutConfig {
            max_failures_in_a_row: 7,
            ..config(4)
        };
        let mut stage = Stage::new(config, |lane| match lane {
            1 => spread(&[("fail_every", 1i64.into())]),
            _ => spread(&[]),
        });
        stage.grant_all();
        // The rests after failures 2 to 7: 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2 s.
        stage.run(Duration::from_millis(6_250), true).await;
        assert_eq!(stage.faults().len(), 7);
        assert_eq!(stage.hub.counters.read().lanes_set_aside, 0);
        stage.run(Duration::from_millis(100), true).await;
        let faults = stage.faults();
        assert_eq!((faults.len(), faults[0].in_a_row), (1, 8));
        assert_eq!(stage.hub.counters.read().lanes_set_aside, 1);

        let before = stage.steps.clone();
        stage.run(60 * SECOND, true).await;
        assert_eq!(stage.steps[1], 0);
        assert_eq!(stage.retired, [false, true, false, false]);
        assert!((0..4).all(|lane| lane == 1 || stage.steps[lane] > before[lane] + 1500));
        assert!(stage.faults().is_empty() && !stage.hub.is_closed());
        stage.close().await;
    });
}

#[test]
fn br_44_the_run_ends_when_fewer_than_half_of_the_lanes_are_left() {
    paused(async {
        let config = RolloutConfig {
            max_failures_in_a_row: 2,
            ..config(4)
        };
        let mut stage = Stage::new(config, |lane| match lane {
            0 => spread(&[]),
            // One after the other.
            lane => spread(&[
                ("fail_every", 1i64.into()),
                ("reset_time", (1000.0 * lane as f64).into()),
            ]),
        });
        stage.grant_all();
        stage.run(10 * SECOND, true).await;
        assert_eq!(stage.hub.counters.read().lanes_set_aside, 2);
        assert!(!stage.hub.is_closed());
        stage.run(60 * SECOND, true).await;
        let error = stage.hub.end_reason();
        let RolloutError::TooFewLanes {
            left: 1,
            lanes: 4,
            fault,
            ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!((fault.lane, fault.in_a_row), (3, 3));
        assert!(error.to_string().contains("fail_every, step 1"), "{error}");
    });
}

#[test]
fn br_52_actors_that_wait_for_segments_are_not_polled() {
    paused(async {
        let config = RolloutConfig {
            step_deadline: Some(2 * SECOND),
            ..config(64)
        };
        let mut stage = Stage::new(config, |_| spread(&[]));
        stage.grant_all();
        stage.run(5 * SECOND, false).await;
        assert_eq!(stage.steps, [8; 64]);
        let before = stage.polls.load(Relaxed);
        sleep(3600 * SECOND).await;
        stage.settle(false).await;
        // The last timer of each, set for a deadline that was not reached, may still ring once.
        let polls = stage.polls.load(Relaxed) - before;
        assert!(polls <= 64, "{polls} polls in an hour");
        let before = stage.polls.load(Relaxed);
        sleep(3600 * SECOND).await;
        stage.settle(false).await;
        assert_eq!(stage.polls.load(Relaxed), before);
        stage.close().await;
    });
}

#[test]
fn br_49_the_end_is_at_once_from_wherever_an_actor_waits() {
    let hangs = || spread(&[("hang_every", 1i64.into())]);
    // Without a grant, for a reset, for a step with and without a deadline, resting, set aside.
    type Setting = (bool, Option<Duration>, Vec<(&'static str, OptionValue)>);
    let settings: [Setting; 6] = [
        (false, None, spread(&[])),
        (true, None, spread(&[("reset_time", 1e9.into())])),
        (true, None, hangs()),
        (true, Some(3600 * SECOND), hangs()),
        (true, None, spread(&[("fail_every", 1i64.into())])),
        (true, Some(SECOND), hangs()),
    ];
    for (granted, step_deadline, options) in settings {
        paused(async {
            let config = RolloutConfig {
                step_deadline,
                max_failures_in_a_row: 5,
                ..config(8)
            };
            let mut stage = Stage::new(config, |lane| match lane {
                0..4 => options.clone(),
                _ => spread(&[]),
            });
            if granted {
                stage.grant_all();
            }
            stage.run(Duration::from_millis(1_234), true).await;
            let set_aside = step_deadline == Some(SECOND);
            if set_aside {
                stage.run(60 * SECOND, true).await;
            }
            let aside = stage.hub.counters.read().lanes_set_aside;
            assert_eq!(aside, if set_aside { 4 } else { 0 });
            stage.close().await;
        });
    }
}
