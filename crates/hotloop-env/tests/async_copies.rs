//! An asynchronous block leaves in the slab what a synchronous one does, and waits for many at once.

#![allow(clippy::unwrap_used)] // Helpers of tests are not recognised as tests.

mod common;

use common::{Count, Mishap, Row, Slab};
use hotloop_env::wrappers::TimeLimit;
use hotloop_env::{
    ActionView, AsyncCopies, AsyncEnv, AsyncVectorEnv, Cause, Copies, End, Env, EnvError, EnvRng,
    FaultPhase, LaneStates, ObservationMut, ResetCtx, Space, Stream, Transition, VectorEnv,
};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

/// Any environment, which waits `waits` polls before it answers, and draws a number at every step.
struct Slow<E> {
    env: E,
    waits: u32,
}

async fn wait(polls: u32) {
    let mut left = polls;
    poll_fn(|_| match left.checked_sub(1) {
        None => Poll::Ready(()),
        Some(less) => {
            left = less;
            Poll::Pending
        }
    })
    .await;
}

impl<E: Env> AsyncEnv for Slow<E> {
    fn observation_space(&self) -> Space {
        self.env.observation_space()
    }
    fn action_space(&self) -> Space {
        self.env.action_space()
    }
    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        wait(self.waits).await;
        self.env.reset(ctx)
    }
    async fn step(
        &mut self,
        action: ActionView<'_>,
        rng: &mut EnvRng,
    ) -> Result<Transition, EnvError> {
        wait(self.waits).await;
        self.env.step(action, rng)
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.env.observe(out)
    }
    fn action_mask(&mut self, mask: &mut [u8]) {
        self.env.action_mask(mask);
    }
}

/// Makes the middle one of three lanes fail, once.
fn maker(mishap: Mishap, episode: u64, at: u32, end: End) -> impl Fn() -> Result<Count, EnvError> {
    let built = AtomicU32::new(0);
    move || {
        let mut count = Count::new(3, end);
        count.masked = mishap == Mishap::EmptyMask;
        Ok(match built.fetch_add(1, Ordering::Relaxed) {
            1 => count.with(mishap, episode, at),
            _ => count,
        })
    }
}

/// Observes the seed of its episode, which ends after one step.
struct Seeded(u64);

impl Env for Seeded {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::discrete(2)
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.0 = ctx.seed();
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        Ok(Transition::terminated(0.0))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[(self.0 % 1_000_000) as f32])
    }
}

#[test]
fn an_evaluations_episode_has_its_own_seed_whichever_lane_plays_it() {
    let mut sync = Copies::new(2, || Ok(Seeded(0))).unwrap();
    let mut slow = AsyncCopies::new(2, || {
        Ok(Slow {
            env: Seeded(0),
            waits: 1,
        })
    })
    .unwrap();
    let (mut expected, mut got) = (Slab::new(sync.spaces(), 2), Slab::new(slow.spaces(), 2));
    let mut seeds = vec![];
    for identities in [[3, 8], [8, 3]] {
        for slab in [&mut expected, &mut got] {
            for (lane, identity) in identities.into_iter().enumerate() {
                slab.lanes.restart(lane, identity);
            }
        }
        for _ in 0..2 {
            let row = expected.turn(|rows| sync.step(rows));
            assert_eq!(got.drive(&mut slow), row);
            seeds.push(row.next);
        }
    }
    assert_ne!(seeds[0][0], seeds[0][1]);

    let mut evaluation = Slab::new(sync.spaces(), 2);
    evaluation.lanes = LaneStates::new(7, Stream::Eval, 0, 2);
    evaluation.lanes.restart(0, 3);
    let row = evaluation.turn(|rows| sync.step(rows));
    assert_ne!(
        row.next[0], seeds[0][0],
        "no start of training is evaluated"
    );
}

#[test]
fn br_08_br_09_br_44_the_slab_is_as_after_a_synchronous_block() {
    use Mishap::*;
    for mishap in [
        None,
        PanicInStep,
        ErrorInStep,
        PanicInReset,
        ErrorInReset,
        PanicInObserve,
        NanObservation,
        NanFirstObservation,
        InfiniteReward,
        EmptyMask,
        WrongShape,
    ] {
        for end in [End::Terminated, End::Truncated] {
            for (episode, at) in [(0, 0), (0, 1), (1, 0)] {
                let make = maker(mishap, episode, at, end);
                let mut sync = Copies::new(3, make).unwrap();
                let mut expected = Slab::new(sync.spaces(), 3);
                let make = maker(mishap, episode, at, end);
                let waits = AtomicU32::new(0);
                let mut slow = AsyncCopies::new(3, move || {
                    Ok(Slow {
                        env: make()?,
                        waits: waits.fetch_add(1, Ordering::Relaxed),
                    })
                })
                .unwrap();
                let mut got = Slab::new(slow.spaces(), 3);
                let what = format!("{mishap:?} in episode {episode} at {at}, {end:?}");
                for t in 0..9 {
                    let row = expected.turn(|rows| sync.step(rows));
                    assert_eq!(got.drive(&mut slow), row, "{what}, row {t}");
                    assert_eq!(got.masks(), expected.masks(), "{what}, row {t}");
                }
                assert_eq!(got.lanes.totals, expected.lanes.totals, "{what}");
                assert_eq!(
                    format!("{:?}", got.faults),
                    format!("{:?}", expected.faults),
                    "{what}"
                );
            }
        }
    }
}

