//! The same run whatever steps it, and the same continuation from a snapshot.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::*;
use hotloop_rollout::{Acting, Rollout, RolloutConfig, RolloutError, Scheduler, Segment, Snapshot};

fn config() -> RolloutConfig {
    RolloutConfig {
        lanes: 24,
        lanes_per_actor: 4,
        groups: 3,
        steps: 17,
        seed: 42,
        ..Default::default()
    }
}

/// Everything that the learner sees of a segment.
#[derive(Debug, PartialEq)]
struct Seen(Vec<u8>);

impl Seen {
    fn new(segment: &Segment) -> Self {
        let mut bytes = vec![segment.group() as u8, segment.version() as u8];
        bytes.extend(segment.observations());
        bytes.extend(segment.actions());
        bytes.extend(segment.valid());
        bytes.extend(segment.ends());
        bytes.extend(bytemuck::cast_slice::<f32, u8>(segment.rewards()));
        bytes.extend(bytemuck::cast_slice::<f32, u8>(segment.log_probs()));
        bytes.extend(bytemuck::cast_slice::<f32, u8>(segment.values()));
        for (i, end) in segment.ends().iter().enumerate() {
            if end & hotloop_env::end_flags::EPISODE != 0 {
                bytes.extend(segment.episode_returns()[i].to_le_bytes());
                bytes.extend(segment.episode_lengths()[i].to_le_bytes());
            }
        }
        Self(bytes)
    }
}

fn rounds(rollout: &Rollout, versions: std::ops::Range<u64>) -> Vec<Seen> {
    versions
        .flat_map(|version| {
            let segments = round(rollout, version);
            segments.iter().map(Seen::new).collect::<Vec<_>>()
        })
        .collect()
}

fn walk(saves: bool) -> impl Fn(usize) -> Walk + Clone + Send + 'static {
    move |_| Walk { at: 0.0, saves }
}

#[test]
fn threads_and_workers_change_no_bit() {
    let run = |env_threads, workers, lanes_per_actor| {
        let config = RolloutConfig {
            env_threads,
            lanes_per_actor,
            ..config()
        };
        rounds(&start(config, workers, walk(false)), 0..4)
    };
    let one = run(1, 1, 4);
    for (env_threads, workers, lanes_per_actor) in [
        (2, 1, 4),
        (4, 1, 4),
        (1, 2, 4),
        (4, 2, 4),
        (2, 2, 1),
        (2, 1, 3),
    ] {
        assert_eq!(one, run(env_threads, workers, lanes_per_actor));
    }
    let other_seed = RolloutConfig {
        seed: 43,
        ..config()
    };
    assert_ne!(one, rounds(&start(other_seed, 1, walk(false)), 0..4));
}

#[test]
fn overlapping_segments_change_no_bit_but_versions() {
    let config = RolloutConfig {
        segments_per_group: 2,
        ..config()
    };
    let run = || {
        let rollout = start(config.clone(), 2, walk(false));
        let (mut seen, mut held) = (vec![], vec![]);
        (0..3).for_each(|group| assert!(rollout.grant(group, Acting::At(0)).unwrap()));
        for version in 1..5 {
            (0..3).for_each(|group| assert!(rollout.grant(group, Acting::At(version)).unwrap()));
            // A fast group may be a segment ahead; it cannot be two.
            while held
                .iter()
                .filter(|s: &&Segment| s.version() < version)
                .count()
                < 3
            {
                held.push(rollout.recv().unwrap());
            }
            held.sort_by_key(|segment| (segment.version(), segment.group()));
            seen.extend(held.drain(..3).map(|segment| Seen::new(&segment)));
        }
        seen
    };
    assert_eq!(run(), run());
}

fn resumed(scheduler: Scheduler) {
    let config = RolloutConfig {
        scheduler,
        ..config()
    };
    let whole = rounds(&start(config.clone(), 2, walk(true)), 0..6);

    let first = start(config.clone(), 2, walk(true));
    let mut halves = rounds(&first, 0..3);
    let bytes = first.snapshot().unwrap().to_bytes();
    drop(first);
    let second = Rollout::start(
        config,
        spaces_of(&Walk::default()),
        blocks(walk(true)),
        scripted(1),
        Some(Snapshot::from_bytes(&bytes).unwrap()),
    )
    .unwrap();
    halves.extend(rounds(&second, 3..6));
    assert_eq!(whole, halves);
    // A snapshot leaves the rollout as it was.
    second.snapshot().unwrap();
    rounds(&second, 6..7);
}

#[test]
fn a_lockstep_snapshot_goes_on_bit_for_bit() {
    resumed(Scheduler::Lockstep);
}

#[test]
fn a_first_ready_snapshot_goes_on_bit_for_bit() {
    resumed(Scheduler::FirstReady { max_batch: 8 });
}

#[test]
fn lanes_that_cannot_save_begin_a_new_episode() {
    let config = RolloutConfig {
        lanes: 2,
        steps: 5,
        ..Default::default()
    };
    let make = |_| Count::new(100, EndBy::Term);
    let first = start(config.clone(), 1, make);
    drop(round(&first, 0));
    let snapshot = first.snapshot().unwrap();
    let second = Rollout::start(
        config,
        spaces_of(&make(0)),
        blocks(make),
        scripted(1),
        Some(snapshot),
    )
    .unwrap();
    let segment = round(&second, 1).remove(0);
    let lane = |i| -> Vec<f32> {
        observations(&segment)[i..]
            .iter()
            .step_by(2)
            .copied()
            .collect()
    };
    // The row before the reset is kept for its value, and not trained on.
    assert_eq!(lane(0), [5.0, 10.0, 11.0, 12.0, 13.0, 14.0]);
    assert_eq!(lane(1), lane(0));
    assert_eq!(segment.valid()[..4], [0, 0, 1, 1]);
    assert_eq!(segment.log_probs()[0], -5.0, "decisions are counted on");
}

#[test]
fn a_snapshot_before_the_first_segment_is_a_fresh_start() {
    let fresh = rounds(&start(config(), 1, walk(true)), 0..1);
    let snapshot = start(config(), 1, walk(true)).snapshot().unwrap();
    let rollout = Rollout::start(
        config(),
        spaces_of(&Walk::default()),
        blocks(walk(true)),
        scripted(1),
        Some(snapshot),
    )
    .unwrap();
    assert_eq!(rounds(&rollout, 0..1), fresh);
}

#[test]
fn a_snapshot_in_the_middle_or_of_another_shape_is_refused() {
    let rollout = start(config(), 1, walk(true));
    rollout.grant(1, Acting::At(0)).unwrap();
    assert!(matches!(
        rollout.snapshot(),
        Err(RolloutError::NotAtBoundary { group: 1 })
    ));
    drop(rollout.recv().unwrap());
    let snapshot = rollout.snapshot().unwrap();
    let restart = |config, env: fn(usize) -> Count| {
        Rollout::start(
            config,
            spaces_of(&env(0)),
            blocks(env),
            scripted(1),
            Some(snapshot.clone()),
        )
        .err()
        .unwrap()
        .to_string()
    };
    let count = |_| Count::new(3, EndBy::Term);
    let groups = RolloutConfig {
        groups: 2,
        ..config()
    };
    assert!(restart(groups, count).contains("3 groups, the rollout 2"));
    let lanes = RolloutConfig {
        lanes: 48,
        ..config()
    };
    assert!(restart(lanes, count).contains("8 lanes in a group, the rollout 16"));
    // Another environment that cannot load what was saved.
    assert!(restart(config(), count).contains("lane 0"));
}
