//! Running statistics: what changes them, what does not, and that they are saved whole.

use crate::{column, holds, is_reward, last};
use hotloop::env::Registry;
use hotloop::{Agent, Choice, EvalPlan, TrainReport, Which};
use hotloop_env::{End, EnvSpec};
use hotloop_learn::checkpoint::Snapshot;
use hotloop_tests::{Script, Spy, Watch, continued, mirror, trainer};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

const BOTH: [&str; 2] = ["normalize.observations=true", "normalize.rewards=true"];

fn registry(spec: &EnvSpec) -> Registry {
    let mut registry = Registry::new();
    registry.add(spec.clone());
    registry
}

fn train(spec: &EnvSpec, dir: &Path, settings: &[&str]) -> TrainReport {
    let all = [&BOTH[..], settings].concat();
    trainer(spec, &all)
        .run_dir(dir)
        .build()
        .unwrap()
        .train()
        .unwrap()
}

/// Count, mean and sum of squares of the observations.
fn observations(saved: &Snapshot, features: usize) -> (u64, Vec<f64>, Vec<f64>) {
    let f64s = |part: &str| {
        saved
            .f64s(&format!("normalize.observations.{part}"), &[features])
            .unwrap()
            .to_vec()
    };
    let count = saved.u64s("normalize.observations.count", &[1]).unwrap()[0];
    (count, f64s("mean"), f64s("m2"))
}

#[test]
fn br_18_statistics_are_of_the_valid_rows_alone() {
    // Episodes of 3 steps and a final observation: rows 0, 1, 2 and 10, 11, 12 in each of 4 lanes.
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    train(
        &Script::count(3, End::Truncated).spec(),
        &run,
        &["steps=24"],
    );
    let (count, mean, m2) = observations(&last(&run), 1);
    assert_eq!(count, 24);
    // Mean (3 + 33) / 6; squares around it 36 + 25 + 16 + 16 + 25 + 36 in each lane.
    assert!((mean[0] - 6.0).abs() < 1e-9, "{mean:?}");
    assert!((m2[0] - 4.0 * 154.0).abs() < 1e-6, "{m2:?}");

    // One more batch of the same run: 24 rows more, not a new count.
    continued(
        &Script::count(3, End::Truncated).spec(),
        &run,
        &["steps=48"],
    )
    .build()
    .unwrap()
    .train()
    .unwrap();
    assert_eq!(observations(&last(&run), 1).0, 48);
}

#[test]
fn br_18_evaluation_during_training_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let spec = mirror();
    let without = train(&spec, &dir.path().join("a"), &[]);
    let with = train(
        &spec,
        &dir.path().join("b"),
        &["eval.every=1", "eval.episodes=7"],
    );
    assert_eq!(without.weights_hash, with.weights_hash);
    let (a, b) = (last(&dir.path().join("a")), last(&dir.path().join("b")));
    assert_eq!(observations(&a, 3), observations(&b, 3));
    assert!(with.best_return.is_some() && without.best_return.is_none());
}

#[test]
fn br_18_br_57_every_way_to_evaluate_acts_alike_to_the_bit_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let spec = mirror();
    // What the policy in training makes of 25 fixed observations after its 20th update …
    let seen = Arc::new(Mutex::new(None));
    let settings = [
        "steps=600",
        "eval.every=20",
        "eval.episodes=4",
        "eval.envs=3",
    ];
    let report = trainer(&spec, &[&BOTH[..], &settings].concat())
        .run_dir(&run)
        .sink(Watch({
            let seen = Arc::clone(&seen);
            move |update: &hotloop_telemetry::Update| {
                if let Some(evaluation) = update.evaluation {
                    *seen.lock().unwrap() = Some((update.update, evaluation.return_mean));
                }
            }
        }))
        .build()
        .unwrap()
        .train()
        .unwrap();
    let (update, trained) = seen.lock().unwrap().unwrap();
    assert_eq!((update, report.updates), (20, 20));
    assert!(trained != 0.0 && trained.is_finite());

    // … an agent in this process makes of them, one env or many, last or best …
    let before = std::fs::read(run.join("checkpoints/last.json")).unwrap();
    let plan = |choice| EvalPlan {
        episodes: 4,
        seed: 1,
        choice,
    };
    let agent = |which| Agent::load(&run, &registry(&spec), which, "cpu").unwrap();
    for envs in [1, 4] {
        for which in [Which::Last, Which::Best] {
            let mut agent = agent(which);
            for _ in 0..2 {
                let report = agent.evaluate(plan(Choice::Greedy), envs).unwrap();
                assert_eq!(
                    report.return_mean.to_bits(),
                    trained.to_bits(),
                    "{envs} {which:?}"
                );
            }
        }
    }
    let sampled = agent(Which::Last)
        .evaluate(plan(Choice::Sample), 2)
        .unwrap();
    assert_ne!(sampled.return_mean, trained);

    // … and so does the command line in another process.
    let program = |extra: &[&str]| -> serde_json::Value {
        let output = Command::new(env!("CARGO_BIN_EXE_hotloop-toys"))
            .args([
                "eval",
                run.to_str().unwrap(),
                "--episodes",
                "4",
                "--seed",
                "1",
                "--json",
            ])
            .args(extra)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let bits = |value: &serde_json::Value| value["return_mean"].as_f64().unwrap().to_bits();
    assert_eq!(bits(&program(&[])), trained.to_bits());
    assert_eq!(bits(&program(&["--best"])), trained.to_bits());
    assert_eq!(
        bits(&program(&["--sampled"])),
        sampled.return_mean.to_bits()
    );

    assert_eq!(
        std::fs::read(run.join("checkpoints/last.json")).unwrap(),
        before
    );
}

