//! The path of a device, taken on the CPU: the same copies as for a GPU, and acting in bf16.

use crate::{column, metrics};
use hotloop::TrainReport;
use hotloop_env::EnvSpec;
use hotloop_tests::{Spy, mirror, mixed, trainer};
use std::sync::{Arc, Mutex};
use tch::Tensor;

fn floats(tensor: &Tensor) -> Vec<f32> {
    Vec::try_from(tensor.reshape([-1])).unwrap()
}

/// A short run, and the values and log-probabilities that its rollouts stored.
fn run(spec: &EnvSpec, settings: &[&str]) -> (TrainReport, Vec<f32>, tempfile::TempDir) {
    let seen = Arc::new(Mutex::new(vec![]));
    let spy = Spy::looking({
        let seen = Arc::clone(&seen);
        move |cx| {
            let mut seen = seen.lock().unwrap();
            for column in [&cx.batch.old_values, &cx.batch.old_log_probs] {
                // What was not chosen may be anything.
                let left_out = cx.batch.valid.eq(0);
                seen.extend(floats(&column.masked_fill(&left_out, 0.0)));
            }
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let run = trainer(spec, settings)
        .run_dir(dir.path().join("run"))
        .algorithm(spy);
    let report = run.build().unwrap().train().unwrap();
    let seen = seen.lock().unwrap().clone();
    (report, seen, dir)
}

/// With and without `staged` everything is the same.
fn staged_is_the_same(spec: &EnvSpec, settings: &[&str]) -> (TrainReport, tempfile::TempDir) {
    let (plain, expected, _dir) = run(spec, settings);
    let (staged, found, dir) = run(spec, &[settings, &["staged=true"]].concat());
    assert_eq!(plain.weights_hash, staged.weights_hash, "{settings:?}");
    assert!(!expected.is_empty());
    assert!(expected == found, "{settings:?}");
    for line in metrics(&plain) {
        assert!(line.get("uploads_per_batch").is_none(), "{line}");
    }
    (staged, dir)
}

/// And every batch was copied up once and down once.
fn staged_copies_twice(spec: &EnvSpec, settings: &[&str]) -> (TrainReport, tempfile::TempDir) {
    let (report, dir) = staged_is_the_same(spec, settings);
    for key in ["uploads_per_batch", "downloads_per_batch"] {
        let each = column(&report, key);
        assert!(
            each.iter().all(|n| *n == 1.0),
            "{key}: {each:?} ({settings:?})"
        );
    }
    (report, dir)
}

#[test]
fn staged_perceptrons_train_the_same_and_copy_what_they_need() {
    for fast in ["network.fast=true", "network.fast=false"] {
        let (report, _dir) = staged_copies_twice(&mirror(), &[fast]);
        // 2 lanes of 3 features go up. Of 8 decisions and a bootstrap, values come down, and of the
        // decisions a mean for each lane and a log deviation.
        for found in column(&report, "uploaded_bytes_per_batch") {
            assert_eq!(found, 24.0);
        }
        let down = 4.0 * (9.0 * 2.0 + 8.0 * 3.0) / 9.0;
        for found in column(&report, "downloaded_bytes_per_batch") {
            assert!((found - down).abs() < 1e-9, "{found}, expected {down}");
        }
    }
    staged_is_the_same(
        &mirror(),
        &["normalize.observations=true", "rollout.mode=overlap"],
    );
}

#[test]
fn staged_convolutions_train_the_same() {
    staged_copies_twice(&mixed(), &["network.body=small-cnn"]);
    let normalized = ["network.body=small-cnn", "normalize.observations=true"];
    staged_is_the_same(&mixed(), &normalized);
}

#[test]
fn staged_memories_train_the_same() {
    for settings in [
        &["network.recurrent=lstm", "algo.sequence=4"][..],
        &["network.recurrent=gru", "network.fast=false"],
        // Batches of any lanes; with one thread they are the same in every run.
        &[
            "network.recurrent=lstm",
            "rollout.scheduler=first-ready",
            "rollout.max_batch=4",
            "rollout.groups=1",
            "rollout.envs_per_actor=2",
        ],
    ] {
        staged_copies_twice(&mirror(), settings);
    }
}

#[test]
fn bf16_acts_nearly_like_f32_and_is_trained_by_what_it_chose() {
    // Rows of the first update are chosen with the weights that it begins with.
    let one_update = ["steps=32", "network.inference_dtype=bf16"];
    for (spec, settings) in [
        (mirror(), &["normalize.observations=true"][..]),
        (mixed(), &["network.body=small-cnn", "staged=true"]),
    ] {
        let gaps = Arc::new(Mutex::new(vec![]));
        let spy = Spy::new({
            let gaps = Arc::clone(&gaps);
            move |cx, outputs| {
                let masks = cx.batch.masks.as_ref();
                let judged = cx.head.log_prob_entropy(outputs, &cx.batch.actions, masks);
                let of_chosen = judged.unwrap().0 - &cx.batch.old_log_probs;
                gaps.lock().unwrap().extend(floats(&of_chosen.detach()));
                let of_values = &outputs.value - &cx.batch.old_values;
                gaps.lock().unwrap().extend(floats(&of_values.detach()));
                1.0
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let run = trainer(&spec, &[&one_update, settings].concat())
            .run_dir(dir.path().join("run"))
            .algorithm(spy);
        run.build().unwrap().train().unwrap();
        let gaps = gaps.lock().unwrap();
        let largest = gaps.iter().fold(0.0f32, |most, gap| most.max(gap.abs()));
        assert_eq!(gaps.len(), 64);
        assert!(largest > 0.0 && largest < 0.05, "{largest} ({settings:?})");
    }
}
