//! Spaces of all kinds from the environment to the network and back.

use crate::{holds, is_reward};
use hotloop_env::{
    ActionView, BoxSpace, DType, Discrete, End, Env, EnvError, EnvRng, EnvSpec, MultiDiscrete,
    ObservationMut, ResetCtx, Space, Transition,
};
use hotloop_tests::{Script, Spy, echo, masked, picture, trainer};
use std::sync::{Arc, Mutex};
use tch::Tensor;

fn floats(tensor: &Tensor) -> Vec<f32> {
    Vec::try_from(tensor.reshape([-1])).unwrap()
}

/// The observations, as the network sees them, of all rows trained on.
fn network_sees(spec: &EnvSpec, settings: &[&str]) -> Vec<Vec<f32>> {
    let seen = Arc::new(Mutex::new(vec![]));
    let spy = Spy::looking({
        let seen = Arc::clone(&seen);
        move |cx| {
            let width = cx.batch.observations.size()[1] as usize;
            let all = floats(&cx.batch.observations);
            seen.lock()
                .unwrap()
                .extend(all.chunks(width).map(<[f32]>::to_vec));
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let run = trainer(spec, settings)
        .run_dir(dir.path().join("run"))
        .algorithm(spy);
    run.build().unwrap().train().unwrap();
    Arc::try_unwrap(seen).unwrap().into_inner().unwrap()
}

#[test]
fn br_41_an_image_reaches_the_network_channels_first_and_scaled_once() {
    let expected: Vec<f32> = [0, 10, 100, 110, 1, 11, 101, 111, 2, 12, 102, 112]
        .map(|byte| byte as f32 / 255.0)
        .to_vec();
    let seen = network_sees(&picture(), &["steps=64"]);
    assert_eq!(seen.len(), 64);
    for row in &seen {
        assert_eq!(row.len(), 12);
        for (got, want) in row.iter().zip(&expected) {
            assert!((got - want).abs() < 1e-7, "{row:?}");
        }
    }
}

#[test]
fn br_34_a_frame_stack_starts_anew_with_every_episode() {
    for (end, settings) in [
        (End::Terminated, &["rollout.mode=sync"][..]),
        (End::Truncated, &["rollout.scheduler=first-ready"]),
    ] {
        let settings = [settings, &["env.frame_stack=3", "steps=96"]].concat();
        let seen = network_sees(&Script::count(3, end).spec(), &settings);
        for row in &seen {
            // The newest of episode e and step t; those before it never reach into episode e − 1.
            let newest = row[2];
            let first = (newest / 10.0).floor() * 10.0;
            let expected = [(newest - 2.0).max(first), (newest - 1.0).max(first), newest];
            assert_eq!(*row, expected, "{end:?}");
        }
        assert!(seen.iter().any(|row| *row == [10.0, 11.0, 12.0]), "{end:?}");
    }
}

#[test]
fn br_38_an_action_space_may_start_anywhere() {
    let received = Arc::new(Mutex::new(vec![]));
    let spy = Spy::looking({
        let received = Arc::clone(&received);
        move |cx| {
            let actions = Vec::<i32>::try_from(cx.batch.actions.reshape([-1])).unwrap();
            // The target is the reward, which is the action as the environment received it.
            received
                .lock()
                .unwrap()
                .extend(actions.into_iter().zip(floats(&cx.batch.targets)));
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let run = trainer(&echo(3, -1, 0), &[])
        .run_dir(dir.path().join("run"))
        .algorithm(spy);
    run.build().unwrap().train().unwrap();
    let received = received.lock().unwrap();
    assert!(
        received
            .iter()
            .all(|(index, value)| is_reward(*value, *index as f32 - 1.0))
    );
    for index in 0..3 {
        assert!(
            received.iter().any(|(i, _)| *i == index),
            "{index} is never chosen"
        );
    }
}

/// A nested observation and several choices; the reward is the sum of the values received.
struct Nested {
    t: i64,
}

impl Env for Nested {
    fn observation_space(&self) -> Space {
        Space::dict([
            (
                "at",
                Space::Discrete(Discrete {
                    n: 19,
                    start: 2,
                    masked: false,
                }),
            ),
            ("empty", Space::unbounded(&[0])),
            (
                "xy",
                Space::Tuple(vec![Space::unbounded(&[2]), Space::multi_binary(2)]),
            ),
        ])
    }
    fn action_space(&self) -> Space {
        Space::MultiDiscrete(MultiDiscrete {
            sizes: vec![2, 3],
            start: vec![10, -1],
            masked: false,
        })
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.t = 2;
        Ok(())
    }
    fn step(&mut self, action: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        self.t += 1;
        let reward = action.discretes().sum::<i64>() as f64;
        Ok(if self.t == 21 {
            Transition::terminated(reward)
        } else {
            Transition::running(reward)
        })
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        if self.t == 21 {
            return Err(EnvError::new("never observed"));
        }
        out.key("at")?.write_discrete(self.t)?;
        out.key("empty")?.write::<f32>(&[])?;
        out.key("xy/0")?.write(&[0.25f64, -4.0])?;
        out.key("xy/1")?.write(&[1u8, 0])
    }
}

#[test]
fn br_38_br_43_nested_spaces_reach_the_network_one_hot_from_their_start() {
    let spec = EnvSpec::new("Nested-v0", |_| Ok(Nested { t: 2 }));
    let seen = network_sees(&spec, &["rollout.horizon=20"]);
    let mut hot_at = [0; 19];
    for row in &seen {
        assert_eq!(row.len(), 19 + 2 + 2);
        let hot: Vec<usize> = (0..19).filter(|i| row[*i] == 1.0).collect();
        assert_eq!(hot.len(), 1, "{row:?}");
        hot_at[hot[0]] += 1;
        assert_eq!(row[19..], [0.25, -4.0, 1.0, 0.0]);
    }
    assert!(hot_at.iter().all(|n| *n > 0), "{hot_at:?}");
}

#[test]
fn br_25_several_choices_at_once_are_received_with_their_starts() {
    let spec = EnvSpec::new("Nested-v0", |_| Ok(Nested { t: 2 }));
    let rows = Arc::new(Mutex::new(vec![]));
    let spy = Spy::looking({
        let rows = Arc::clone(&rows);
        move |cx| {
            assert_eq!(cx.batch.old_log_probs.size(), [cx.batch.rows()]);
            let actions = Vec::<i32>::try_from(cx.batch.actions.reshape([-1])).unwrap();
            let pairs = actions.chunks(2).map(|pair| pair[0] + pair[1]);
            rows.lock()
                .unwrap()
                .extend(pairs.zip(floats(&cx.batch.targets)));
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let run = trainer(&spec, &[])
        .run_dir(dir.path().join("run"))
        .algorithm(spy);
    run.build().unwrap().train().unwrap();
    let rows = rows.lock().unwrap();
    assert!(!rows.is_empty());
    assert!(
        rows.iter()
            .all(|(sum, reward)| is_reward(*reward, (sum + 9) as f32))
    );
}

#[test]
fn br_38_an_observation_outside_its_space_is_an_error_that_names_it() {
    struct Outside;
    impl Env for Outside {
        fn observation_space(&self) -> Space {
            Space::Discrete(Discrete {
                n: 19,
                start: 2,
                masked: false,
            })
        }
        fn action_space(&self) -> Space {
            Space::discrete(2)
        }
        fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
            Ok(())
        }
        fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
            Ok(Transition::running(0.0))
        }
        fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
            out.write_discrete(21)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let spec = EnvSpec::new("Outside-v0", |_| Ok(Outside));
    let run = trainer(&spec, &[])
        .run_dir(dir.path().join("run"))
        .build()
        .unwrap();
    holds(
        &run.train().unwrap_err().to_string(),
        &["lane ", "21", "2..=20"],
    );
}

#[test]
fn br_22_masks_stay_with_their_rows_from_rollout_to_update() {
    for mode in ["rollout.mode=sync", "rollout.mode=overlap"] {
        let rows = Arc::new(Mutex::new(0));
        let spy = Spy::looking({
            let rows = Arc::clone(&rows);
            move |cx| {
                let masks =
                    Vec::<u8>::try_from(cx.batch.masks.as_ref().unwrap().reshape([-1])).unwrap();
                let actions = Vec::<i32>::try_from(cx.batch.actions.reshape([-1])).unwrap();
                let forbidden = floats(&cx.batch.observations);
                for ((mask, action), forbidden) in masks.chunks(3).zip(actions).zip(forbidden) {
                    let mut expected = [1; 3];
                    expected[forbidden as usize] = 0;
                    assert_eq!(mask, expected);
                    assert_ne!(action, forbidden as i32);
                    *rows.lock().unwrap() += 1;
                }
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let settings = ["algo.minibatches=4", "algo.shards=2", "steps=3200", mode];
        let run = trainer(&masked(), &settings)
            .run_dir(dir.path().join("run"))
            .algorithm(spy);
        let report = run.build().unwrap().train().unwrap();
        // The environment refuses a forbidden action, too.
        assert_eq!((report.faults, *rows.lock().unwrap()), (0, 3200));
    }
}

#[test]
fn br_22_a_mask_that_allows_nothing_names_lane_and_step() {
    struct Stuck(u32);
    impl Env for Stuck {
        fn observation_space(&self) -> Space {
            Space::unbounded(&[1])
        }
        fn action_space(&self) -> Space {
            Space::masked_discrete(3)
        }
        fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
            self.0 = 0;
            Ok(())
        }
        fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
            self.0 += 1;
            Ok(Transition::running(0.0))
        }
        fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
            out.write(&[0.0f32])
        }
        fn action_mask(&mut self, mask: &mut [u8]) {
            mask.fill(u8::from(self.0 != 4));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let spec = EnvSpec::new("Stuck-v0", |_| Ok(Stuck(0)));
    let settings = ["rollout.on_fault=fail"];
    let run = trainer(&spec, &settings)
        .run_dir(dir.path().join("run"))
        .build()
        .unwrap();
    let error = run.train().unwrap_err().to_string();
    holds(&error, &["lane ", "step 3", "allows none of 3 choices"]);
}

/// Keeps the actions that it received.
struct Bounded {
    space: BoxSpace,
    received: Arc<Mutex<Vec<Vec<f32>>>>,
}

impl Env for Bounded {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::Box(self.space.clone())
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        Ok(())
    }
    fn step(&mut self, action: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        self.received
            .lock()
            .unwrap()
            .push(action.continuous().to_vec());
        Ok(Transition::running(0.0))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[0.0f32])
    }
}

/// What the environment received, dimension by dimension: the lowest and the highest.
fn received(low: &[f64], high: &[f64], settings: &[&str]) -> Vec<(f32, f32)> {
    let received = Arc::new(Mutex::new(vec![]));
    let space = BoxSpace {
        shape: vec![low.len()],
        low: low.to_vec().into(),
        high: high.to_vec().into(),
        dtype: DType::F32,
        image: None,
    };
    let spec = {
        let received = Arc::clone(&received);
        EnvSpec::new("Bounded-v0", move |_| {
            Ok(Bounded {
                space: space.clone(),
                received: Arc::clone(&received),
            })
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let settings = [&["steps=640"][..], settings].concat();
    let run = trainer(&spec, &settings)
        .run_dir(dir.path().join("run"))
        .build()
        .unwrap();
    assert_eq!(run.train().unwrap().faults, 0);
    let received = received.lock().unwrap();
    (0..low.len())
        .map(|i| {
            let values = received.iter().map(|action| action[i]);
            assert!(values.clone().all(f32::is_finite));
            (
                values.clone().fold(f32::MAX, f32::min),
                values.fold(f32::MIN, f32::max),
            )
        })
        .collect()
}

#[test]
fn br_40_actions_are_clipped_to_the_bounds_of_each_dimension() {
    let inf = f64::INFINITY;
    let got = received(
        &[0.0, -inf, 0.0, -0.5, 1.0],
        &[5.0, inf, inf, 0.25, 1.0],
        &[],
    );
    // Draws of a standard normal distribution, hundreds of them: both sides are reached.
    assert_eq!(got[0].0, 0.0);
    assert!(got[0].1 > 1.0 && got[0].1 <= 5.0, "{got:?}");
    assert!(got[1].0 < -1.0 && got[1].1 > 1.0, "{got:?}");
    assert_eq!(got[2].0, 0.0);
    assert_eq!(got[3], (-0.5, 0.25));
    assert_eq!(got[4], (1.0, 1.0));
}

#[test]
fn br_40_rescaling_is_finite_for_every_bound() {
    let inf = f64::INFINITY;
    let rescale = &["env.rescale_action=true"];
    let got = received(&[0.0, -inf, -3e38, 2.0], &[5.0, inf, 3e38, 2.0], rescale);
    // From [-1, 1] to the bounds; draws outside are clipped first.
    assert_eq!(got[0], (0.0, 5.0));
    assert!(
        got[1].0 < -1.0 && got[1].1 > 1.0,
        "without bounds it is left alone: {got:?}"
    );
    assert_eq!(got[2], (-3e38, 3e38));
    assert_eq!(got[3], (2.0, 2.0));
    let half = received(&[0.0], &[inf], rescale);
    assert_eq!(half[0].0, 0.0, "{half:?}");
}

#[test]
fn br_23_br_40_squashed_actions_lie_within_their_bounds() {
    let squash = &["network.squash=true", "steps=6400"];
    let got = received(&[0.0, -3e38, 2.0, -2.0], &[5.0, 3e38, 2.0, 2.0], squash);
    // Draws of a normal distribution: some are nearly at the bounds, none beyond.
    assert!(got[0].0 >= 0.0 && got[0].0 < 0.1 && got[0].1 > 4.9 && got[0].1 <= 5.0);
    assert!(got[1].0 < -2e38 && got[1].1 > 2e38 && got[1].1.is_finite());
    assert_eq!(got[2], (2.0, 2.0));
    assert!(got[3].0 >= -2.0 && got[3].0 < -1.9 && got[3].1 > 1.9 && got[3].1 <= 2.0);
}
