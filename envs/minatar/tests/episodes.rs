//! How episodes begin and end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Lane;
use hotloop_env::wrappers::TimeLimit;
use hotloop_env::{End, EnvRng, FeaturePlan, OptionValue, Registry, Stream};
use hotloop_minatar::{Asterix, Breakout, Freeway, Game, MinAtar, Rules, Seaquest, SpaceInvaders};
use std::collections::BTreeMap;

fn registry() -> Registry {
    let mut registry = Registry::new();
    hotloop_minatar::register(&mut registry);
    registry
}

fn rules(sticky_action_prob: f64) -> Rules {
    Rules {
        sticky_action_prob,
        ..Rules::default()
    }
}

/// The column of the first cell that is set in a plane of a Breakout frame.
fn column(frame: &[u8], channel: usize) -> usize {
    let cell = (0..100).find(|cell| frame[cell * 4 + channel] == 1);
    cell.unwrap() % 10
}

#[test]
fn br_01_br_13_who_never_loses_at_breakout_is_truncated_after_exactly_the_limit() {
    let limit = registry().get("MinAtar/Breakout-v1").unwrap().max_steps();
    let env = MinAtar::<Breakout>::new(rules(0.0)).unwrap();
    let mut lane = Lane::new(TimeLimit::new(env, limit));
    let mut rng = EnvRng::new(1, 0, Stream::Env);
    for _ in 0..2 {
        lane.reset(&mut rng);
        let mut broken = 0.0;
        for step in 1..=limit {
            // A paddle that stays beneath the ball meets it whatever happens.
            let frame = lane.observe();
            let (paddle, ball) = (column(frame, 0), column(frame, 1));
            let action = match paddle.cmp(&ball) {
                std::cmp::Ordering::Equal => 0,
                std::cmp::Ordering::Greater => 1,
                std::cmp::Ordering::Less => 2,
            };
            let (reward, end) = lane.step(action, &mut rng);
            broken += reward;
            let expected = if step == limit {
                End::Truncated
            } else {
                End::Continue
            };
            assert_eq!(end, expected, "step {step}");
        }
        assert!(broken > 60.0, "{broken} bricks: walls are built anew");
    }
}

#[test]
fn br_01_freeway_terminates_by_itself() {
    assert_eq!(registry().get("MinAtar/Freeway-v1").unwrap().max_steps(), 0);
    let mut lane = Lane::new(MinAtar::<Freeway>::new(Rules::default()).unwrap());
    let mut rng = EnvRng::new(1, 0, Stream::Env);
    for _ in 0..2 {
        lane.reset(&mut rng);
        let steps = (1..).find(|_| lane.step(1, &mut rng).1 == End::Terminated);
        assert_eq!(steps, Some(2501));
    }
}

/// With actions that always stick, an episode is the same whether or not another one came before.
fn starts_afresh<G: Game>() {
    let play = |lane: &mut Lane<MinAtar<G>>| {
        let mut rng = EnvRng::new(5, 3, Stream::Env);
        lane.reset(&mut rng);
        let mut frames = vec![lane.observe().to_vec()];
        while frames.len() < 200 && lane.step(1, &mut rng).1 == End::Continue {
            frames.push(lane.observe().to_vec());
        }
        (frames, lane.save())
    };
    let mut fresh = Lane::new(MinAtar::<G>::new(rules(1.0)).unwrap());
    let expected = play(&mut fresh);
    let mut used = Lane::new(MinAtar::<G>::new(rules(0.0)).unwrap());
    let mut rng = EnvRng::new(9, 0, Stream::Env);
    used.reset(&mut rng);
    for n in 0..300 {
        if used.step(n % G::ACTIONS.len(), &mut rng).1 != End::Continue {
            used.reset(&mut rng);
        }
    }
    used.step(1, &mut rng);
    // A state carries the last action, but not the rules.
    fresh.load(&used.save());
    assert_eq!(play(&mut fresh), expected);
}

#[test]
fn br_34_nothing_of_an_episode_reaches_the_next() {
    starts_afresh::<Breakout>();
    starts_afresh::<Asterix>();
    starts_afresh::<Freeway>();
    starts_afresh::<Seaquest>();
    starts_afresh::<SpaceInvaders>();
}

#[test]
fn br_41_planes_of_bits_become_features_as_they_are() {
    let registry = registry();
    for spec in registry.iter() {
        let spaces = spec
            .spaces(&spec.options(&BTreeMap::new()).unwrap())
            .unwrap();
        let layout = &spaces.observation;
        let plan = FeaturePlan::new(layout);
        let mut features = vec![0.0; plan.features()];
        plan.encode(&vec![1; layout.record_bytes()], &mut features);
        assert!(features.iter().all(|&feature| feature == 1.0));
    }
}

#[test]
fn options_reach_the_game_and_are_checked() {
    let registry = registry();
    let spec = registry.get("MinAtar/Asterix-v1").unwrap();
    let with = |name: &str, value: OptionValue| {
        let options = spec.options(&BTreeMap::from([(name.to_string(), value)]));
        options.and_then(|options| spec.make(&options, 1))
    };
    assert!(with("difficulty_ramping", false.into()).is_ok());
    assert!(with("sticky_action_prob", 0.25.into()).is_ok());
    let error = with("sticky_action_prob", 1.5.into()).err().unwrap();
    assert!(error.to_string().contains("sticky_action_prob is 1.5"));
}
