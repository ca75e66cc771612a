//! That a run does not grow: a process of its own, since its resident size is looked at.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use hotloop_env::End;
use hotloop_tests::{Script, Spy, Watch, trainer};
use std::sync::{Arc, Mutex};

/// Resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn br_53_two_thousand_updates_take_no_more_memory_than_two_hundred() {
    let sizes = Arc::new(Mutex::new(vec![]));
    let watch = Watch({
        let sizes = Arc::clone(&sizes);
        move |update: &hotloop_telemetry::Update| {
            if update.update.is_multiple_of(100) {
                sizes.lock().unwrap().push(resident());
            }
        }
    });
    // Autograd is used, and nothing of the rollout drags its graph along.
    let spy = Spy::new(|cx, outputs| {
        let batch = cx.batch;
        for column in [
            &batch.observations,
            &batch.old_log_probs,
            &batch.old_values,
            &batch.advantages,
            &batch.targets,
        ] {
            assert!(!column.requires_grad());
        }
        assert!(outputs.value.requires_grad());
        1.0
    });
    let settings = [
        "steps=64000",
        "normalize.observations=true",
        "normalize.rewards=true",
        "rollout.mode=overlap",
        "checkpoint.every=500",
        "eval.every=100",
        "eval.episodes=4",
    ];
    let dir = tempfile::tempdir().unwrap();
    let spec = Script::count(7, End::Terminated).spec();
    let run = trainer(&spec, &settings).run_dir(dir.path().join("run"));
    let report = run
        .sink(watch)
        .algorithm(spy)
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert_eq!(report.updates, 2000);
    let sizes = sizes.lock().unwrap();
    let (settled, end) = (sizes[1], sizes[sizes.len() - 1]);
    assert!(
        end < settled + settled / 50,
        "more than 2 % from {settled} to {end}: {sizes:?}"
    );
}
