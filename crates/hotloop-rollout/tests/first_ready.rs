//! First-ready rollouts: every row belongs to its lane, slow lanes delay only themselves.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::*;
use hotloop_env::end_flags::*;
use hotloop_rollout::{Acting, RolloutConfig, RolloutError, Scheduler};
use std::time::Duration;

fn config(lanes: usize, steps: usize, max_batch: usize) -> RolloutConfig {
    RolloutConfig {
        lanes,
        steps,
        scheduler: Scheduler::FirstReady { max_batch },
        env_threads: 2,
        ..Default::default()
    }
}

#[test]
fn br_11_partial_batches_are_attributed_to_the_right_env() {
    let latencies = [1, 2, 3, 5];
    let rollout = start(
        RolloutConfig {
            segments_per_group: 2,
            env_threads: 4,
            ..config(4, 20, 2)
        },
        2,
        move |id| Echo {
            id,
            k: 0,
            latency: Duration::from_millis(latencies[id]),
        },
    );
    for group in 0..4 {
        rollout.grant(group, Acting::At(0)).unwrap();
        rollout.grant(group, Acting::At(0)).unwrap();
    }
    let (mut next_k, mut segments, mut rows) = ([0; 4], [0; 4], 0);
    while rows < 400 {
        let segment = rollout.recv().unwrap();
        let id = segment.first_lane();
        assert_eq!((segment.group(), segment.lanes()), (id, 1));
        for t in 0..20 {
            let observation = &observations(&segment)[2 * t..2 * t + 2];
            let k = next_k[id];
            assert_eq!(observation, [id as f32, k as f32], "k is consecutive");
            let action = actions(&segment)[t];
            assert_eq!(action, (7 * id as i32 + k) % 5);
            assert_eq!(segment.rewards()[t], action as f32);
            assert_eq!(segment.values()[t], k as f32);
            next_k[id] += 1;
            rows += 1;
        }
        assert_eq!(segment.values()[20], next_k[id] as f32, "bootstrap");
        segments[id] += 1;
        drop(segment);
        if rows < 300 {
            rollout.grant(id, Acting::At(0)).unwrap();
        }
        if next_k.iter().sum::<i32>() as usize >= 400 {
            break;
        }
    }
    // The fast lane was not held back by the slow one.
    assert!(segments[0] > segments[3], "{segments:?}");
    let statistics = rollout.shutdown();
    assert!(
        statistics
            .workers
            .iter()
            .all(|w| w.decisions <= 2 * w.batches),
        "no batch is larger than allowed: {statistics:?}"
    );
}

#[test]
fn rows_are_as_in_lockstep() {
    let rollout = start(config(2, 4, 2), 1, |_| Count::new(3, EndBy::Trunc));
    let first = round(&rollout, 1).remove(1);
    assert_eq!(observations(&first), [0.0, 1.0, 2.0, 3.0, 10.0]);
    assert_eq!(first.valid(), [1, 1, 1, 0, 1]);
    assert_eq!(first.ends(), [0, 0, TRUNCATED | EPISODE, 0]);
    assert_eq!(first.values()[4], 1010.0);
    drop(first);
    let second = round(&rollout, 2).remove(1);
    assert_eq!(observations(&second), [10.0, 11.0, 12.0, 13.0, 20.0]);
    assert_eq!(second.log_probs()[0], -4.0);
    assert_eq!(second.values()[0], 2010.0, "row 0 is decided anew");
}

#[test]
fn blocks_with_different_versions_are_decided_apart() {
    let rollout = start(
        RolloutConfig {
            segments_per_group: 2,
            ..config(8, 3, 8)
        },
        1,
        |_| Count::new(1000, EndBy::Term),
    );
    for group in 0..8 {
        rollout.grant(group, Acting::At(group as u64)).unwrap();
        rollout
            .grant(group, Acting::At(100 + group as u64))
            .unwrap();
    }
    for _ in 0..16 {
        let segment = rollout.recv().unwrap();
        let offset = 1000.0 * segment.version() as f32;
        for (value, observation) in segment.values().iter().zip(observations(&segment)) {
            assert_eq!(*value, observation + offset);
        }
    }
}

#[test]
fn br_52_every_lane_gets_its_turn_and_nothing_is_granted_twice() {
    let rollout = start(config(300, 5, 64), 2, |_| Count::new(7, EndBy::Term));
    for version in 0..3 {
        let segments = round(&rollout, version);
        assert_eq!(segments.len(), 300);
        assert!(segments.iter().enumerate().all(|(i, s)| s.group() == i));
        assert!(matches!(
            rollout.grant(7, Acting::At(9)),
            Err(RolloutError::NoFreeSegment {
                group: 7,
                segments: 1
            })
        ));
    }
    assert_eq!(rollout.statistics().env_steps, 300 * 5 * 3);
}

#[test]
fn nothing_outstanding_is_waited_for_until_the_deadline_only() {
    let rollout = start(config(2, 5, 2), 1, |_| Count::new(7, EndBy::Term));
    assert!(
        rollout
            .recv_timeout(Duration::from_millis(5))
            .unwrap()
            .is_none()
    );
    assert_eq!(rollout.statistics().workers[0].batches, 0);
}
