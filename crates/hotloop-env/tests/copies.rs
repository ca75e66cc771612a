//! What `Copies` leaves in the slab, in good and in bad times.

#![allow(clippy::unwrap_used)] // Helpers of tests are not recognised as tests.

mod common;

use common::{Count, Mishap, Row, Slab};
use hotloop_env::wrappers::TimeLimit;
use hotloop_env::{ActionView, EnvRng, ObservationMut, ResetCtx, Space};
use hotloop_env::{
    Cause, Copies, End, Env, EnvError, FaultPhase, Transition, VectorEnv, end_flags,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn run<E: Env>(block: &mut Copies<E>, turns: usize) -> (Vec<Row>, Slab) {
    let mut slab = Slab::new(block.spaces(), block.lanes());
    slab.turn(|rows| block.reset(rows));
    let rows = (0..turns)
        .map(|_| slab.turn(|rows| block.step(rows)))
        .collect();
    (rows, slab)
}

/// A column of lane `i` over time.
fn column<T: Copy>(rows: &[Row], i: usize, of: impl Fn(&Row) -> &Vec<T>) -> Vec<T> {
    rows.iter().map(|row| of(row)[i]).collect()
}

#[test]
fn br_08_after_termination_no_row_is_wasted() {
    let mut block = Copies::new(1, || Ok(Count::new(3, End::Terminated))).unwrap();
    let (rows, slab) = run(&mut block, 6);
    assert_eq!(
        column(&rows, 0, |r| &r.observations),
        [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]
    );
    assert_eq!(
        column(&rows, 0, |r| &r.next),
        [1.0, 2.0, 10.0, 11.0, 12.0, 20.0]
    );
    assert_eq!(column(&rows, 0, |r| &r.valid), [1; 6]);
    assert_eq!(column(&rows, 0, |r| &r.rewards), [1.0; 6]);
    let over = end_flags::TERMINATED | end_flags::EPISODE;
    assert_eq!(column(&rows, 0, |r| &r.ends), [0, 0, over, 0, 0, over]);
    for t in [2, 5] {
        assert_eq!((rows[t].returns[0], rows[t].lengths[0]), (3.0, 3));
    }
    assert_eq!(slab.lanes.totals[0].episodes, 2);
}

#[test]
fn br_08_br_09_a_final_observation_takes_a_row_that_is_not_trained_on() {
    let mut block = Copies::new(1, || Ok(Count::new(3, End::Truncated))).unwrap();
    let (rows, _) = run(&mut block, 8);
    // The final observations 3 and 13 are in their rows, and what follows them is the first of the
    // next episode.
    assert_eq!(
        column(&rows, 0, |r| &r.observations),
        [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]
    );
    assert_eq!(column(&rows, 0, |r| &r.valid), [1, 1, 1, 0, 1, 1, 1, 0]);
    let over = end_flags::TRUNCATED | end_flags::EPISODE;
    assert_eq!(
        column(&rows, 0, |r| &r.ends),
        [0, 0, over, 0, 0, 0, over, 0]
    );
    assert_eq!(
        column(&rows, 0, |r| &r.rewards),
        [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0]
    );
    let counted: u32 = rows.iter().map(|r| r.valid[0] as u32).sum();
    assert_eq!(counted, 6);
    for t in [2, 6] {
        assert_eq!((rows[t].returns[0], rows[t].lengths[0]), (3.0, 3));
    }
}

/// A block of three lanes, the middle one of which fails.
fn faulty(mishap: Mishap, episode: u64, at: u32) -> Copies<Count> {
    let built = AtomicU32::new(0);
    Copies::new(3, move || {
        let count = Count::new(3, End::Terminated);
        // The second to be built is the middle lane's; a rebuilt one is sound.
        Ok(match built.fetch_add(1, Ordering::Relaxed) {
            1 => count.with(mishap, episode, at),
            _ if mishap == Mishap::EmptyMask => Count {
                masked: true,
                ..count
            },
            _ => count,
        })
    })
    .unwrap()
}

#[test]
fn br_44_a_failed_step_costs_one_row_of_one_lane() {
    for (mishap, cause, message) in [
        (Mishap::PanicInStep, Cause::Panic, "boom-42"),
        (Mishap::ErrorInStep, Cause::Error, "lost the game"),
        (
            Mishap::InfiniteReward,
            Cause::NotFinite,
            "reward inf is not finite in float32",
        ),
        (
            Mishap::HugeReward,
            Cause::NotFinite,
            "reward 1000000000000000000000000000000000000000 is not finite in float32",
        ),
    ] {
        let mut block = faulty(mishap, 0, 1);
        let (rows, slab) = run(&mut block, 5);
        let [fault] = &slab.faults[..] else {
            panic!("{mishap:?}: {:?}", slab.faults)
        };
        assert_eq!(
            (
                fault.lane,
                fault.step,
                fault.phase,
                fault.cause,
                fault.in_a_row
            ),
            (101, 1, FaultPhase::Step, cause, 1)
        );
        assert_eq!(fault.message, message);
        assert_eq!(
            column(&rows, 1, |r| &r.valid),
            [1, 0, 1, 1, 1],
            "{mishap:?}"
        );
        assert_eq!(column(&rows, 1, |r| &r.rewards), [1.0, 0.0, 1.0, 1.0, 1.0]);
        // The rebuilt environment starts the next episode in the next row.
        assert_eq!(
            column(&rows, 1, |r| &r.observations),
            [0.0, 1.0, 10.0, 11.0, 12.0]
        );
        // The episode that was lost counts nowhere: the next one is whole.
        assert_eq!((rows[4].returns[1], rows[4].lengths[1]), (3.0, 3));
        for lane in [0, 2] {
            assert_eq!(column(&rows, lane, |r| &r.valid), [1; 5]);
            assert_eq!(
                column(&rows, lane, |r| &r.observations),
                [0.0, 1.0, 2.0, 10.0, 11.0]
            );
        }
    }
}

#[test]
fn br_44_what_follows_a_step_is_contained_too() {
    for (mishap, cause, message) in [
        // What is due at step 2 is found in the observation after action 1.
        (Mishap::PanicInObserve, Cause::Panic, "no picture"),
        (
            Mishap::NanObservation,
            Cause::NotFinite,
            "observation: element 0 is NaN",
        ),
        (
            Mishap::EmptyMask,
            Cause::Error,
            "the action mask allows none of 2 choices",
        ),
        (
            Mishap::WrongShape,
            Cause::Error,
            "observation: got 2 values, expected 1 (shape [1] of float32)",
        ),
    ] {
        let mut block = faulty(mishap, 0, 2);
        let (rows, slab) = run(&mut block, 4);
        let [fault] = &slab.faults[..] else {
            panic!("{mishap:?}: {:?}", slab.faults)
        };
        assert_eq!((fault.lane, fault.phase), (101, FaultPhase::Step));
        assert_eq!((fault.cause, fault.message.as_str()), (cause, message));
        assert_eq!(column(&rows, 1, |r| &r.valid), [1, 0, 1, 1], "{mishap:?}");
        assert_eq!(column(&rows, 1, |r| &r.next), [1.0, 10.0, 11.0, 12.0]);
        assert_eq!(column(&rows, 0, |r| &r.valid), [1; 4]);
    }
}

#[test]
fn br_44_a_failed_reset_after_termination_does_not_spoil_the_last_step() {
    for (mishap, message) in [
        (Mishap::PanicInReset, "boom-1"),
        (Mishap::ErrorInReset, "no start 1"),
        (Mishap::NanFirstObservation, "observation: element 0 is NaN"),
    ] {
        let mut block = faulty(mishap, 1, 0);
        let (rows, slab) = run(&mut block, 4);
        assert_eq!(slab.faults.len(), 1);
        assert_eq!(slab.faults[0].phase, FaultPhase::Reset);
        assert_eq!(slab.faults[0].message, message);
        assert_eq!(column(&rows, 1, |r| &r.valid), [1; 4], "{mishap:?}");
        assert_eq!((rows[2].returns[1], rows[2].lengths[1]), (3.0, 3));
        // The retry is another episode, with another seed.
        assert_eq!(column(&rows, 1, |r| &r.next), [1.0, 2.0, 20.0, 21.0]);
    }
}

#[test]
fn br_44_the_first_reset_may_fail() {
    let mut block = faulty(Mishap::PanicInReset, 0, 0);
    let mut slab = Slab::new(block.spaces(), 3);
    let row = slab.turn(|rows| block.reset(rows));
    assert_eq!(row.next, [0.0, 10.0, 0.0]);
    let fault = &slab.faults[0];
    assert_eq!(
        fault.to_string(),
        "lane 101, step 0: reset panicked: boom-0"
    );
    let row = slab.turn(|rows| block.step(rows));
    assert_eq!(row.valid, [1; 3]);
}

/// Builds only as often as it may.
fn mortal(builds: u32, mishap: Mishap) -> Copies<Count> {
    let left = AtomicU32::new(builds);
    Copies::new(1, move || {
        if left.load(Ordering::Relaxed) == 0 {
            return Err("the server is gone".into());
        }
        left.fetch_sub(1, Ordering::Relaxed);
        Ok(Count::new(9, End::Terminated).with(mishap, 0, 1))
    })
    .unwrap()
}

#[test]
fn br_44_an_environment_that_cannot_be_rebuilt_is_counted_and_tried_again() {
    let mut block = mortal(1, Mishap::PanicInStep);
    let (rows, slab) = run(&mut block, 4);
    assert_eq!(column(&rows, 0, |r| &r.valid), [1, 0, 0, 0]);
    // A lane without an observation shows the policy zeros, not what happened to be there.
    assert_eq!(column(&rows, 0, |r| &r.next), [1.0, 0.0, 0.0, 0.0]);
    let phases: Vec<_> = slab.faults.iter().map(|f| f.phase).collect();
    use FaultPhase::{Build, Step};
    assert_eq!(phases, [Step, Build, Build, Build]);
    let counts: Vec<_> = slab.faults.iter().map(|f| f.in_a_row).collect();
    assert_eq!(counts, [1, 2, 3, 4]);
}

/// Fails to observe what each first step led to.
struct Blind {
    has_stepped: bool,
}

impl Env for Blind {
    fn observation_space(&self) -> Space {
        Space::boxed(0.0, 1.0, &[1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.has_stepped = false;
        Ok(())
    }

    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        self.has_stepped = true;
        Ok(Transition::new(1.0, End::Continue))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        match self.has_stepped {
            true => Err("it is dark".into()),
            false => out.write(&[0.0]),
        }
    }
}

#[test]
fn br_44_steps_found_to_have_failed_after_all_are_failures_in_a_row() {
    let mut block = Copies::new(1, || Ok(Blind { has_stepped: false })).unwrap();
    let (_, slab) = run(&mut block, 3);
    let counts: Vec<_> = slab.faults.iter().map(|f| (f.step, f.in_a_row)).collect();
    assert_eq!(counts, [(0, 1), (0, 2), (0, 3)]);
}

#[test]
fn br_44_a_block_that_cannot_be_built_says_why() {
    let failing: fn() -> Result<Count, EnvError> = || panic!("no display");
    let error = Copies::new(2, failing).err().unwrap().to_string();
    assert_eq!(error, "no display");
    assert!(Copies::new(0, || Ok(Count::new(1, End::Terminated))).is_err());
}

#[test]
fn br_44_no_episode_gets_the_seed_of_another() {
    let mut block = faulty(Mishap::ErrorInStep, 1, 1);
    let mut slab = Slab::new(block.spaces(), 3);
    let mut seen = vec![];
    slab.turn(|rows| {
        block.reset(rows);
    });
    for _ in 0..12 {
        seen.push(slab.turn(|rows| block.step(rows)).observations[1]);
    }
    let episodes: Vec<u32> = seen.iter().map(|o| *o as u32 / 10).collect();
    assert_eq!(episodes, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4]);
}

#[test]
fn br_13_nested_limits_cut_once_at_the_shorter() {
    for (inner, outer) in [(5, 10), (10, 5), (5, 5)] {
        let mut block = Copies::new(1, move || {
            Ok(TimeLimit::new(
                TimeLimit::new(Count::new(99, End::Terminated), inner),
                outer,
            ))
        })
        .unwrap();
        let (rows, _) = run(&mut block, 12);
        let over = end_flags::TRUNCATED | end_flags::EPISODE;
        let ends = column(&rows, 0, |r| &r.ends);
        // Five steps, the final observation's row, five steps.
        assert_eq!(ends, [0, 0, 0, 0, over, 0, 0, 0, 0, 0, over, 0]);
        assert_eq!((rows[4].lengths[0], rows[10].lengths[0]), (5, 5));
    }
}

#[test]
fn br_13_at_its_limit_an_episode_that_terminated_is_not_cut() {
    let mut block =
        Copies::new(1, || Ok(TimeLimit::new(Count::new(5, End::Terminated), 5))).unwrap();
    let (rows, _) = run(&mut block, 5);
    assert_eq!(rows[4].ends[0], end_flags::TERMINATED | end_flags::EPISODE);
}

#[test]
fn br_13_only_the_lane_at_its_own_limit_is_cut() {
    let built = AtomicU32::new(0);
    let mut block = Copies::new(4, move || {
        let limit = 2 + built.fetch_add(1, Ordering::Relaxed);
        Ok(TimeLimit::new(Count::new(99, End::Terminated), limit))
    })
    .unwrap();
    let (rows, _) = run(&mut block, 5);
    for (t, row) in rows.iter().enumerate().take(5) {
        let cut: Vec<bool> = row
            .ends
            .iter()
            .map(|e| e & end_flags::TRUNCATED != 0)
            .collect();
        // Lane i is cut at its step i + 2; the row after that is the final observation's.
        let expected: Vec<bool> = (0..4).map(|i| (t + 1) % (i + 3) == i + 2).collect();
        assert_eq!(cut, expected, "row {t}");
    }
}

/// Pays the given rewards in turn, shaped by a clip to [-1, 1].
struct Pays {
    rewards: Arc<[f64]>,
    at: usize,
}

impl Env for Pays {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::discrete(1)
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.at = 0;
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        let reward = self.rewards[self.at];
        self.at += 1;
        let over = self.at == self.rewards.len();
        Ok(
            Transition::new(reward, if over { End::Terminated } else { End::Continue })
                .map_reward(|r| r.clamp(-1.0, 1.0)),
        )
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.at as f32])
    }
}