/// One lane that panics in its second step; what is built in its place, too, is unfit for a while.
fn unlucky() -> impl Fn() -> Result<Count, EnvError> {
    let built = AtomicU32::new(0);
    move || {
        let count = Count::new(3, End::Truncated);
        Ok(match built.fetch_add(1, Ordering::Relaxed) {
            0 => count.with(Mishap::PanicInStep, 0, 1),
            1 => count.with(Mishap::PanicInReset, 1, 0),
            2 => return Err("the server is gone".into()),
            3 => panic!("the server is not back"),
            4 => count.with(Mishap::ErrorInReset, 2, 0),
            _ => count,
        })
    }
}

#[test]
fn br_44_repeated_failures_are_counted_alike() {
    let mut sync = Copies::new(1, unlucky()).unwrap();
    let make = unlucky();
    let mut slow = AsyncCopies::new(1, move || {
        Ok(Slow {
            env: make()?,
            waits: 1,
        })
    })
    .unwrap();
    let mut expected = Slab::new(sync.spaces(), 1);
    let mut got = Slab::new(sync.spaces(), 1);
    for _ in 0..9 {
        let row = expected.turn(|rows| sync.step(rows));
        assert_eq!(got.drive(&mut slow), row);
    }
    assert_eq!(
        format!("{:?}", got.faults),
        format!("{:?}", expected.faults)
    );
    use FaultPhase::{Build, Reset, Step};
    let phases: Vec<_> = got.faults.iter().map(|fault| fault.phase).collect();
    assert_eq!(phases, [Step, Reset, Build, Build, Reset]);
    assert_eq!(got.faults[4].in_a_row, 5);
}

/// Observes what it draws.
struct Draws(f32);

impl Env for Draws {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::discrete(2)
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.0 = ctx.rng().uniform() as f32;
        Ok(())
    }
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        self.0 = rng.uniform() as f32;
        Ok(Transition::running(action.discrete() as f64))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.0])
    }
}

#[test]
fn lanes_take_their_own_actions_and_random_numbers_along() {
    let mut sync = Copies::new(2, || Ok(Draws(0.0))).unwrap();
    let waits = AtomicU32::new(0);
    let mut slow = AsyncCopies::new(2, move || {
        Ok(Slow {
            env: Draws(0.0),
            waits: waits.fetch_add(3, Ordering::Relaxed),
        })
    })
    .unwrap();
    let mut expected = Slab::new(sync.spaces(), 2);
    let mut got = Slab::new(sync.spaces(), 2);
    let mut seen = vec![];
    for t in 0..5 {
        expected.actions = vec![t % 2, 1 - t % 2];
        got.actions = expected.actions.clone();
        let row = got.drive(&mut slow);
        assert_eq!(row, expected.turn(|rows| sync.step(rows)));
        seen.extend(row.next);
    }
    seen.sort_by(f32::total_cmp);
    seen.dedup();
    assert_eq!(seen.len(), 10, "every draw is another");
}

#[test]
fn lanes_wait_at_the_same_time() {
    let mut slow = AsyncCopies::new(8, || {
        Ok(Slow {
            env: Count::new(9, End::Terminated),
            waits: 5,
        })
    })
    .unwrap();
    let mut slab = Slab::new(slow.spaces(), 8);
    let mut polls = 0;
    slab.turn(|rows| {
        slow.begin(rows);
        let mut cx = Context::from_waker(Waker::noop());
        while slow.poll(&mut cx, rows).is_pending() {
            polls += 1;
        }
    });
    assert_eq!(polls, 5);
}

