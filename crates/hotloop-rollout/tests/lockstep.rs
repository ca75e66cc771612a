//! Lockstep rollouts: rows, segments, faults, determinism.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::*;
use hotloop_env::{Cause, FaultPhase, end_flags::*};
use hotloop_rollout::{Acting, OnFault, RolloutConfig, RolloutError};

fn config(lanes: usize, steps: usize) -> RolloutConfig {
    RolloutConfig {
        lanes,
        steps,
        ..Default::default()
    }
}

#[test]
fn br_08_a_terminated_episode_leaves_no_dummy_row() {
    let rollout = start(config(1, 6), 1, |_| Count::new(3, EndBy::Term));
    let segment = &round(&rollout, 3)[0];
    assert_eq!(
        observations(segment),
        [0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 20.0]
    );
    assert_eq!(segment.valid(), [1; 7]);
    assert_eq!(segment.starts(), [1, 0, 0, 1, 0, 0, 1]);
    assert_eq!(segment.rewards(), [1.0; 6]);
    let end = TERMINATED | EPISODE;
    assert_eq!(segment.ends(), [0, 0, end, 0, 0, end]);
    assert_eq!(
        (segment.episode_returns()[2], segment.episode_lengths()[5]),
        (3.0, 3)
    );
    // The bootstrap row is evaluated, with the segment's version; row 0 counts as a decision.
    assert_eq!(segment.values()[6], 3020.0);
    assert_eq!(segment.log_probs(), [0.0, -1.0, -2.0, -3.0, -4.0, -5.0]);
    assert_eq!(segment.version(), 3);
    assert_eq!(rollout.statistics().env_steps, 6);
}

#[test]
fn br_09_a_final_observation_takes_a_row_of_its_own() {
    let rollout = start(config(1, 8), 1, |_| Count::new(3, EndBy::Trunc));
    let segment = &round(&rollout, 0)[0];
    assert_eq!(
        observations(segment),
        [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0, 20.0]
    );
    assert_eq!(segment.valid(), [1, 1, 1, 0, 1, 1, 1, 0, 1]);
    assert_eq!(segment.starts(), [1, 0, 0, 0, 1, 0, 0, 0, 1]);
    assert_eq!(segment.rewards(), [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0]);
    let end = TRUNCATED | EPISODE;
    assert_eq!(segment.ends(), [0, 0, end, 0, 0, 0, end, 0]);
    // The final observation is evaluated like any other.
    assert_eq!(segment.values()[3], 3.0);
    assert_eq!(rollout.statistics().env_steps, 6);
}

