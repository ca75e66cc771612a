//! What is held back or contained: actions that are no numbers, clipped boxes, masks, failing resets,
//! environments that wait.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::*;
use hotloop_env::{
    ActionView, AsyncCopies, AsyncEnv, Block, Cause, Env, EnvError, EnvRng, FaultPhase,
    ObservationMut, ResetCtx, Space, Transition,
};
use hotloop_rollout::{Acting, Batch, Policy, PolicyError, Rollout, RolloutConfig, Scheduler};
use std::time::Duration;

/// Reward is the action; `Box` actions in [-1, 1], and one without bounds.
struct Pushed;

impl Env for Pushed {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        let inf = f64::INFINITY;
        Space::boxed(vec![-1.0, -inf], vec![1.0, inf], &[2])
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        Ok(())
    }
    fn step(&mut self, action: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        assert!(action.continuous().iter().all(|x| x.is_finite()));
        Ok(Transition::running(action.continuous()[0] as f64))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[1.0f32])
    }
}

/// Lane 1's decision number 2 is NaN; all others push with 5.
struct Pushes;

impl Policy for Pushes {
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        let places = batch.places();
        let actions: &mut [f32] = bytemuck::cast_slice_mut(batch.actions_mut());
        for (i, action) in actions.chunks_exact_mut(2).enumerate() {
            let lost = places.lane(i) == 1 && places.counter(i) == 2;
            action.copy_from_slice(&[5.0, if lost { f32::NAN } else { 9.0 }]);
        }
        Ok(())
    }
}

#[test]
fn an_action_that_is_not_finite_never_reaches_its_env() {
    for scheduler in [Scheduler::Lockstep, Scheduler::FirstReady { max_batch: 2 }] {
        let config = RolloutConfig {
            lanes: 2,
            lanes_per_actor: 2,
            steps: 5,
            scheduler,
            ..Default::default()
        };
        let rollout = Rollout::start(
            config,
            spaces_of(&Pushed),
            blocks(|_| Pushed),
            vec![Box::new(Pushes)],
            None,
        )
        .unwrap();
        let segment = round(&rollout, 0).remove(0);
        // Environments get the clipped action, the learner the sample.
        assert_eq!(
            segment.rewards(),
            [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
        );
        let actions: &[f32] = bytemuck::cast_slice(segment.actions());
        assert_eq!(actions[..2], [5.0, 9.0]);
        assert_eq!(segment.valid(), [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1]);
        let faults = rollout.faults();
        assert_eq!(faults.len(), 1);
        assert_eq!((faults[0].lane, faults[0].step), (1, 2));
        assert!(faults[0].message.contains("not finite"));
    }
}

/// Fails to reset or to be built, by count.
struct Reluctant {
    count: Count,
    failing_resets: u32,
}

impl Env for Reluctant {
    fn observation_space(&self) -> Space {
        self.count.observation_space()
    }
    fn action_space(&self) -> Space {
        self.count.action_space()
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        if ctx.episode() < self.failing_resets as u64 {
            return Err("boom-43".into());
        }
        self.count.reset(ctx)
    }
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        self.count.step(action, rng)
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.count.observe(out)
    }
}

fn reluctant(failing_resets: u32) -> Rollout {
    let config = RolloutConfig {
        lanes: 2,
        steps: 6,
        max_failures_in_a_row: 5,
        ..Default::default()
    };
    start(config, 1, move |lane| Reluctant {
        count: Count::new(100, EndBy::Term),
        failing_resets: if lane == 1 { failing_resets } else { 0 },
    })
}

#[test]
fn br_44_a_reset_that_fails_is_tried_again() {
    let rollout = reluctant(3);
    let segment = round(&rollout, 0).remove(0);
    let lane = |i: usize| -> Vec<u8> { segment.valid()[i..].iter().step_by(2).copied().collect() };
    assert_eq!(lane(0), [1; 7]);
    let valid = lane(1);
    let lost = valid.iter().take_while(|&&valid| valid == 0).count();
    assert!((1..4).contains(&lost), "{valid:?}");
    assert!(valid[lost..].iter().all(|&valid| valid == 1), "{valid:?}");
    let faults = rollout.statistics().faults;
    assert_eq!((faults.reset, faults.total()), (3, 3));
    assert!(
        rollout
            .faults()
            .iter()
            .all(|f| f.lane == 1 && f.phase == FaultPhase::Reset)
    );
}

#[test]
fn br_44_a_lane_whose_reset_always_fails_is_set_aside() {
    let rollout = reluctant(u32::MAX);
    for version in 0..3 {
        let segment = round(&rollout, version).remove(0);
        for (i, valid) in segment.valid().iter().enumerate() {
            assert_eq!(usize::from(*valid), 1 - i % 2, "round {version}");
        }
    }
    let statistics = rollout.statistics();
    assert_eq!((statistics.lanes_set_aside, statistics.env_steps), (1, 18));
    let faults = rollout.faults();
    // One more than allowed, and none after that.
    assert_eq!((faults.len(), faults[5].in_a_row), (6, 6));
    assert!(faults.iter().all(|f| f.lane == 1 && f.message == "boom-43"));
}