#[test]
fn br_46_a_lane_past_its_deadline_is_given_up_and_rebuilt() {
    let built = AtomicU32::new(0);
    let mut slow = AsyncCopies::new(2, move || {
        Ok(Slow {
            env: Count::new(9, End::Terminated),
            waits: match built.fetch_add(1, Ordering::Relaxed) {
                1 => u32::MAX,
                _ => 0,
            },
        })
    })
    .unwrap();
    let mut slab = Slab::new(slow.spaces(), 2);
    let row = slab.turn(|rows| {
        slow.begin(rows);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(slow.poll(&mut cx, rows).is_pending());
        assert_eq!(
            (slow.busy(0), slow.busy(1)),
            (None, Some(FaultPhase::Reset))
        );
        slow.give_up(rows, 1, "no answer for 2 s".into());
        assert!(slow.poll(&mut cx, rows).is_ready());
    });
    assert_eq!(row.next, [0.0, 0.0]);
    let [fault] = &slab.faults[..] else {
        panic!("{:?}", slab.faults)
    };
    assert_eq!((fault.lane, fault.phase), (101, FaultPhase::Reset));
    assert_eq!(fault.cause, Cause::Deadline);
    assert_eq!(fault.message, "no answer for 2 s");

    let row = slab.drive(&mut slow);
    assert_eq!((row.valid, row.next), (vec![1, 0], vec![1.0, 10.0]));
    let row = slab.drive(&mut slow);
    assert_eq!((row.valid, row.next), (vec![1, 1], vec![2.0, 11.0]));
}

#[test]
fn br_13_time_limits_hold_for_both_kinds() {
    let mut sync =
        Copies::new(1, || Ok(TimeLimit::new(Count::new(9, End::Terminated), 4))).unwrap();
    let mut slow = AsyncCopies::new(1, || {
        let env = Slow {
            env: Count::new(9, End::Terminated),
            waits: 1,
        };
        Ok(TimeLimit::new(env, 4))
    })
    .unwrap();
    let mut expected = Slab::new(sync.spaces(), 1);
    let mut got = Slab::new(sync.spaces(), 1);
    let rows: Vec<Row> = (0..12)
        .map(|_| {
            let row = expected.turn(|rows| sync.step(rows));
            assert_eq!(got.drive(&mut slow), row);
            row
        })
        .collect();
    assert_eq!(
        rows.iter()
            .filter(|row| row.lengths[0] == 4 && row.ends[0] != 0)
            .count(),
        2
    );
}

/// Draws `drawn` numbers in every step and observes the last one; the first to be built never answers in
/// its second step.
struct Drawing {
    drawn: u32,
    hangs: bool,
    steps: u32,
    last: f32,
}

impl AsyncEnv for Drawing {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::discrete(2)
    }
    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.last = ctx.rng().uniform() as f32;
        Ok(())
    }
    async fn step(&mut self, _: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        self.steps += 1;
        for _ in 0..self.drawn {
            self.last = rng.uniform() as f32;
        }
        if self.hangs && self.steps == 2 {
            wait(u32::MAX).await;
        }
        Ok(Transition::running(0.0))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.last])
    }
}

#[test]
fn br_46_what_a_hung_call_had_drawn_does_not_matter() {
    let observed = |drawn: u32| {
        let built = AtomicU32::new(0);
        let mut block = AsyncCopies::new(1, move || {
            let first = built.fetch_add(1, Ordering::Relaxed) == 0;
            Ok(Drawing {
                drawn: if first { drawn } else { 1 },
                hangs: first,
                steps: 0,
                last: 0.0,
            })
        })
        .unwrap();
        let mut slab = Slab::new(block.spaces(), 1);
        // The reset and the first step, which draws one number in any case.
        slab.drive(&mut block);
        slab.drive(&mut block);
        slab.lanes.rngs[0].seek(8);
        slab.turn(|rows| {
            block.begin(rows);
            let mut cx = Context::from_waker(Waker::noop());
            assert!(block.poll(&mut cx, rows).is_pending());
            assert_eq!(block.busy(0), Some(FaultPhase::Step));
            block.give_up(rows, 0, "no answer".into());
        });
        [(); 3].map(|()| slab.drive(&mut block).next[0])
    };
    assert_eq!(observed(1), observed(1000));
}

#[test]
fn a_lane_that_is_set_aside_costs_nothing_and_fails_no_more() {
    let count = || Count::new(3, End::Terminated);
    let mut sync = Copies::new(2, move || Ok(count())).unwrap();
    let mut slow = AsyncCopies::new(2, move || {
        Ok(Slow {
            env: count(),
            waits: 1,
        })
    })
    .unwrap();
    let (mut expected, mut got) = (Slab::new(sync.spaces(), 2), Slab::new(slow.spaces(), 2));
    for t in 0..9 {
        if t == 3 {
            for slab in [&mut expected, &mut got] {
                slab.set_aside(1);
            }
        }
        let row = expected.turn(|rows| sync.step(rows));
        assert_eq!(got.drive(&mut slow), row, "row {t}");
        if t >= 3 {
            assert_eq!((row.valid[1], row.next[1]), (0, 0.0), "row {t}");
            assert_eq!(row.valid[0], 1, "row {t}");
        }
    }
    assert!(expected.faults.is_empty() && got.faults.is_empty());
}
