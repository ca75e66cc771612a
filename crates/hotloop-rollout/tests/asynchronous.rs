//! Asynchronous rollouts: versions that change between batches, short segments, and what recurrent
//! policies need.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::*;
use hotloop_env::end_flags::TERMINATED;
use hotloop_rollout::{
    Acting, Batch, Policy, PolicyError, Rollout, RolloutConfig, RolloutError, Scheduler, Segment,
    StateColumn,
};
use std::time::Duration;

const SCHEDULERS: [Scheduler; 2] = [Scheduler::Lockstep, Scheduler::FirstReady { max_batch: 8 }];

fn start_with(
    config: RolloutConfig,
    policies: Vec<Box<dyn Policy>>,
    make: impl Fn(usize) -> Count + Clone + Send + 'static,
) -> Rollout {
    Rollout::start(config, spaces_of(&make(0)), blocks(make), policies, None).unwrap()
}

#[test]
fn every_row_carries_the_version_it_was_decided_with() {
    for scheduler in SCHEDULERS {
        let config = RolloutConfig {
            lanes: 2,
            lanes_per_actor: 2,
            steps: 5,
            scheduler,
            ..Default::default()
        };
        let rollout = start_with(config, ageing(2, 1), |_| Count::new(3, EndBy::Trunc));
        rollout.grant(0, Acting::Newest).unwrap();
        let segment = rollout.recv().unwrap();
        assert_eq!(segment.versions(), [0, 0, 1, 1, 2, 2]);
        assert_eq!((segment.version(), segment.rows()), (0, 5));
        // The policy was told the same: its values hold the version.
        let told = segment.values().chunks(2).map(|v| (v[0] / 1000.0) as u64);
        assert!(told.eq([0, 0, 1, 1, 2, 2]), "{:?}", segment.values());
        drop(segment);
        rollout.grant(0, Acting::At(7)).unwrap();
        assert_eq!(rollout.recv().unwrap().versions(), [7; 6]);
    }
}

#[test]
fn a_segment_whose_first_row_grows_old_is_handed_over_short() {
    for scheduler in SCHEDULERS {
        let config = RolloutConfig {
            lanes: 3,
            lanes_per_actor: 3,
            steps: 10,
            max_staleness: Some(2),
            state: Some(StateColumn { bytes: 4, every: 2 }),
            scheduler,
            ..Default::default()
        };
        // Each call makes half a version: rows 0..=3 have versions 0, 0, 1, 1; row 4 would have 2.
        let rollout = start_with(config, ageing(2, 1), |_| Count::new(3, EndBy::Term));
        rollout.grant(0, Acting::Newest).unwrap();
        let segment = rollout.recv().unwrap();
        assert_eq!(segment.rows(), 4);
        assert_eq!(segment.versions(), [0, 0, 1, 1, 2]);
        assert_eq!(segment.env_steps(), 4 * 3);
        assert_eq!(segment.rewards(), [1.0; 12]);
        assert_eq!((segment.ends().len(), segment.actions().len()), (12, 48));
        let columns = [segment.valid().len(), segment.values().len(), 15];
        assert_eq!(columns, [15; 3], "with the row that was only evaluated");
        assert_eq!(observations(&segment)[12..], [11.0; 3]);
        assert_eq!(segment.values()[12..], [2011.0; 3]);
        assert_eq!(segment.states().len(), 2 * 3 * 4);
        drop(segment);
        // The next begins with the same observation, decided anew.
        rollout.grant(0, Acting::Newest).unwrap();
        let segment = rollout.recv().unwrap();
        assert_eq!(observations(&segment)[..3], [11.0; 3]);
        assert_eq!(segment.log_probs()[..3], [-4.0; 3]);
        assert_eq!(segment.versions()[0], 2);
        drop(segment);
        let statistics = rollout.shutdown();
        assert_eq!((statistics.segments, statistics.short_segments), (2, 2));
        assert_eq!(statistics.workers[0].largest_batch, 3);
    }
}

#[test]
fn versions_that_were_granted_never_make_a_segment_short() {
    for scheduler in SCHEDULERS {
        let config = RolloutConfig {
            steps: 4,
            max_staleness: Some(1),
            scheduler,
            ..Default::default()
        };
        let rollout = start_with(config, ageing(1, 1), |_| Count::new(3, EndBy::Term));
        rollout.grant(0, Acting::At(0)).unwrap();
        assert_eq!(rollout.recv().unwrap().rows(), 4);
        // With a version for each call, and a bound of 1, every segment has one row.
        for _ in 0..3 {
            rollout.grant(0, Acting::Newest).unwrap();
            assert_eq!(rollout.recv().unwrap().rows(), 1);
        }
    }
}