#[test]
fn br_57_statistics_go_on_from_where_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let spec = Script::new(&[1.0, -2.0, 4.0, 0.5, 3.0]).spec();
    train(&spec, &a, &["steps=608"]);
    train(&spec, &b, &["steps=256"]);
    let halfway = last(&b);
    continued(&spec, &b, &["steps=608"])
        .build()
        .unwrap()
        .train()
        .unwrap();
    let (whole, resumed) = (last(&a), last(&b));
    assert_eq!(observations(&whole, 1), observations(&resumed, 1));
    assert_eq!(
        (observations(&halfway, 1).0, observations(&resumed, 1).0),
        (256, 608)
    );
    for name in ["mean", "m2"] {
        let name = format!("normalize.returns.{name}");
        assert_eq!(
            whole.f64s(&name, &[1]).unwrap(),
            resumed.f64s(&name, &[1]).unwrap()
        );
    }
    let lanes = |saved: &Snapshot| {
        saved
            .f64s("normalize.returns.lanes", &[4])
            .unwrap()
            .to_vec()
    };
    assert_eq!(lanes(&whole), lanes(&resumed));
    assert_ne!(lanes(&whole), lanes(&halfway));
}

#[test]
fn br_57_a_checkpoint_without_statistics_does_not_load_into_a_run_that_needs_them() {
    let dir = tempfile::tempdir().unwrap();
    let (run, spec) = (dir.path().join("run"), mirror());
    let without = trainer(&spec, &["steps=64"]).run_dir(&run).build().unwrap();
    without.train().unwrap();
    for (key, tensor) in [
        (
            "normalize.observations=true",
            "normalize.observations.count",
        ),
        ("normalize.rewards=true", "normalize.returns"),
    ] {
        let error = continued(&spec, &run, &[key])
            .build()
            .err()
            .unwrap()
            .to_string();
        holds(&error, &[tensor, "found no such tensor"]);
    }
}

#[test]
fn br_57_a_checkpoint_with_statistics_does_not_load_into_a_run_without() {
    let dir = tempfile::tempdir().unwrap();
    let (run, spec) = (dir.path().join("run"), mirror());
    train(&spec, &run, &["steps=64"]);
    for (key, part) in [
        ("normalize.observations=false", "normalize.observations"),
        ("normalize.rewards=false", "normalize.rewards"),
    ] {
        let error = continued(&spec, &run, &[key])
            .build()
            .err()
            .unwrap()
            .to_string();
        holds(&error, &[part, "false"]);
    }
}

