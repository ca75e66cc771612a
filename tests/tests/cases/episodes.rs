//! What is counted: env steps, rows, episodes, returns.

use crate::{column, is_reward, metrics};
use hotloop::{Ended, TrainReport};
use hotloop_env::{End, EnvSpec};
use hotloop_tests::{Script, Spy, echo, trainer};
use std::sync::{Arc, Mutex};
use tch::Tensor;

fn train(spec: &EnvSpec, settings: &[&str]) -> TrainReport {
    let dir = tempfile::tempdir().unwrap();
    let run = trainer(spec, settings)
        .run_dir(dir.path().join("run"))
        .build()
        .unwrap();
    let report = run.train().unwrap();
    // Kept for the metrics; removed by the caller's next temporary directory or the system.
    let _ = dir.keep();
    report
}

#[test]
fn br_08_after_termination_every_row_counts() {
    // 4 lanes of 8 rows: 2 episodes of 3 steps and 2 steps of a third, without a row between.
    let report = train(&Script::count(3, End::Terminated).spec(), &["steps=96"]);
    assert_eq!(column(&report, "env_steps"), [32.0, 64.0, 96.0]);
    assert_eq!(column(&report, "rows"), [32.0; 3]);
    assert_eq!(column(&report, "episodes"), [8.0, 20.0, 32.0]);
    assert_eq!(
        (report.return_mean_100, report.ended),
        (Some(3.0), Ended::Finished)
    );
}

#[test]
fn br_09_final_observations_count_as_nothing() {
    // Each episode takes four rows, one of which is its final observation.
    let report = train(&Script::count(3, End::Truncated).spec(), &["steps=72"]);
    assert_eq!(column(&report, "env_steps"), [24.0, 48.0, 72.0]);
    assert_eq!(column(&report, "episodes"), [8.0, 16.0, 24.0]);
    assert_eq!(column(&report, "length_mean_100"), [3.0; 3]);
    assert_eq!(report.return_mean_100, Some(3.0));
}

#[test]
fn br_09_a_final_observation_may_fall_on_the_end_of_a_segment() {
    // Horizon 3: the final observation is the bootstrap row, and row 0 of the next segment, where it is
    // not trained on. Over four segments of three rows: 3, 2, 2, 2 valid ones in each of 4 lanes.
    let report = train(
        &Script::count(3, End::Truncated).spec(),
        &["rollout.horizon=3", "steps=36"],
    );
    assert_eq!(column(&report, "rows"), [12.0, 8.0, 8.0, 8.0]);
    assert_eq!(column(&report, "episodes"), [4.0, 4.0, 8.0, 12.0]);
    assert_eq!(report.return_mean_100, Some(3.0));
}

#[test]
fn br_09_the_rows_trained_on_are_those_of_the_episodes() {
    let seen = Arc::new(Mutex::new(vec![]));
    let spy = Spy::looking({
        let seen = Arc::clone(&seen);
        move |cx| seen.lock().unwrap().extend(floats(&cx.batch.observations))
    });
    let dir = tempfile::tempdir().unwrap();
    trainer(&Script::count(3, End::Truncated).spec(), &["steps=48"])
        .run_dir(dir.path().join("run"))
        .algorithm(spy)
        .build()
        .unwrap()
        .train()
        .unwrap();
    let mut seen = Arc::try_unwrap(seen).unwrap().into_inner().unwrap();
    seen.sort_by(f32::total_cmp);
    // Never 3, 13, 23, …: those are final.
    let episodes = (0..4).flat_map(|episode| (0..3).map(move |step| 10 * episode + step));
    let expected: Vec<f32> = episodes.flat_map(|n| [n as f32; 4]).collect();
    assert_eq!(seen, expected);
}

#[test]
fn br_13_a_limit_of_five_is_five_steps() {
    for (length, limit, steps) in [(10, 5, 5.0), (5, 10, 5.0), (5, 5, 5.0)] {
        let spec = Script::count(length, End::Truncated)
            .spec()
            .time_limit(limit);
        let report = train(&spec, &["rollout.horizon=12", "steps=100"]);
        assert_eq!(
            column(&report, "length_mean_100").pop(),
            Some(steps),
            "{length} {limit}"
        );
        assert_eq!(report.return_mean_100, Some(steps), "{length} {limit}");
        // One record of each episode: 4 lanes, 2 episodes of 5 + 1 rows in each of 3 segments.
        assert_eq!(report.episodes, 24, "{length} {limit}");
    }
}

#[test]
fn br_36_unfinished_episodes_go_on_across_updates() {
    // An episode of 20 steps spans three updates of 8.
    let report = train(&Script::count(20, End::Terminated).spec(), &["steps=320"]);
    let means: Vec<_> = metrics(&report)
        .iter()
        .map(|m| m["return_mean_100"].clone())
        .collect();
    assert!(means[0].is_null() && means[1].is_null(), "{means:?}");
    assert!(means[2..].iter().all(|mean| *mean == 20.0), "{means:?}");
    assert_eq!((report.episodes, report.env_steps), (16, 320));
}

