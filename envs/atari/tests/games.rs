//! All games: that an episode depends on nothing before it, and that a saved state is a whole one.

#![cfg(feature = "atari")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Lane, game};
use hotloop_atari::Rules;
use hotloop_env::wrappers::FrameStack;
use hotloop_env::{
    ActionBuf, End, Env, EnvRng, Frame, Layout, ObservationBuf, ResetCtx, Space, StateReader,
    Stream,
};
use std::path::Path;

/// The names of all ROMs of games that one can play alone.
fn games() -> Vec<String> {
    let folder = Path::new(env!("HOTLOOP_ALE")).join("roms");
    let paths = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "bin"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| !["combat", "joust", "maze_craze", "warlords"].contains(&name.as_str()))
        .collect();
    names.sort();
    assert!(names.len() > 100, "{names:?}");
    names
}

/// What is seen of `steps` steps of play that depends on `seed` only.
fn play(lane: &mut Lane, seed: u64, steps: usize) -> Vec<(u64, Vec<u8>)> {
    let Space::Discrete(actions) = lane.env.action_space() else {
        panic!("no choice")
    };
    let mut rng = EnvRng::new(seed, 0, Stream::Env);
    let mut seen = vec![];
    for _ in 0..steps {
        let action = rng.below(actions.n as u64) as usize;
        let step = lane.step(action, &mut rng);
        seen.push((step.raw_reward().to_bits(), lane.observe().to_vec()));
        if step.raw_end().is_over() {
            break;
        }
    }
    seen
}

#[test]
fn every_game_is_played_alike_from_a_reset_and_from_a_saved_state() {
    let mut failures = vec![];
    for name in games() {
        let rules = Rules {
            noop_max: 0,
            ..Rules::default()
        };
        let mut rng = EnvRng::new(0, 0, Stream::Env);
        let (mut lane, mut other) = (Lane::new(&name, &rules), Lane::new(&name, &rules));
        lane.reset(&mut rng);
        other.reset(&mut rng);
        let first = play(&mut lane, 1, 40);
        let mut picture = Frame::new();
        lane.env.render(&mut picture).unwrap();
        lane.reset(&mut rng);
        if lane.observe() != other.observe() || play(&mut lane, 1, 40) != first {
            failures.push(format!("{name}: reset"));
        }
        other.load(&lane.save());
        if play(&mut lane, 2, 40) != play(&mut other, 2, 40) {
            failures.push(format!("{name}: state"));
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn fire_begins_an_episode_where_it_is_asked_for() {
    // In Breakout no ball is in play, and no life can be lost, until FIRE is pressed.
    let lives_after = |fire_on_reset: bool| {
        let rules = Rules {
            fire_on_reset,
            ..Rules::default()
        };
        let mut lane = Lane::new("breakout", &rules);
        let mut rng = EnvRng::new(3, 0, Stream::Env);
        lane.reset(&mut rng);
        for _ in 0..150 {
            lane.step(0, &mut rng);
        }
        lane.env.lives()
    };
    assert_eq!([lives_after(false), lives_after(true)], [5, 4]);
}

#[test]
fn what_sticks_after_fire_is_fire() {
    // Every later frame repeats the first one of its life: with anything but FIRE no second ball comes into play.
    let rules = Rules {
        fire_on_reset: true,
        repeat_action_probability: 1.0,
        ..Rules::default()
    };
    let mut lane = Lane::new("breakout", &rules);
    let mut rng = EnvRng::new(3, 0, Stream::Env);
    lane.reset(&mut rng);
    let mut lives = (0..1000).map(|_| {
        lane.step(0, &mut rng);
        lane.env.lives()
    });
    assert!(lives.any(|left| left < 4));
}

#[test]
fn a_saved_state_that_cannot_be_is_refused() {
    let rules = Rules::default();
    let mut rng = EnvRng::new(0, 0, Stream::Env);
    let mut lane = Lane::new("pong", &rules);
    lane.reset(&mut rng);
    let mut state = lane.save();
    // The last action: behind the console's own state, which is preceded by its length.
    let at = 8 + u64::from_le_bytes(state[..8].try_into().unwrap()) as usize;
    state[at] = 18;
    let error = lane.env.load(&mut StateReader::new(&state)).unwrap_err();
    assert!(error.to_string().contains("last action is 18"), "{error}");
    let error = lane
        .env
        .load(&mut StateReader::new(&state[..at]))
        .unwrap_err();
    assert!(error.to_string().contains("ends early"), "{error}");
}

#[test]
fn br_34_a_stack_of_frames_does_not_leak_across_games() {
    // Games of 10 steps and a frame without action each; the last one is cut short.
    let rules = Rules {
        noop_max: 1,
        max_frames: 40,
        ..Rules::default()
    };
    let mut single = Lane::new("breakout", &rules);
    let mut stacked = FrameStack::new(game("breakout", &rules), 4).unwrap();
    let action = ActionBuf::new(&Layout::of_actions(&stacked.action_space()).unwrap());
    let mut seen = ObservationBuf::new(&Layout::new(&stacked.observation_space()).unwrap());
    let mut rngs = [0, 0].map(|lane| EnvRng::new(5, lane, Stream::Env));
    for _ in 0..3 {
        single.reset(&mut rngs[0]);
        let mut ctx = ResetCtx::new(&mut rngs[1], 0, 0, 0);
        stacked.reset(&mut ctx).unwrap();
        let mut frames = vec![single.observe().to_vec(); 4];
        let mut end = End::Continue;
        while end == End::Continue {
            stacked.observe(&mut seen.as_mut()).unwrap();
            let last: Vec<u8> = frames[frames.len() - 4..].concat();
            assert_eq!(seen.record(), last, "step {}", frames.len() - 4);
            let step = single.step(0, &mut rngs[0]);
            end = stacked.step(action.view(), &mut rngs[1]).unwrap().end();
            assert_eq!(step.end(), end);
            frames.push(single.observe().to_vec());
        }
        // The final observation, which the stack of the next game does not touch.
        stacked.observe(&mut seen.as_mut()).unwrap();
        assert_eq!(seen.record(), frames[frames.len() - 4..].concat());
        assert_eq!((end, frames.len()), (End::Truncated, 4 + 10));
    }
}