#[test]
fn br_16_all_rows_of_an_update_have_one_reward_scale() {
    // The reward is always 1, so that a row's target (the discount of the spy is 0) is the scale itself.
    let seen = Arc::new(Mutex::new(vec![]));
    let spy = Spy::looking({
        let seen = Arc::clone(&seen);
        move |cx| {
            let rewards = Vec::<f32>::try_from(&cx.batch.targets).unwrap();
            seen.lock()
                .unwrap()
                .push((cx.progress.update as usize, rewards));
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "normalize.rewards=true",
        "algo.epochs=3",
        "algo.minibatches=2",
    ];
    let report = trainer(&Script::count(9, End::Truncated).spec(), &settings)
        .run_dir(dir.path().join("run"))
        .algorithm(spy)
        .build()
        .unwrap()
        .train()
        .unwrap();
    let scales = column(&report, "reward_scale");
    // Nothing is known before the first update; then the scale follows the deviation of returns.
    assert_eq!(scales[0], 1.0);
    assert!(
        scales[1..].windows(2).all(|pair| pair[0] != pair[1]),
        "{scales:?}"
    );
    for (update, rewards) in seen.lock().unwrap().iter() {
        let scale = scales[*update] as f32;
        assert!(
            rewards.iter().all(|r| is_reward(*r, scale)),
            "{update} {scale}: {rewards:?}"
        );
    }
}

#[test]
fn returns_start_anew_with_lanes_that_do() {
    // The reward is always 1, no episode ends and nothing is discounted: what all lanes have gathered is
    // the number of rows since they started, and asynchronous runs keep no lanes. No row is too old, which
    // would cut a return.
    let dir = tempfile::tempdir().unwrap();
    let (spec, path) = (
        Script::count(100_000, End::Truncated).spec(),
        dir.path().join("run"),
    );
    let settings = [
        "rollout.mode=async",
        "rollout.max_staleness=63",
        "normalize.rewards=true",
        "algo.gamma=1",
    ];
    let gathered = || {
        let snapshot = last(&path);
        snapshot
            .f64s("normalize.returns.lanes", &[4])
            .unwrap()
            .iter()
            .sum::<f64>()
    };
    let first = train(&spec, &path, &settings);
    assert_eq!(gathered(), first.env_steps as f64);
    let resumed = continued(&spec, &path, &["steps=400"]).build().unwrap();
    let resumed = resumed.train().unwrap();
    assert!(resumed.env_steps > first.env_steps);
    assert_eq!(gathered(), (resumed.env_steps - first.env_steps) as f64);
}

#[test]
fn br_14f_rows_are_normalized_with_the_statistics_of_the_version_that_acted() {
    // A learning rate too small to change a weight: versions differ in their statistics alone, and the
    // ratio is 1 only where the learner normalizes as the rollout did.
    for settings in [
        &["rollout.mode=sync"][..],
        &["rollout.mode=overlap"],
        &["rollout.mode=overlap", "checkpoint.every=3"],
        &["rollout.mode=overlap", "network.fast=false"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let still = ["algo.learning_rate=1e-45"];
        let report = train(
            &mirror(),
            &dir.path().join("run"),
            &[&still, settings].concat(),
        );
        let kl = column(&report, "approx_kl");
        assert!(kl.iter().all(|kl| kl.abs() < 1e-9), "{settings:?}: {kl:?}");
    }
}

#[test]
fn br_57_an_overlapped_run_that_stops_at_once_resumes_with_the_right_statistics() {
    for at in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let (spec, path) = (mirror(), dir.path().join("run"));
        let overlap = ["rollout.mode=overlap"];
        let whole = train(&spec, &dir.path().join("whole"), &overlap);
        let stop = hotloop::StopHandle::new();
        let watch = Watch({
            let stop = stop.clone();
            // The last update but one: in overlap mode the round that steps already is trained on.
            move |update: &hotloop_telemetry::Update| {
                if update.update == at {
                    stop.stop();
                }
            }
        });
        let first = trainer(&spec, &[&BOTH[..], &overlap].concat()).run_dir(&path);
        let first = first
            .stop(stop)
            .sink(watch)
            .build()
            .unwrap()
            .train()
            .unwrap();
        assert!(first.updates < whole.updates);
        let resumed = continued(&spec, &path, &[])
            .build()
            .unwrap()
            .train()
            .unwrap();
        assert_eq!(resumed.weights_hash, whole.weights_hash, "{at}");
    }
}

#[test]
fn br_14e_a_constant_feature_is_shown_as_zero() {
    let constant = Script::count(5, End::Terminated)
        .hooked(|_| Ok(hotloop_tests::Twist::Observation(vec![12_345.678])))
        .spec();
    let seen = Arc::new(Mutex::new(vec![]));
    let spy = Spy::looking({
        let seen = Arc::clone(&seen);
        move |cx| {
            let rows = Vec::<f32>::try_from(cx.batch.observations.reshape([-1])).unwrap();
            seen.lock().unwrap().push(rows);
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let run = trainer(&constant, &["normalize.observations=true"]).run_dir(dir.path().join("run"));
    run.algorithm(spy).build().unwrap().train().unwrap();
    let seen = seen.lock().unwrap();
    // Nothing is known at first but the clip.
    assert!(seen[0].iter().all(|x| *x == 10.0));
    assert!(seen[1..].iter().flatten().all(|x| *x == 0.0), "{seen:?}");
}