#[test]
fn steps_stop_at_the_first_update_at_or_past_them() {
    let spec = Script::count(3, End::Terminated).spec();
    for (steps, expected) in [
        ("steps=1", 32),
        ("steps=32", 32),
        ("steps=33", 64),
        ("steps=64", 64),
    ] {
        assert_eq!(train(&spec, &[steps]).env_steps, expected, "{steps}");
    }
    // Only valid rows count: 24 an update.
    let spec = Script::count(3, End::Truncated).spec();
    for (steps, updates) in [("steps=24", 1), ("steps=25", 2)] {
        assert_eq!(train(&spec, &[steps]).updates, updates, "{steps}");
    }
}

#[test]
fn br_12_rewards_are_stored_as_f32_and_returns_summed_in_f64() {
    // 2^24 + 1 is not an f32: the learner sees 2^24, and the sum of four is right in f64.
    let spec = Script::new(&[16_777_217.0, 1.0, 1.0, 1.0]).spec();
    assert_eq!(
        train(&spec, &["steps=32"]).return_mean_100,
        Some(16_777_220.0)
    );
    let tenths = train(&Script::new(&[0.1; 10]).spec(), &["steps=100"]);
    assert!((tenths.return_mean_100.unwrap() - 1.0).abs() < 1e-7);
}

#[test]
fn br_11_every_row_has_the_reward_of_its_own_action() {
    for settings in [
        &["rollout.scheduler=first-ready", "rollout.max_batch=2"][..],
        &[
            "rollout.scheduler=first-ready",
            "rollout.max_batch=4",
            "rollout.mode=overlap",
        ],
        &["rollout.scheduler=lockstep", "rollout.mode=overlap"],
    ] {
        let seen = Arc::new(Mutex::new(vec![]));
        let spy = Spy::looking({
            let seen = Arc::clone(&seen);
            move |cx| {
                let observations = floats(&cx.batch.observations);
                let ids: Vec<_> = observations.chunks(2).map(|row| (row[0], row[1])).collect();
                let actions = Vec::<i32>::try_from(cx.batch.actions.reshape([-1])).unwrap();
                let rewards = floats(&cx.batch.targets);
                for ((id, action), reward) in ids.into_iter().zip(actions).zip(rewards) {
                    assert!(
                        is_reward(reward, action as f32),
                        "{id:?}: {action} {reward}"
                    );
                    seen.lock().unwrap().push((id.0 as u32, id.1 as u32));
                }
            }
        });
        let dir = tempfile::tempdir().unwrap();
        trainer(
            &echo(5, 0, 1),
            &[settings, &["rollout.envs_per_actor=1"]].concat(),
        )
        .run_dir(dir.path().join("run"))
        .algorithm(spy)
        .build()
        .unwrap()
        .train()
        .unwrap();
        let mut seen = Arc::try_unwrap(seen).unwrap().into_inner().unwrap();
        seen.sort_unstable();
        // One env was built to ask for the spaces; the four others made every step once.
        assert_eq!(seen.len(), 320, "{settings:?}");
        for own in seen.chunks(80) {
            let expected: Vec<_> = (0..80).map(|step| (own[0].0, step)).collect();
            assert_eq!(own, expected, "{settings:?}");
        }
    }
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    Vec::try_from(tensor.reshape([-1])).unwrap()
}

#[test]
fn br_19_logged_returns_are_raw_whatever_the_learner_sees() {
    let spec = Script::new(&[5.0, -3.0, 0.0, 10.0]).spec();
    for (shaping, learned) in [
        (
            &["env.clip_reward=[-1.0, 1.0]"][..],
            Some([1.0, -1.0, 0.0, 1.0]),
        ),
        (&["env.sign_reward=true"], Some([1.0, -1.0, 0.0, 1.0])),
        (&["normalize.rewards=true"], None),
        (
            &["normalize.rewards=true", "env.clip_reward=[-1.0, 1.0]"],
            None,
        ),
    ] {
        let seen = Arc::new(Mutex::new(vec![]));
        let spy = Spy::looking({
            let seen = Arc::clone(&seen);
            move |cx| {
                let step = floats(&cx.batch.observations);
                let rewards = floats(&cx.batch.targets);
                seen.lock().unwrap().extend(step.into_iter().zip(rewards));
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let report = trainer(
            &spec,
            &[shaping, &["eval.every=2", "eval.episodes=3"]].concat(),
        )
        .run_dir(dir.path().join("run"))
        .algorithm(spy)
        .build()
        .unwrap()
        .train()
        .unwrap();
        assert_eq!(report.return_mean_100, Some(12.0), "{shaping:?}");
        assert_eq!(report.best_return, Some(12.0), "{shaping:?}");
        for line in metrics(&report) {
            assert_eq!(
                (&line["return_mean_100"], &line["length_mean_100"]),
                (&12.0.into(), &4.0.into())
            );
            if line["update"].as_u64().unwrap() % 2 == 0 {
                assert_eq!(
                    line["evaluation"]["return_mean"], 12.0,
                    "{shaping:?}: {line}"
                );
            }
        }
        if let Some(learned) = learned {
            for (observation, reward) in seen.lock().unwrap().iter() {
                let expected = learned[*observation as usize % 10];
                assert!(
                    is_reward(*reward, expected),
                    "{shaping:?}: {reward} {expected}"
                );
            }
        }
    }
}