#[test]
fn what_was_granted_is_outstanding_until_it_is_received() {
    for scheduler in SCHEDULERS {
        let config = RolloutConfig {
            lanes: 4,
            lanes_per_actor: 2,
            groups: 2,
            steps: 3,
            segments_per_group: 2,
            scheduler,
            ..Default::default()
        };
        let rollout = start_with(config, ageing(1, 1), |_| Count::new(3, EndBy::Term));
        rollout.grant(0, Acting::Newest).unwrap();
        rollout.grant(0, Acting::Newest).unwrap();
        rollout.grant(1, Acting::Newest).unwrap();
        assert!(rollout.grant(2, Acting::Newest).is_err());
        assert_eq!(rollout.outstanding(), 3 * 3 * 2);
        assert_eq!((rollout.tickets(0), rollout.tickets(1)), (2, 1));
        let mut held = vec![rollout.recv().unwrap(), rollout.recv().unwrap()];
        assert_eq!(rollout.outstanding(), 3 * 2);
        held.push(rollout.recv().unwrap());
        assert_eq!(rollout.outstanding(), 0);
        assert!(matches!(
            rollout.grant(0, Acting::Newest),
            Err(RolloutError::NoFreeSegment { group: 0, .. })
        ));
        assert_eq!(rollout.outstanding(), 0);
        assert!(rollout.statistics().queued > Duration::ZERO);
    }
}

/// The recurrent core `h' = 0.5 h + x` of every lane, where `x` is always 1: the value is `h'`.
struct Core {
    lanes: Vec<f32>,
}

impl Policy for Core {
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        let (places, starts, valid) = (batch.places(), batch.starts(), batch.valid());
        let commits = !batch.bootstrap();
        let outputs = batch.outputs();
        let states: &mut [f32] = bytemuck::cast_slice_mut(outputs.states);
        for i in 0..valid.len() {
            let lane = places.lane(i);
            let before = if starts[i] != 0 {
                0.0
            } else {
                self.lanes[lane]
            };
            if let Some(state) = states.get_mut(i) {
                *state = before;
            }
            outputs.values[i] = 0.5 * before + 1.0;
            if commits && valid[i] != 0 {
                self.lanes[lane] = outputs.values[i];
            }
        }
        outputs.log_probs.fill(0.0);
        Ok(())
    }
}

/// What `h` is before and after every row of a lane, by the rules: anew at each start, and nothing
/// committed by rows that are not valid.
fn replayed(segment: &Segment, lane: usize, mut h: f32) -> (Vec<f32>, Vec<f32>) {
    let (mut before, mut after) = (vec![], vec![]);
    for row in 0..=segment.rows() {
        let at = row * segment.lanes() + lane;
        if segment.starts()[at] != 0 {
            h = 0.0;
        }
        before.push(h);
        after.push(0.5 * h + 1.0);
        if segment.valid()[at] != 0 {
            h = 0.5 * h + 1.0;
        }
    }
    (before, after)
}

