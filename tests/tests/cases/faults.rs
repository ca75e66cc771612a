//! Environments and gradients that fail.

use crate::{column, holds, last, metrics};
use hotloop::{Ended, Error, TrainReport};
use hotloop_env::{End, EnvError};
use hotloop_learn::LearnError;
use hotloop_tests::{Moment, Phase, Script, Spy, Twist, continued, trainer};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Episodes of 20 steps; lane 3 does something else at step 10 of its first episode.
fn broken(
    phase: Phase,
    what: impl Fn() -> Result<Twist, EnvError> + Send + Sync + 'static,
) -> Script {
    Script::count(20, End::Terminated).hooked(move |now| {
        if now.phase == phase && (now.lane, now.episode, now.step) == (3, 0, 10) {
            what()
        } else {
            Ok(Twist::None)
        }
    })
}

fn train(script: Script, settings: &[&str]) -> Result<TrainReport, Error> {
    let dir = tempfile::tempdir().unwrap().keep();
    trainer(&script.spec(), settings)
        .run_dir(dir.join("run"))
        .build()?
        .train()
}

fn boom() -> Result<Twist, EnvError> {
    panic!("boom-42")
}

fn refused() -> Result<Twist, EnvError> {
    Err("lost the game".into())
}

fn infinite() -> Result<Twist, EnvError> {
    Ok(Twist::Reward(f64::INFINITY))
}

fn nan() -> Result<Twist, EnvError> {
    Ok(Twist::Observation(vec![f32::NAN]))
}

fn two_values() -> Result<Twist, EnvError> {
    Ok(Twist::Observation(vec![0.0, 0.0]))
}

type Mishap = fn() -> Result<Twist, EnvError>;

/// What happens, where, at which step it is reported, and what the message says. What an observation
/// shows was made by the step before.
const MISHAPS: [(Phase, Mishap, &str, &[&str]); 6] = [
    (Phase::Step, boom, "step 10", &["panicked", "boom-42"]),
    (
        Phase::Step,
        refused,
        "step 10",
        &["failed", "lost the game"],
    ),
    (
        Phase::Step,
        infinite,
        "step 10",
        &["reward inf is not finite"],
    ),
    (Phase::Observe, nan, "step 9", &["NaN"]),
    (Phase::Observe, boom, "step 9", &["panicked", "boom-42"]),
    (
        Phase::Observe,
        two_values,
        "step 9",
        &["got 2 values, expected 1"],
    ),
];

#[test]
fn br_44_with_fail_the_run_ends_and_names_lane_step_and_cause() {
    for (phase, what, step, parts) in MISHAPS {
        let error = train(broken(phase, what), &["rollout.on_fault=fail"]).unwrap_err();
        assert!(!error.is_usage());
        holds(&error.to_string(), &["lane 3", step]);
        holds(&error.to_string(), parts);
    }
}

#[test]
fn br_44_with_restart_one_row_of_one_lane_is_lost() {
    for (phase, what, ..) in MISHAPS {
        for scheduler in [
            "rollout.scheduler=lockstep",
            "rollout.scheduler=first-ready",
        ] {
            let report = train(broken(phase, what), &["steps=319", scheduler]).unwrap();
            assert_eq!(
                (report.faults, report.ended),
                (1, Ended::Finished),
                "{phase:?}"
            );
            // Ten updates of 32 rows in which one is not valid: 319.
            assert_eq!((report.env_steps, report.updates), (319, 10), "{phase:?}");
            assert_eq!(column(&report, "rows")[1], 31.0, "{phase:?}");
            // The unfinished episode is no episode: 3 lanes have 4, and lane 3 has 3 after the 11 rows.
            assert_eq!(
                (report.episodes, report.return_mean_100),
                (15, Some(20.0)),
                "{phase:?}"
            );
        }
    }
}

#[test]
fn br_44_a_row_lost_to_a_failure_is_not_trained_on() {
    let seen = Arc::new(Mutex::new(vec![]));
    let spy = Spy::looking({
        let seen = Arc::clone(&seen);
        move |cx| {
            let rows = Vec::<f32>::try_from(cx.batch.observations.reshape([-1])).unwrap();
            seen.lock().unwrap().extend(rows);
        }
    });
    let dir = tempfile::tempdir().unwrap();
    trainer(&broken(Phase::Step, boom).spec(), &["steps=63"])
        .run_dir(dir.path().join("run"))
        .algorithm(spy)
        .build()
        .unwrap()
        .train()
        .unwrap();
    let seen = seen.lock().unwrap();
    let count = |observation| seen.iter().filter(|o| **o == observation).count();
    // Lane 3 begins its second episode, which observes 10 first, where the others go on to 15.
    assert_eq!(
        (count(9.0), count(10.0), count(14.0), count(15.0)),
        (4, 4, 4, 3)
    );
    assert_eq!(seen.len(), 63);
}

