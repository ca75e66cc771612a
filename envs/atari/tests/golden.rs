//! Games against recordings of Gymnasium over the same emulator (`scripts/record_atari.py` says how the files are made
//! up): the same observations and colours byte for byte, rewards, lives and ends.

#![cfg(feature = "atari")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Lane;
use hotloop_atari::Rules;
use hotloop_env::{End, Env, EnvRng, Frame, Script};
use std::collections::HashMap;

/// A recorded event that is a reset rather than a step.
const RESET: u8 = 255;

struct Golden<'a> {
    facts: HashMap<&'a str, &'a str>,
    columns: HashMap<&'a str, &'a [u8]>,
}

impl<'a> Golden<'a> {
    fn new(file: &'a [u8]) -> Self {
        let end = file.windows(2).position(|two| two == b"\n\n").unwrap();
        let text = std::str::from_utf8(&file[..end]).unwrap();
        let facts: HashMap<_, _> = text.lines().map(|l| l.split_once(": ").unwrap()).collect();
        let mut rest = &file[end + 2..];
        let mut columns = HashMap::new();
        for name in [
            "events", "ends", "rewards", "lives", "frames", "screens", "repeats",
        ] {
            let (column, after) = rest.split_at(facts[name].parse().unwrap());
            columns.insert(name, column);
            rest = after;
        }
        assert!(rest.is_empty());
        Self { facts, columns }
    }

    fn fact<T: std::str::FromStr<Err: std::fmt::Debug>>(&self, name: &str) -> T {
        self.facts[name].parse().unwrap()
    }

    fn rules(&self) -> Rules {
        Rules {
            frame_skip: self.fact("frame_skip"),
            repeat_action_probability: self.fact("repeat_action_probability"),
            full_action_space: self.fact("full_action_space"),
            noop_max: self.fact("noop_max"),
            terminal_on_life_loss: self.fact("terminal_on_life_loss"),
            fire_on_reset: false,
            max_frames: self.fact("max_frames"),
        }
    }

    fn lane(&self) -> Lane {
        Lane::new(self.facts["game"], &self.rules())
    }

    fn word(&self, column: &str, event: usize) -> u32 {
        u32::from_le_bytes(self.columns[column][4 * event..][..4].try_into().unwrap())
    }

    /// The draws that were made: frames without action, and at every frame of a step whether the action is repeated.
    fn script(&self) -> Script {
        let events = self.columns["events"].iter().zip(self.columns["ends"]);
        let noops = events.filter(|(event, _)| **event == RESET);
        let bits = self.columns["repeats"].iter();
        Script {
            integers: noops
                .map(|(_, &n)| u64::from(n).saturating_sub(1))
                .collect(),
            uniforms: bits
                .flat_map(|byte| {
                    (0..8).map(move |bit| if byte >> bit & 1 == 1 { 0.0 } else { 0.5 })
                })
                .collect(),
            ..Script::default()
        }
    }
}

/// CRC-32, as in zlib.
fn crc(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 }
        })
    });
    !bytes.iter().fold(!0, |crc, &byte| {
        table[usize::from(crc as u8 ^ byte)] ^ crc >> 8
    })
}

/// Plays the recording; if `reload`, now and then the game goes on in another console, with the saved state.
fn play(file: &[u8], reload: bool) {
    let golden = Golden::new(file);
    let mut rng = EnvRng::scripted(golden.script());
    let (mut lane, mut other) = (golden.lane(), golden.lane());
    let mut picture = Frame::new();
    for (n, &event) in golden.columns["events"].iter().enumerate() {
        let end = golden.columns["ends"][n];
        if event == RESET {
            lane.reset(&mut rng);
        } else {
            let step = lane.step(event.into(), &mut rng);
            let reward = f64::from(golden.columns["rewards"][n] as i8);
            assert_eq!(step.raw_reward(), reward, "reward of event {n}");
            let expected = End::from_flags(end & 1 != 0, end & 2 != 0);
            assert_eq!(step.end(), expected, "end of event {n}");
            assert_eq!(
                step.raw_end().is_over(),
                end & 4 != 0,
                "the game's end at event {n}"
            );
        }
        assert_eq!(
            lane.env.lives(),
            golden.columns["lives"][n].into(),
            "lives at event {n}"
        );
        assert_eq!(
            crc(lane.observe()),
            golden.word("frames", n),
            "observation of event {n}"
        );
        assert!(lane.env.render(&mut picture).unwrap());
        assert_eq!(
            crc(&picture.rgb),
            golden.word("screens", n),
            "screen at event {n}"
        );
        if event != RESET && end & 1 != 0 && end & 4 == 0 {
            // A life was lost: the next episode begins where this one ended.
            lane.reset(&mut rng);
            assert_eq!(
                crc(lane.observe()),
                golden.word("frames", n),
                "after event {n}"
            );
        }
        if reload && n % 7 == 0 {
            let state = lane.save();
            other.load(&state);
            assert_eq!(other.save(), state, "state after event {n}");
            std::mem::swap(&mut lane, &mut other);
        }
    }
}

macro_rules! golden {
    ($name:ident, $file:literal) => {
        mod $name {
            use super::*;

            const FILE: &[u8] = include_bytes!(concat!("golden/", $file, ".bin"));

            #[test]
            fn plays_as_gymnasium_does() {
                play(FILE, false);
            }

            #[test]
            fn goes_on_from_saved_states() {
                play(FILE, true);
            }

            #[test]
            fn has_as_many_actions() {
                let golden = Golden::new(FILE);
                let actions = hotloop_env::Space::discrete(golden.fact("actions"));
                assert_eq!(golden.lane().env.action_space(), actions);
            }
        }
    };
}

golden!(pong, "pong");
golden!(pong_old, "pong-old");
golden!(breakout, "breakout");
golden!(breakout_old, "breakout-old");
golden!(seaquest, "seaquest");
golden!(seaquest_old, "seaquest-old");
