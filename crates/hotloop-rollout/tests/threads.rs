//! A rollout has the threads it was asked for, named, and leaves none behind.
#![cfg(all(not(feature = "loom"), target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::*;
use hotloop_rollout::{RolloutConfig, Scheduler};
use std::time::{Duration, Instant};

/// The names of this process's threads that are the rollout's.
fn threads() -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir("/proc/self/task")
        .unwrap()
        // A thread may end between the listing and the look at it.
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .map(|name| name.trim().to_string())
        .filter(|name| name.starts_with("hotloop"))
        .collect();
    names.sort();
    names
}

/// The names once they are `expected`, or else those that are there after a long while: a thread gives
/// itself its name when it first runs, and the system may list one for a moment after it was joined.
fn settled(expected: &[&str]) -> Vec<String> {
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let names = threads();
        if names == expected || Instant::now() > patience {
            return names;
        }
        std::thread::yield_now();
    }
}

#[test]
fn br_55_threads_are_as_many_as_asked_for_and_end_with_the_rollout() {
    for cycle in 0..50 {
        let scheduler = match cycle % 2 {
            0 => Scheduler::Lockstep,
            _ => Scheduler::FirstReady { max_batch: 8 },
        };
        let config = RolloutConfig {
            lanes: 16,
            groups: 2,
            steps: 4,
            env_threads: 3,
            scheduler,
            ..Default::default()
        };
        let rollout = start(config, 2, |_| Count::new(5, EndBy::Term));
        drop(round(&rollout, 0));
        let expected = [
            "hotloop-env",
            "hotloop-env",
            "hotloop-env",
            "hotloop-infer-0",
            "hotloop-infer-1",
            "hotloop-watch",
        ];
        assert_eq!(settled(&expected), expected, "cycle {cycle}");
        rollout.shutdown();
        assert!(settled(&[]).is_empty(), "cycle {cycle}: {:?}", threads());
    }
}