#[test]
fn br_44_failures_to_build_or_to_reset_are_named() {
    let build = Script::count(5, End::Terminated).hooked(|now| match now.phase {
        Phase::Build => Err("no licence".into()),
        _ => Ok(Twist::None),
    });
    holds(
        &train(build, &[]).unwrap_err().to_string(),
        &["Script-v0", "no licence"],
    );

    let reset = |first: usize| {
        Script::count(5, End::Terminated).hooked(move |now| {
            if now.phase == Phase::Reset && (first..=2).contains(&now.lane) {
                panic!("boom-42");
            }
            Ok(Twist::None)
        })
    };
    let causes = ["step 0", "reset panicked", "boom-42"];
    let error = train(reset(2), &["rollout.on_fault=fail"]).unwrap_err();
    holds(&error.to_string(), &["lane 2"]);
    holds(&error.to_string(), &causes);
    // With a limit, lanes are set aside until only one of four is left.
    let error = train(reset(0), &["rollout.max_failures_in_a_row=3"]).unwrap_err();
    holds(&error.to_string(), &["1 of 4 environments are left"]);
    holds(&error.to_string(), &causes);
}

#[test]
fn br_44_a_lane_that_always_fails_is_set_aside_and_the_run_goes_on() {
    for scheduler in ["lockstep", "first-ready"] {
        let script = Script::count(5, End::Terminated).hooked(|now| {
            if (now.phase, now.lane) == (Phase::Reset, 2) {
                panic!("boom-42");
            }
            Ok(Twist::None)
        });
        let settings = [
            "rollout.max_failures_in_a_row=3",
            "rollout.backoff=0.001",
            &format!("rollout.scheduler={scheduler}"),
        ];
        let report = train(script, &settings).unwrap();
        // 24 of 32 rows an update are left, until 320 are made.
        assert_eq!((report.env_steps, report.updates), (336, 14), "{scheduler}");
        assert_eq!(report.faults, 4, "{scheduler}");
        assert_eq!(report.return_mean_100, Some(5.0));
    }
}

#[test]
fn br_44_failures_now_and_then_are_counted_and_the_run_goes_on() {
    let steps = AtomicUsize::new(0);
    let flaky = Script::count(7, End::Truncated).hooked(move |now| {
        let fails = now.phase == Phase::Step && steps.fetch_add(1, Ordering::Relaxed) % 50 == 49;
        if fails {
            panic!("boom")
        } else {
            Ok(Twist::None)
        }
    });
    let report = train(flaky, &["steps=1000", "rollout.mode=overlap"]).unwrap();
    assert_eq!(report.ended, Ended::Finished);
    assert!(report.faults >= 20, "{report:?}");
    assert_eq!(column(&report, "faults").pop(), Some(report.faults as f64));
    assert_eq!(report.return_mean_100, Some(7.0));
}

#[test]
fn br_41_a_wrong_shape_is_found_before_anything_is_trained() {
    let wrong =
        Script::count(5, End::Terminated).hooked(|_: &Moment| Ok(Twist::Observation(vec![0.0; 5])));
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let error = trainer(&wrong.spec(), &["rollout.horizon=16"])
        .run_dir(&run)
        .build()
        .unwrap()
        .train()
        .unwrap_err();
    holds(
        &error.to_string(),
        &["lane ", "got 5 values, expected 1", "shape [1] of float32"],
    );
    assert_eq!(
        std::fs::read_to_string(run.join("metrics.jsonl")).unwrap(),
        ""
    );
}

/// Spoils the loss of updates `first..first + n`.
fn spoil(first: u64, n: u64, with: f64) -> Spy {
    Spy::new(move |cx, _| {
        let spoilt = (first..first + n).contains(&cx.progress.update);
        if spoilt { with } else { 1.0 }
    })
}