#[test]
fn br_30_states_begin_anew_where_an_episode_does() {
    for scheduler in SCHEDULERS {
        let config = RolloutConfig {
            lanes: 4,
            lanes_per_actor: 2,
            steps: 4,
            state: Some(StateColumn { bytes: 4, every: 3 }),
            scheduler,
            ..Default::default()
        };
        // Lanes 0 and 1 terminate after two steps; 2 and 3 are cut after three.
        let make = |lane: usize| match lane {
            0 | 1 => Count::new(2, EndBy::Term),
            _ => Count::new(3, EndBy::Trunc),
        };
        let core = Core {
            lanes: vec![f32::NAN; 4],
        };
        let rollout = start_with(config, vec![Box::new(core)], make);
        let values = |segment: &Segment, lane: usize| -> Vec<f32> {
            let column = segment.values()[lane..].iter();
            column.step_by(segment.lanes()).copied().collect()
        };
        let mut last = [0.0; 4];
        for round in 0..6 {
            for segment in common::round(&rollout, 0) {
                for i in 0..segment.lanes() {
                    let lane = segment.first_lane() + i;
                    let (before, after) = replayed(&segment, i, last[lane]);
                    assert_eq!(values(&segment, i), after, "lane {lane}");
                    let states: &[f32] = bytemuck::cast_slice(segment.states());
                    assert_eq!(states.len(), 2 * segment.lanes());
                    assert_eq!(states[i], before[0]);
                    assert_eq!(states[segment.lanes() + i], before[3]);
                    last[lane] = before[4];
                    if (round, lane) == (0, 0) {
                        let starts: Vec<u8> = segment
                            .starts()
                            .chunks(segment.lanes())
                            .map(|row| row[0])
                            .collect();
                        assert_eq!(starts, [1, 0, 1, 0, 1]);
                        assert_eq!(values(&segment, 0)[..4], [1.0, 1.5, 1.0, 1.5]);
                        assert_eq!(segment.ends()[0] & TERMINATED, 0);
                    }
                    if (round, lane) == (0, 2) {
                        let at: Vec<u8> = segment
                            .starts()
                            .chunks(segment.lanes())
                            .map(|row| row[i])
                            .collect();
                        assert_eq!(
                            at,
                            [1, 0, 0, 0, 1],
                            "the final row belongs to the old episode"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn br_11_no_batch_holds_an_environment_twice() {
    /// Panics if it does.
    struct Distinct(Vec<Box<dyn Policy>>);
    impl Policy for Distinct {
        fn newest(&mut self) -> u64 {
            self.0[0].newest()
        }
        fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
            let mut lanes: Vec<_> = (0..batch.len()).map(|i| batch.places().lane(i)).collect();
            lanes.sort_unstable();
            lanes.dedup();
            assert_eq!(lanes.len(), batch.len());
            assert!(batch.len() <= 2);
            self.0[0].decide(batch)
        }
    }
    let config = RolloutConfig {
        lanes: 4,
        steps: 20,
        segments_per_group: 2,
        env_threads: 4,
        max_staleness: Some(2),
        scheduler: Scheduler::FirstReady { max_batch: 2 },
        ..Default::default()
    };
    let latencies = [1, 2, 3, 5];
    let echo = move |id| Echo {
        id,
        k: 0,
        latency: Duration::from_millis(latencies[id]),
    };
    let policies = vec![Box::new(Distinct(ageing(8, 1))) as Box<dyn Policy>];
    let rollout =
        Rollout::start(config, spaces_of(&echo(0)), blocks(echo), policies, None).unwrap();
    for group in [0, 1, 2, 3, 0, 1, 2, 3] {
        rollout.grant(group, Acting::Newest).unwrap();
    }
    let (mut next_k, mut steps, mut short) = ([0; 4], 0, 0);
    while steps < 400 {
        let segment = rollout.recv().unwrap();
        let (id, rows) = (segment.first_lane(), segment.rows());
        for t in 0..=rows {
            let seen = &observations(&segment)[2 * t..2 * t + 2];
            assert_eq!(seen, [id as f32, (next_k[id] + t) as f32]);
            if t < rows {
                let action = (7 * id + next_k[id] + t) % 5;
                assert_eq!(actions(&segment)[t], action as i32);
                assert_eq!(segment.rewards()[t], action as f32);
            }
        }
        let versions = segment.versions();
        assert!(versions.is_sorted());
        assert!(versions[rows - 1] - versions[0] < 2);
        next_k[id] += rows;
        steps += rows;
        short += u32::from(rows < 20);
        drop(segment);
        rollout.grant(id, Acting::Newest).unwrap();
    }
    assert!(short > 0);
    assert_eq!(rollout.statistics().short_segments, u64::from(short));
}

#[test]
fn br_52_of_thousands_of_actors_every_one_gets_its_turn() {
    let (lanes, steps) = (1500, 4);
    let config = RolloutConfig {
        lanes,
        steps,
        segments_per_group: 2,
        env_threads: 2,
        max_staleness: Some(2),
        scheduler: Scheduler::FirstReady { max_batch: 64 },
        ..Default::default()
    };
    let rollout = start_with(config, ageing(500, 1), |_| Count::new(7, EndBy::Term));
    for group in (0..lanes).chain(0..lanes) {
        rollout.grant(group, Acting::Newest).unwrap();
    }
    let bound = 2 * lanes * steps;
    let mut rows = vec![0usize; lanes];
    // A consumer that takes what has piled up, in bursts.
    for _ in 0..20 {
        let mut burst = vec![];
        while burst.len() < lanes {
            burst.push(rollout.recv().unwrap());
            assert!(rollout.outstanding() <= bound);
        }
        for segment in burst {
            let group = segment.group();
            rows[group] += segment.rows();
            drop(segment);
            rollout.grant(group, Acting::Newest).unwrap();
        }
    }
    let (least, most) = (rows.iter().min().unwrap(), rows.iter().max().unwrap());
    assert!(most <= &(2 * least), "{least} {most}");
    // Nothing goes on when all is full, and nobody looks again and again whether it could.
    while rollout.statistics().segments < 22 * lanes as u64 {
        std::thread::yield_now();
    }
    let batches = rollout.statistics().workers[0].batches;
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(rollout.statistics().workers[0].batches, batches);
}

#[test]
fn br_49_a_consumer_that_panics_leaves_nobody_behind() {
    for scheduler in SCHEDULERS {
        for received in [0, 1, 5] {
            let config = RolloutConfig {
                lanes: 64,
                lanes_per_actor: 4,
                groups: 4,
                steps: 2,
                segments_per_group: 2,
                env_threads: 2,
                max_staleness: Some(1),
                scheduler,
                ..Default::default()
            };
            let rollout = start_with(config, ageing(3, 2), |_| Count::new(5, EndBy::Trunc));
            let consumer = std::thread::spawn(move || {
                for group in (0..rollout.groups()).chain(0..rollout.groups()) {
                    rollout.grant(group, Acting::Newest).unwrap();
                }
                let held: Vec<_> = (0..received).map(|_| rollout.recv().unwrap()).collect();
                // Unwinding drops the rollout, with full segments in its queue and in the consumer's hands.
                panic!("learner-boom with {} segments", held.len());
            });
            assert!(consumer.join().is_err());
        }
    }
}