#[test]
fn br_44_every_grant_is_answered_also_by_a_block_whose_lanes_are_set_aside() {
    let config = RolloutConfig {
        lanes: 4,
        steps: 6,
        segments_per_group: 2,
        max_failures_in_a_row: 3,
        backoff: Duration::from_millis(1),
        scheduler: Scheduler::FirstReady { max_batch: 4 },
        ..Default::default()
    };
    let rollout = start(config, 1, |lane| Reluctant {
        count: Count::new(100, EndBy::Term),
        failing_resets: if lane == 2 { u32::MAX } else { 0 },
    });
    let mut taken = [0; 4];
    let mut answered = [0; 4];
    for round in 0..5 {
        for (group, taken) in taken.iter_mut().enumerate() {
            for _ in rollout.tickets(group)..2 {
                *taken += u32::from(rollout.grant(group, Acting::At(round)).unwrap());
            }
        }
        while answered != taken {
            let segment = rollout.recv().unwrap();
            let lost = segment.group() == 2;
            assert_eq!(segment.env_steps(), if lost { 0 } else { 6 });
            answered[segment.group()] += 1;
        }
    }
    assert_eq!(taken, [10, 10, 2, 10]);
    assert!(!rollout.grant(2, Acting::At(0)).unwrap());
    assert_eq!(rollout.statistics().lanes_set_aside, 1);
    // A snapshot has the state of such a lane as well.
    assert!(rollout.snapshot().is_ok());
}

/// As [`Echo`], but it waits for a timer, and so needs no thread meanwhile.
struct Waiting {
    id: usize,
    k: u32,
    latency: Duration,
}

impl AsyncEnv for Waiting {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[2])
    }
    fn action_space(&self) -> Space {
        Space::discrete(5)
    }
    async fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        Ok(())
    }
    async fn step(
        &mut self,
        action: ActionView<'_>,
        _: &mut EnvRng,
    ) -> Result<Transition, EnvError> {
        tokio::time::sleep(self.latency).await;
        self.k += 1;
        Ok(Transition::running(action.discrete() as f64))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.id as f32, self.k as f32])
    }
}

fn waiting(
    latency: impl Fn(usize) -> Duration,
    scheduler: Scheduler,
    step_deadline: Option<Duration>,
) -> Rollout {
    let config = RolloutConfig {
        step_deadline,
        lanes: 8,
        lanes_per_actor: 2,
        groups: 2,
        steps: 6,
        scheduler,
        ..Default::default()
    };
    let spaces = spaces_of(&Echo {
        id: 0,
        k: 0,
        latency: Duration::ZERO,
    });
    let make = |first: usize, lanes: usize| {
        let latency = latency(first);
        let built = std::sync::atomic::AtomicUsize::new(first);
        let build = move || {
            let id = built.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(Waiting { id, k: 0, latency })
        };
        Ok(Block::Async(Box::new(AsyncCopies::new(lanes, build)?)))
    };
    Rollout::start(config, spaces, make, scripted(1), None).unwrap()
}

#[test]
fn environments_that_wait_are_stepped_by_either_scheduler() {
    for scheduler in [Scheduler::Lockstep, Scheduler::FirstReady { max_batch: 4 }] {
        let rollout = waiting(|_| Duration::from_micros(300), scheduler, None);
        for k in [0, 6] {
            for segment in round(&rollout, 0) {
                for (row, observation) in observations(&segment).chunks_exact(2).enumerate() {
                    let (t, lane) = (row / segment.lanes(), row % segment.lanes());
                    let id = segment.first_lane() + lane;
                    assert_eq!(observation, [id as f32, (k + t) as f32]);
                    if t < 6 {
                        let action = (7 * id + k + t) % 5;
                        assert_eq!(segment.rewards()[row], action as f32);
                    }
                }
            }
        }
    }
}

#[test]
fn br_46_either_scheduler_goes_on_after_a_deadline() {
    for scheduler in [Scheduler::Lockstep, Scheduler::FirstReady { max_batch: 4 }] {
        let latency = |first| Duration::from_secs(if first == 2 { 1 << 30 } else { 0 });
        let rollout = waiting(latency, scheduler, Some(Duration::from_millis(5)));
        let mut hung = 0;
        for segment in round(&rollout, 0) {
            for (i, valid) in segment.valid().iter().enumerate() {
                let lane = segment.first_lane() + i % segment.lanes();
                let valid_as_expected = match lane {
                    // Decided on in the first row, and given up; rebuilt, and given up; and so on.
                    2 | 3 => *valid == 0 || i / segment.lanes() == 6,
                    _ => *valid == 1,
                };
                assert!(
                    valid_as_expected,
                    "lane {lane}, row {}",
                    i / segment.lanes()
                );
                hung += usize::from(lane == 2 && *valid == 0);
            }
        }
        assert_eq!(hung, 6);
        let faults = rollout.faults();
        for lane in [2, 3] {
            let faults: Vec<_> = faults.iter().filter(|f| f.lane == lane).collect();
            assert_eq!(faults.len(), 3, "{faults:?}");
            for fault in faults {
                assert_eq!(
                    (fault.cause, fault.phase),
                    (Cause::Deadline, FaultPhase::Step)
                );
                assert_eq!(fault.message, "no answer within 0.005 s");
            }
        }
        assert_eq!(rollout.statistics().faults.deadlines, 6);
    }
}

#[test]
fn br_49_an_environment_that_never_answers_does_not_hold_up_the_end() {
    for scheduler in [Scheduler::Lockstep, Scheduler::FirstReady { max_batch: 4 }] {
        let rollout = waiting(|_| Duration::from_secs(1 << 30), scheduler, None);
        for group in 0..rollout.groups() {
            rollout.grant(group, Acting::At(0)).unwrap();
        }
        assert!(
            rollout
                .recv_timeout(Duration::from_millis(20))
                .unwrap()
                .is_none()
        );
        rollout.shutdown();
    }
}
