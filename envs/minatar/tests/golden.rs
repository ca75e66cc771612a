//! Every game against episodes recorded from the Python package by `scripts/record_minatar.py`, which says how the
//! files are made up: with the package's random draws in place of its own each shows the same frames, gives the same
//! rewards and ends with the same steps.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotloop_env::{
    ActionBuf, End, Env, EnvRng, Layout, ObservationBuf, ResetCtx, Script, Space, StateReader,
    StateWriter,
};
use hotloop_minatar::{Asterix, Breakout, Freeway, Game, MinAtar, Rules};
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

/// One lane: an environment with what it is called with.
struct Lane<G> {
    env: MinAtar<G>,
    action: ActionBuf,
    observation: ObservationBuf,
}

impl<G: Game> Lane<G> {
    fn new(difficulty_ramping: bool) -> Self {
        let env = MinAtar::<G>::new(Rules {
            difficulty_ramping,
            ..Rules::default()
        })
        .unwrap();
        let actions = Layout::of_actions(&env.action_space()).unwrap();
        let observations = Layout::new(&env.observation_space()).unwrap();
        Self {
            env,
            action: ActionBuf::new(&actions),
            observation: ObservationBuf::new(&observations),
        }
    }

    fn reset(&mut self, rng: &mut EnvRng) {
        self.env.reset(&mut ResetCtx::new(rng, 0, 0, 0)).unwrap();
    }

    fn step(&mut self, action: u8, rng: &mut EnvRng) -> (f64, End) {
        self.action = self.action.clone().with_index(action.into());
        let transition = self.env.step(self.action.view(), rng).unwrap();
        (transition.reward(), transition.end())
    }

    fn frame(&mut self) -> u16 {
        self.env.observe(&mut self.observation.as_mut()).unwrap();
        hash(self.observation.record())
    }

    fn saved(&self) -> Vec<u8> {
        let mut out = StateWriter::new();
        assert!(self.env.save(&mut out));
        out.into_bytes()
    }

    fn load(&mut self, state: &[u8]) {
        let mut reader = StateReader::new(state);
        self.env.load(&mut reader).unwrap();
        reader.finish().unwrap();
    }
}

/// Plays the recording. From event to event the episode goes on in a fresh environment with the saved state if
/// `reload`.
fn play<G: Game>(file: &[u8], reload: bool) {
    let golden = Golden::new(file);
    let mut rng = EnvRng::scripted(golden.script.clone());
    let mut lanes = [Lane::<G>::new(false), Lane::<G>::new(true)];
    let mut ramping = 0;
    for (n, (&event, &frame)) in golden.events.iter().zip(&golden.frames).enumerate() {
        let flag = event & FLAG != 0;
        if event & 7 == RESET {
            ramping = usize::from(flag);
            lanes[ramping].reset(&mut rng);
        } else {
            let (reward, end) = lanes[ramping].step(event & 7, &mut rng);
            assert_eq!(reward, f64::from(event >> 4), "reward of event {n}");
            let expected = if flag { End::Terminated } else { End::Continue };
            assert_eq!(end, expected, "end of event {n}");
        }
        let lane = &mut lanes[ramping];
        assert_eq!(lane.frame(), frame, "observation of event {n}");
        if reload {
            let state = lane.saved();
            *lane = Lane::new(ramping == 1);
            lane.load(&state);
            assert_eq!(lane.saved(), state, "state after event {n}");
        }
    }
    assert_eq!(rng.uniform(), LAST.0, "uniform draws are left");
    assert_eq!(rng.below(u64::MAX), LAST.1, "integer draws are left");
}

fn check_spaces<G: Game>(file: &[u8]) {
    let golden = Golden::new(file);
    let lane = Lane::<G>::new(true);
    let actions = Space::discrete(golden.number("actions"));
    assert_eq!(lane.env.action_space(), actions);
    let shape = vec![10, 10, golden.number("channels")];
    match lane.env.observation_space() {
        Space::Box(space) => assert_eq!(space.shape, shape),
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
