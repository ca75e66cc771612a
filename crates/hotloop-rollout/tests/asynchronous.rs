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
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SCHEDULERS: [Scheduler; 2] = [Scheduler::Lockstep, Scheduler::FirstReady { max_batch: 8 }];

/// As [`Scripted`], with a version that goes up by one every `calls` calls of the policy.
struct Ageing {
    calls: u64,
    made: Arc<AtomicU64>,
}

impl Policy for Ageing {
    fn newest(&mut self) -> u64 {
        self.made.load(Ordering::SeqCst) / self.calls
    }
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        self.made.fetch_add(1, Ordering::SeqCst);
        Scripted.decide(batch)
    }
}

fn ageing(calls: u64) -> Vec<Box<dyn Policy>> {
    let made = Arc::default();
    vec![Box::new(Ageing { calls, made })]
}

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
        let rollout = start_with(config, ageing(2), |_| Count::new(3, EndBy::Trunc));
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
        let rollout = start_with(config, ageing(2), |_| Count::new(3, EndBy::Term));
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
        let rollout = start_with(config, ageing(1), |_| Count::new(3, EndBy::Term));
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
        let rollout = start_with(config, ageing(1), |_| Count::new(3, EndBy::Term));
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
        assert!(rollout.statistics().queued > std::time::Duration::ZERO);
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