fn pays(rewards: &[f64]) -> Copies<Pays> {
    let rewards: Arc<[f64]> = rewards.into();
    Copies::new(1, move || {
        Ok(Pays {
            rewards: rewards.clone(),
            at: 0,
        })
    })
    .unwrap()
}

#[test]
fn br_19_statistics_are_of_raw_rewards() {
    let (rows, _) = run(&mut pays(&[5.0, -3.0, 0.0, 10.0]), 4);
    assert_eq!(column(&rows, 0, |r| &r.rewards), [1.0, -1.0, 0.0, 1.0]);
    assert_eq!((rows[3].returns[0], rows[3].lengths[0]), (12.0, 4));
}

#[test]
fn br_12_rewards_are_rounded_to_f32_and_summed_in_f64() {
    let (rows, _) = run(&mut pays(&[0.1]), 1);
    assert!((rows[0].rewards[0] - 0.1).abs() < 1e-7);

    // In f32 a sum of ones stalls at 2^24.
    let mut block = Copies::new(1, || Ok(Count::new(20_000_000, End::Terminated))).unwrap();
    let mut slab = Slab::new(block.spaces(), 1);
    slab.turn(|rows| block.reset(rows));
    for _ in 0..20_000_000 - 1 {
        slab.turn_quietly(|rows| block.step(rows));
    }
    assert_eq!(slab.lanes.totals[0].episode_return, 19_999_999.0);
    let last = slab.turn(|rows| block.step(rows));
    assert_eq!((last.returns[0], last.lengths[0]), (2e7, 20_000_000));
}

#[test]
fn br_38_masks_go_beside_the_observation_they_belong_to() {
    /// Forbids choice 1 at even steps.
    struct Picky(u32);
    impl Env for Picky {
        fn observation_space(&self) -> Space {
            Space::unbounded(&[1])
        }
        fn action_space(&self) -> Space {
            Space::masked_discrete(2)
        }
        fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
            self.0 = 0;
            Ok(())
        }
        fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
            self.0 += 1;
            Ok(Transition::running(0.0))
        }
        fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
            out.write(&[self.0 as f32])
        }
        fn action_mask(&mut self, mask: &mut [u8]) {
            mask.copy_from_slice(&[1, (self.0 % 2) as u8]);
        }
    }
    let mut block = Copies::new(1, || Ok(Picky(0))).unwrap();
    let mut slab = Slab::new(block.spaces(), 1);
    slab.turn(|rows| block.reset(rows));
    for t in 0..3 {
        assert_eq!(slab.masks(), [1, (t % 2) as u8]);
        slab.turn(|rows| block.step(rows));
    }
}
