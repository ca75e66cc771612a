//! Ends: from every state in which anything can wait, all threads and tasks are joined.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::*;
use hotloop_env::{
    ActionView, AsyncCopies, AsyncEnv, Block, EnvError, EnvRng, ObservationMut, ResetCtx, Rows,
    Space, Spaces, Stream, Transition, VectorEnv,
};
use hotloop_rollout::{
    Acting, Batch, Policy, PolicyError, Rollout, RolloutConfig, RolloutError, Scheduler,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SCHEDULERS: [Scheduler; 2] = [Scheduler::Lockstep, Scheduler::FirstReady { max_batch: 24 }];

/// An environment that counts how many of its kind are alive.
struct Counted {
    count: Count,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self {
            count: Count::new(9, EndBy::Trunc),
            alive: alive.clone(),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl hotloop_env::Env for Counted {
    fn observation_space(&self) -> hotloop_env::Space {
        self.count.observation_space()
    }
    fn action_space(&self) -> hotloop_env::Space {
        self.count.action_space()
    }
    fn reset(&mut self, ctx: &mut hotloop_env::ResetCtx<'_>) -> Result<(), EnvError> {
        self.count.reset(ctx)
    }
    fn step(
        &mut self,
        action: hotloop_env::ActionView<'_>,
        rng: &mut EnvRng,
    ) -> Result<hotloop_env::Transition, EnvError> {
        self.count.step(action, rng)
    }
    fn observe(&mut self, out: &mut hotloop_env::ObservationMut<'_>) -> Result<(), EnvError> {
        self.count.observe(out)
    }
}

#[test]
fn br_49_stopping_at_any_moment_joins_everything() {
    let mut rng = EnvRng::new(49, 0, Stream::Shuffle);
    for repetition in 0..200 {
        let alive = Arc::new(AtomicUsize::new(0));
        let config = RolloutConfig {
            lanes: 64,
            lanes_per_actor: 1 + 7 * (repetition % 2),
            groups: 2,
            steps: 3,
            scheduler: SCHEDULERS[repetition / 2 % 2],
            segments_per_group: 1 + repetition / 4 % 2,
            env_threads: 2,
            ..Default::default()
        };
        let envs = alive.clone();
        let rollout = start(config, 1 + repetition / 8 % 2, move |_| Counted::new(&envs));
        let grants = rng.below(40);
        let mut held = None;
        for _ in 0..grants {
            // Some groups are granted more than others; full segments pile up unread.
            let group = rng.below(rollout.groups() as u64) as usize;
            let _ = rollout.grant(group, Acting::At(0));
            if rng.below(4) == 0 {
                held = rollout.recv_timeout(Duration::from_micros(200)).unwrap();
            }
        }
        if rng.below(2) == 0 {
            std::thread::sleep(Duration::from_micros(rng.below(500)));
        }
        rollout.shutdown();
        assert_eq!(alive.load(Ordering::SeqCst), 0, "repetition {repetition}");
        drop(held);
    }
}

#[test]
fn br_49_a_consumer_that_waits_on_another_thread_is_let_go() {
    for scheduler in SCHEDULERS {
        // An environment that fails for good ends the run while the consumer waits.
        let rollout = Arc::new(start(
            RolloutConfig {
                lanes: 1,
                scheduler,
                backoff: Duration::from_millis(1),
                ..Default::default()
            },
            1,
            |_| Fault::new(Failure::Error, 0),
        ));
        let waiting = {
            let rollout = rollout.clone();
            std::thread::spawn(move || rollout.recv().map(drop))
        };
        std::thread::sleep(Duration::from_millis(2));
        rollout.grant(0, Acting::At(0)).unwrap();
        let error = waiting.join().unwrap().unwrap_err();
        assert!(matches!(error, RolloutError::TooFewLanes { .. }), "{error}");
    }
}

/// Has blocking work done that ends only when the other end of `until` is dropped.
struct Blocked {
    until: flume::Receiver<()>,
    begun: Arc<AtomicUsize>,
}

impl AsyncEnv for Blocked {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::discrete(5)
    }
    async fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        Ok(())
    }
    async fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        let until = self.until.clone();
        self.begun.fetch_add(1, Ordering::SeqCst);
        let work = tokio::task::spawn_blocking(move || until.recv());
        let _ = work.await;
        Ok(Transition::running(0.0))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[0.0f32])
    }
}

#[test]
fn an_end_does_not_wait_for_blocking_work_that_goes_on() {
    let (release, until) = flume::bounded(0);
    let begun = Arc::new(AtomicUsize::new(0));
    let of = begun.clone();
    let make = move |_: usize, lanes: usize| {
        let (until, begun) = (until.clone(), of.clone());
        let build = move || {
            Ok(Blocked {
                until: until.clone(),
                begun: begun.clone(),
            })
        };
        Ok(Block::Async(Box::new(AsyncCopies::new(lanes, build)?)))
    };
    let config = RolloutConfig {
        lanes: 1,
        ..Default::default()
    };
    let spaces = Spaces::new(Space::unbounded(&[1]), Space::discrete(5)).unwrap();
    let rollout = Rollout::start(config, spaces, make, scripted(1), None).unwrap();
    rollout.grant(0, Acting::At(0)).unwrap();
    while begun.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (ended, end) = flume::bounded(1);
    std::thread::spawn(move || {
        rollout.shutdown();
        ended.send(())
    });
    let outcome = end.recv_timeout(Duration::from_secs(60));
    drop(release);
    assert_eq!(outcome, Ok(()));
}

