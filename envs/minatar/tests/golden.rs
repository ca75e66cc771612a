//! Every game against episodes recorded from the Python package by `scripts/record_minatar.py`, which says how the
//! files are made up: with the package's random draws in place of its own each shows the same frames, gives the same
//! rewards and ends with the same steps.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Lane;
use hotloop_env::{BoxSpace, DType, End, Env, EnvRng, Script, Space};
use hotloop_minatar::{Asterix, Breakout, Freeway, Game, MinAtar, Rules, Seaquest, SpaceInvaders};
use std::collections::HashMap;

/// A recorded event that is a reset rather than a step.
const RESET: u8 = 7;
/// Of a reset: difficulty ramps. Of a step: the episode terminated.
const FLAG: u8 = 8;
/// Script entries behind the recorded ones, to see that exactly these were drawn.
const LAST: (f64, u64) = (0.123, 456);

struct Golden<'a> {
    facts: HashMap<&'a str, &'a str>,
    events: &'a [u8],
    frames: Vec<u16>,
    script: Script,
}

impl<'a> Golden<'a> {
    fn new(file: &'a [u8]) -> Self {
        let end = file.windows(2).position(|two| two == b"\n\n").unwrap();
        let text = std::str::from_utf8(&file[..end]).unwrap();
        let facts: HashMap<_, _> = text.lines().map(|l| l.split_once(": ").unwrap()).collect();
        let mut rest = &file[end + 2..];
        let mut column = |name: &str| {
            let (column, after) = rest.split_at(facts[name].parse().unwrap());
            rest = after;
            column
        };
        let (events, frames) = (column("events"), column("frames"));
        let uniforms = column("uniforms").iter();
        let script = Script {
            uniforms: uniforms
                .map(|&k| (f64::from(k) + 0.5) / 256.0)
                .chain([LAST.0])
                .collect(),
            integers: column("integers")
                .iter()
                .map(|&k| u64::from(k))
                .chain([LAST.1])
                .collect(),
            ..Script::default()
        };
        assert!(rest.is_empty());
        let frames = frames.chunks_exact(2);
        Self {
            facts,
            events,
            frames: frames.map(|b| u16::from_le_bytes([b[0], b[1]])).collect(),
            script,
        }
    }

    fn number(&self, fact: &str) -> usize {
        self.facts[fact].parse().unwrap()
    }
}

/// FNV-1a, both halves xored.
fn hash(record: &[u8]) -> u16 {
    let fnv = record.iter().fold(0x811C_9DC5u32, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    (fnv >> 16) as u16 ^ fnv as u16
}

fn env<G: Game>(difficulty_ramping: bool) -> MinAtar<G> {
    MinAtar::new(Rules {
        difficulty_ramping,
        ..Rules::default()
    })
    .unwrap()
}

/// Plays the recording. From event to event the episode goes on in a fresh environment with the saved state if
/// `reload`.
fn play<G: Game>(file: &[u8], reload: bool) {
    let golden = Golden::new(file);
    let mut rng = EnvRng::scripted(golden.script.clone());
    let mut lanes = [false, true].map(|ramping| Lane::new(env::<G>(ramping)));
    let mut ramping = 0;
    for (n, (&event, &frame)) in golden.events.iter().zip(&golden.frames).enumerate() {
        let flag = event & FLAG != 0;
        if event & 7 == RESET {
            ramping = usize::from(flag);
            lanes[ramping].reset(&mut rng);
        } else {
            let (reward, end) = lanes[ramping].step((event & 7).into(), &mut rng);
            assert_eq!(reward, f64::from(event >> 4), "reward of event {n}");
            let expected = if flag { End::Terminated } else { End::Continue };
            assert_eq!(end, expected, "end of event {n}");
        }
        let lane = &mut lanes[ramping];
        assert_eq!(hash(lane.observe()), frame, "observation of event {n}");
        if reload {
            let state = lane.save();
            *lane = Lane::new(env(ramping == 1));
            lane.load(&state);
            assert_eq!(lane.save(), state, "state after event {n}");
        }
    }
    assert_eq!(rng.uniform(), LAST.0, "uniform draws are left");
    assert_eq!(rng.below(u64::MAX), LAST.1, "integer draws are left");
}

fn check_spaces<G: Game>(file: &[u8]) {
    let golden = Golden::new(file);
    let env = env::<G>(true);
    let actions = Space::discrete(golden.number("actions"));
    assert_eq!(env.action_space(), actions);
    match env.observation_space() {
        Space::Box(BoxSpace { shape, dtype, .. }) => {
            assert_eq!(shape, [10, 10, golden.number("channels")]);
            assert_eq!(dtype, DType::U8);
        }
        other => panic!("expected a box, found {other}"),
    }
}

macro_rules! golden {
    ($name:ident, $game:ident, $file:literal) => {
        mod $name {
            use super::*;

            const FILE: &[u8] = include_bytes!(concat!("golden/", $file, ".bin"));

            #[test]
            fn plays_as_the_package_does() {
                play::<$game>(FILE, false);
            }

            #[test]
            fn goes_on_from_saved_states() {
                play::<$game>(FILE, true);
            }

            #[test]
            fn has_the_packages_spaces() {
                check_spaces::<$game>(FILE);
            }
        }
    };
}

golden!(breakout, Breakout, "Breakout-v1");
golden!(asterix, Asterix, "Asterix-v1");
golden!(freeway, Freeway, "Freeway-v1");
golden!(seaquest, Seaquest, "Seaquest-v1");
golden!(space_invaders, SpaceInvaders, "SpaceInvaders-v1");
