//! Workers in the engine: what comes when it is ready belongs to the lane that it came from.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod support;

use hotloop_rollout::{Acting, Batch, Policy, PolicyError, Rollout, RolloutConfig, Scheduler};
use std::collections::BTreeSet;
use support::toy;

/// Acts by what it sees alone: the number of a process, and a step.
struct Chooser;

fn choice(seen: &[f32]) -> i32 {
    (7 * seen[0] as i32 + seen[1] as i32) % 5
}

impl Policy for Chooser {
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        if batch.bootstrap() {
            return Ok(());
        }
        let seen: &[f32] = bytemuck::cast_slice(batch.observations());
        let chosen: Vec<i32> = seen.chunks_exact(2).map(choice).collect();
        assert!(
            (1..=2).contains(&chosen.len()),
            "{} rows in a batch",
            chosen.len()
        );
        let distinct: BTreeSet<_> = seen.chunks_exact(2).map(|row| row[0] as u32).collect();
        assert_eq!(
            distinct.len(),
            chosen.len(),
            "an environment is in a batch twice"
        );
        bytemuck::cast_slice_mut(batch.outputs().actions).copy_from_slice(&chosen);
        Ok(())
    }
}

#[test]
fn br_11_partial_batches_of_workers_are_attributed_to_the_right_env() {
    let (lanes, steps) = (4, 20);
    let echo = toy("Echo", "{}");
    let (spec, options) = (hotloop_gymnasium::spec(&echo.id), echo.options());
    let rollout = Rollout::start(
        RolloutConfig {
            lanes,
            steps,
            segments_per_group: 2,
            scheduler: Scheduler::FirstReady { max_batch: 2 },
            env_threads: 2,
            ..Default::default()
        },
        spec.spaces(&options).unwrap(),
        move |_, lanes| spec.make(&options, lanes),
        vec![Box::new(Chooser)],
        None,
    )
    .unwrap();
    for group in (0..lanes).chain(0..lanes) {
        rollout.grant(group, Acting::At(0)).unwrap();
    }
    let (mut next, mut owners) = (vec![0; lanes], vec![None; lanes]);
    for _ in 0..20 {
        let segment = rollout.recv().unwrap();
        let group = segment.group();
        let seen: &[f32] = bytemuck::cast_slice(segment.observations());
        let actions: &[i32] = bytemuck::cast_slice(segment.actions());
        for t in 0..steps {
            let row = &seen[2 * t..2 * t + 2];
            assert_eq!(row[1], next[group] as f32, "steps follow each other");
            assert_eq!(
                *owners[group].get_or_insert(row[0]),
                row[0],
                "one process for one lane"
            );
            assert_eq!(actions[t], choice(row));
            assert_eq!(segment.rewards()[t], actions[t] as f32);
            next[group] += 1;
        }
        drop(segment);
        rollout.grant(group, Acting::At(0)).unwrap();
    }
    let distinct: BTreeSet<_> = owners.iter().map(|id| id.map(|id| id as u32)).collect();
    assert!(
        distinct.len() == lanes && !distinct.contains(&None),
        "every lane has had its turns, in a process of its own: {distinct:?}"
    );
    rollout.shutdown();
}