/// Fails or panics at its third decision.
struct Broken {
    decisions: usize,
    panics: bool,
}

impl Policy for Broken {
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        self.decisions += 1;
        if self.decisions == 3 {
            assert!(!self.panics, "policy-boom");
            return Err(PolicyError::new("policy-boom"));
        }
        batch.values_mut().fill(0.0);
        Ok(())
    }
}

#[test]
fn a_policy_that_fails_or_panics_is_the_error_that_recv_returns() {
    for scheduler in SCHEDULERS {
        for panics in [false, true] {
            let config = RolloutConfig {
                lanes: 4,
                scheduler,
                ..Default::default()
            };
            let count = |_| Count::new(5, EndBy::Term);
            let policy = Broken {
                decisions: 0,
                panics,
            };
            let rollout = Rollout::start(
                config,
                spaces_of(&count(0)),
                blocks(count),
                vec![Box::new(policy)],
                None,
            )
            .unwrap();
            for group in 0..rollout.groups() {
                let _ = rollout.grant(group, Acting::At(0));
            }
            let error = rollout.recv().unwrap_err().to_string();
            assert!(
                error.contains("policy-boom") && error.contains("worker 0"),
                "{error}"
            );
            assert_eq!(panics, error.contains("panicked"), "{error}");
            assert!(rollout.snapshot().is_err());
        }
    }
}

/// A block that panics outside any lane.
struct Collapsing(usize);

impl VectorEnv for Collapsing {
    fn lanes(&self) -> usize {
        self.0
    }
    fn reset(&mut self, rows: &mut Rows<'_>) {
        for i in 0..self.0 {
            rows.begin(i);
        }
    }
    fn step(&mut self, _: &mut Rows<'_>) {
        panic!("block-boom");
    }
}

#[test]
fn a_block_that_panics_ends_the_run_by_name() {
    for scheduler in SCHEDULERS {
        let rollout = Rollout::start(
            RolloutConfig {
                lanes: 8,
                lanes_per_actor: 4,
                scheduler,
                ..Default::default()
            },
            spaces_of(&Count::new(1, EndBy::Term)),
            |first, lanes| {
                Ok(if first == 4 {
                    Block::Sync(Box::new(Collapsing(lanes)))
                } else {
                    blocks(|_| Count::new(3, EndBy::Term))(first, lanes)?
                })
            },
            scripted(1),
            None,
        )
        .unwrap();
        (0..rollout.groups())
            .for_each(|group| assert!(rollout.grant(group, Acting::At(0)).unwrap()));
        // A block that does well may come first.
        let error = (0..2).find_map(|_| rollout.recv().err()).unwrap();
        assert!(
            matches!(&error, RolloutError::BlockPanic { first: 4, end: 8, message } if message == "block-boom"),
            "{error}"
        );
    }
}

#[test]
fn segments_outlive_the_rollout() {
    let rollout = start(RolloutConfig::default(), 1, |_| Count::new(3, EndBy::Term));
    let segment = round(&rollout, 0).remove(0);
    drop(rollout);
    assert_eq!(segment.rewards(), [1.0; 64]);
}

#[test]
fn what_cannot_start_says_why() {
    let count = |_| Count::new(3, EndBy::Term);
    let error = |config: RolloutConfig| {
        Rollout::start(
            config,
            spaces_of(&count(0)),
            blocks(count),
            scripted(1),
            None,
        )
        .err()
        .unwrap()
        .to_string()
    };
    let base = RolloutConfig {
        lanes: 10,
        ..Default::default()
    };
    let zero = RolloutConfig {
        steps: 0,
        ..base.clone()
    };
    assert!(error(zero).contains("`steps` must be at least 1"));
    let groups = RolloutConfig {
        groups: 3,
        ..base.clone()
    };
    assert!(error(groups).contains("10 lanes cannot be split into 3 groups"));
    let batch = RolloutConfig {
        lanes_per_actor: 5,
        scheduler: Scheduler::FirstReady { max_batch: 4 },
        ..base.clone()
    };
    assert!(error(batch).contains("`max_batch` is 4"));
    let memory = RolloutConfig {
        lanes: 1 << 40,
        steps: 1 << 10,
        ..base.clone()
    };
    assert!(error(memory).contains("bytes of memory"));
    let none = Rollout::start(
        base.clone(),
        spaces_of(&count(0)),
        blocks(count),
        vec![],
        None,
    );
    assert!(none.err().unwrap().to_string().contains("`policies`"));
    let failing = Rollout::start(
        base,
        spaces_of(&count(0)),
        |_, _| Err("no licence".into()),
        scripted(1),
        None,
    );
    let text = failing.err().unwrap().to_string();
    assert!(text.contains("lanes 0..1") && text.contains("no licence"));
}