#[test]
fn br_29_a_gradient_that_is_not_finite_is_skipped_and_counted() {
    for with in [f64::NAN, f64::INFINITY] {
        let dir = tempfile::tempdir().unwrap();
        let report = trainer(
            &Script::count(5, End::Terminated).spec(),
            &["checkpoint.every=1"],
        )
        .run_dir(dir.path().join("run"))
        .algorithm(spoil(3, 2, with))
        .build()
        .unwrap()
        .train()
        .unwrap();
        assert_eq!(report.ended, Ended::Finished);
        let skipped = column(&report, "skipped");
        assert_eq!(skipped, [0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
        // JSON has no NaN, and every line is an object all the same.
        assert!(metrics(&report)[3]["grad_norm"].is_null());
    }
}

#[test]
fn br_29_a_skipped_update_changes_no_weight() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Script::count(5, End::Terminated).spec();
    let hash = |name: &str, steps: &str| {
        let run = trainer(&spec, &[steps]).run_dir(dir.path().join(name));
        run.algorithm(spoil(2, 5, f64::NAN))
            .build()
            .unwrap()
            .train()
            .unwrap()
            .weights_hash
    };
    let before = hash("a", "steps=64");
    assert_eq!(before, hash("b", "steps=96"));
    assert_eq!(before, hash("c", "steps=224"));
    assert_ne!(before, hash("d", "steps=256"));
}

#[test]
fn br_29_too_many_skips_end_the_run_and_the_last_good_weights_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (spec, run) = (
        Script::count(5, End::Terminated).spec(),
        dir.path().join("run"),
    );
    let settings = ["checkpoint.every=1", "algo.max_skipped_updates=3"];
    let trainer = trainer(&spec, &settings)
        .run_dir(&run)
        .algorithm(spoil(4, 100, f64::NAN));
    let error = trainer.build().unwrap().train().unwrap_err();
    assert!(
        matches!(error, Error::Learn(LearnError::Diverged { .. })),
        "{error}"
    );
    assert!(!error.is_usage());

    let saved = last(&run);
    for tensor in saved.tensors() {
        if let hotloop_learn::checkpoint::TensorData::F32(values) = &tensor.data {
            assert!(values.iter().all(|x| x.is_finite()), "{}", tensor.name);
        }
    }
    // 4 good updates, 3 that were skipped; the fourth skip was one too many.
    assert_eq!(saved.state["updates"], 7);
    let report = continued(&spec, &run, &[])
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert_eq!((report.ended, report.updates), (Ended::Finished, 10));
}

#[test]
fn br_29_weights_that_are_not_finite_are_never_saved() {
    // A learning rate that throws the weights out of range with finite gradients.
    let dir = tempfile::tempdir().unwrap();
    let (spec, run) = (
        Script::count(5, End::Terminated).spec(),
        dir.path().join("run"),
    );
    let settings = [
        "checkpoint.every=1",
        "algo.learning_rate=1e38",
        "steps=3200",
    ];
    let outcome = trainer(&spec, &settings)
        .run_dir(&run)
        .build()
        .unwrap()
        .train();
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("finite"), "{error}");
    let names = std::fs::read_dir(run.join("checkpoints")).unwrap();
    let names: Vec<_> = names.map(|f| f.unwrap().file_name()).collect();
    if names.iter().any(|name| name == "last.json") {
        last(&run);
    }
}

#[test]
fn br_29_a_run_that_diverges_keeps_the_checkpoint_before() {
    let dir = tempfile::tempdir().unwrap();
    let (spec, run) = (
        Script::count(5, End::Terminated).spec(),
        dir.path().join("run"),
    );
    let first = trainer(&spec, &[]).run_dir(&run).build().unwrap();
    let before = first.train().unwrap();
    // Weights that are finite, but give nothing that is.
    let settings = ["algo.learning_rate=1e37", "steps=3200"];
    let outcome = continued(&spec, &run, &settings).build().unwrap().train();
    let error = outcome.unwrap_err();
    assert!(!error.is_usage(), "{error}");
    let kept = &last(&run).state;
    assert_eq!(kept["env_steps"], before.env_steps, "{error}");
    let settings = ["algo.learning_rate=1e-3", "steps=640"];
    let on = continued(&spec, &run, &settings).build().unwrap();
    assert_eq!(on.train().unwrap().ended, Ended::Finished);
}

#[test]
fn br_49_a_learner_that_panics_takes_everybody_with_it() {
    for at in 0..12 {
        let calls = Arc::new(AtomicU64::new(0));
        let spy = Spy::looking(|_| ()).at_begin({
            let calls = Arc::clone(&calls);
            move || {
                if calls.fetch_add(1, Ordering::Relaxed) == at {
                    panic!("the learner fell over");
                }
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let run = trainer(
            &Script::count(5, End::Truncated).spec(),
            &["rollout.mode=overlap"],
        )
        .run_dir(dir.path().join("run"))
        .algorithm(spy)
        .build()
        .unwrap();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.train()));
        let message = caught.unwrap_err();
        assert_eq!(
            message.downcast_ref(),
            Some(&"the learner fell over"),
            "update {at}"
        );
    }
}

#[test]
fn br_49_a_shard_that_panics_ends_the_run_by_name() {
    let spy = Spy::looking(|cx| assert!(cx.progress.update < 3, "shard-7 fell over"));
    let dir = tempfile::tempdir().unwrap();
    let error = trainer(
        &Script::count(5, End::Truncated).spec(),
        &["rollout.mode=overlap"],
    )
    .run_dir(dir.path().join("run"))
    .algorithm(spy)
    .build()
    .unwrap()
    .train()
    .unwrap_err();
    holds(&error.to_string(), &["shard", "shard-7 fell over"]);
}