#[test]
fn the_bootstrap_row_begins_the_next_segment() {
    let rollout = start(config(1, 4), 1, |_| Count::new(4, EndBy::Trunc));
    let first = round(&rollout, 1).remove(0);
    assert_eq!(observations(&first), [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(first.valid(), [1, 1, 1, 1, 0]);
    assert_eq!(first.values()[4], 1004.0);
    drop(first);
    let second = round(&rollout, 2).remove(0);
    assert_eq!(observations(&second), [4.0, 10.0, 11.0, 12.0, 13.0]);
    assert_eq!(second.valid(), [0, 1, 1, 1, 1]);
    assert_eq!(second.values()[0], 2004.0, "row 0 is decided anew");
    assert_eq!(second.log_probs()[0], -4.0);
    assert_eq!(rollout.statistics().env_steps, 7);
}

#[test]
fn a_failed_step_costs_its_row_and_no_other_lane() {
    for failure in [Failure::Error, Failure::Panic] {
        let rollout = start(
            RolloutConfig {
                lanes_per_actor: 2,
                ..config(4, 5)
            },
            1,
            move |lane| Fault::new(failure, if lane == 1 { 2 } else { 999 }),
        );
        let segment = &round(&rollout, 0)[0];
        let lane = |column: &[f32], i: usize| -> Vec<f32> {
            column.iter().skip(i).step_by(4).copied().collect()
        };
        // The row of the failed step is there, but not valid; the rebuilt environment follows.
        assert_eq!(
            lane(observations(segment), 1),
            [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]
        );
        assert_eq!(lane(segment.rewards(), 1), [1.0, 1.0, 0.0, 1.0, 1.0]);
        let valid: Vec<f32> = segment.valid().iter().map(|&v| v as f32).collect();
        assert_eq!(lane(&valid, 1), [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
        for other in [0, 2, 3] {
            assert_eq!(
                lane(observations(segment), other),
                [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
            );
            assert_eq!(lane(&valid, other), [1.0; 6]);
        }
        let faults = rollout.faults();
        assert_eq!(faults.len(), 1);
        assert_eq!(
            (faults[0].lane, faults[0].step, faults[0].phase),
            (1, 2, FaultPhase::Step)
        );
        let cause = match failure {
            Failure::Panic => Cause::Panic,
            Failure::Error => Cause::Error,
        };
        assert_eq!(faults[0].cause, cause);
        assert!(faults[0].message.contains("boom-42"));
        let statistics = rollout.shutdown();
        assert_eq!(
            (statistics.env_steps, statistics.faults.step),
            (19, 1),
            "{statistics:?}"
        );
    }
}

#[test]
fn br_44_with_the_policy_fail_a_fault_ends_the_run_by_name() {
    let rollout = start(
        RolloutConfig {
            on_fault: OnFault::Fail,
            ..config(8, 64)
        },
        1,
        |lane| Fault::new(Failure::Panic, if lane == 3 { 10 } else { 999 }),
    );
    rollout.grant(0, Acting::At(0)).unwrap();
    let error = rollout.recv().unwrap_err();
    let text = error.to_string();
    for part in ["boom-42", "lane 3", "step 10"] {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
    assert!(matches!(
        rollout.grant(0, Acting::At(1)),
        Err(RolloutError::Fault { .. })
    ));
}

#[test]
fn br_44_with_the_policy_restart_the_others_go_on() {
    let rollout = start(config(8, 25), 1, |lane| {
        Fault::new(Failure::Error, if lane == 3 { 10 } else { 9999 })
    });
    let segment = &round(&rollout, 0)[0];
    let valid: usize = segment.valid()[..25 * 8].iter().map(|&v| v as usize).sum();
    assert_eq!(valid, 25 * 8 - 2);
    assert_eq!(rollout.statistics().faults.total(), 2);
}

#[test]
fn a_lane_with_too_many_failures_in_a_row_is_set_aside() {
    let rollout = start(
        RolloutConfig {
            max_failures_in_a_row: 4,
            ..config(2, 64)
        },
        1,
        |lane| Fault::new(Failure::Error, if lane == 1 { 0 } else { 999 }),
    );
    let segment = round(&rollout, 0).remove(0);
    assert!(segment.valid().chunks(2).all(|row| row == [1, 0]));
    let statistics = rollout.statistics();
    assert_eq!(
        (statistics.lanes_set_aside, statistics.faults.errors),
        (1, 5)
    );
}

#[test]
fn br_44_the_run_ends_when_too_few_lanes_are_left() {
    let rollout = start(
        RolloutConfig {
            max_failures_in_a_row: 4,
            ..config(3, 64)
        },
        1,
        |lane| Fault::new(Failure::Error, if lane > 0 { 0 } else { 999 }),
    );
    rollout.grant(0, Acting::At(0)).unwrap();
    let error = rollout.recv().unwrap_err();
    let text = error.to_string();
    let RolloutError::TooFewLanes {
        left: 1,
        lanes: 3,
        fault,
        ..
    } = error
    else {
        panic!("{text}")
    };
    assert!(
        (1..3).contains(&fault.lane) && fault.in_a_row == 5,
        "{text}"
    );
    assert!(text.contains("boom-42"), "{text}");
}
