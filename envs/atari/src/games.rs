//! The games by their ids, and where their ROMs are.

use crate::{Atari, Rules};
use hotloop_env::{EnvError, EnvSpec, Registry};
use std::path::PathBuf;

/// The names of the ROM files that were found when the crate was built.
const ROMS: &[&str] = include!(concat!(env!("OUT_DIR"), "/roms.rs"));

/// Games that two must play.
const FOR_TWO: [&str; 4] = ["combat", "joust", "maze_craze", "warlords"];

/// The variable that names another folder with ROMs; that of the Python package `ale-py`.
const FOLDER: &str = "ALE_ROMS_DIR";

/// Adds all games that one can play alone, under the ids that they have in Gymnasium: `ALE/Pong-v5` for `pong.bin`.
pub fn register(registry: &mut Registry) {
    let rules = Rules::default();
    for &rom in ROMS.iter().filter(|rom| !FOR_TWO.contains(rom)) {
        let spec = EnvSpec::new(id(rom), move |options| {
            Atari::new(
                rom,
                &read(rom)?,
                Rules {
                    frame_skip: options.int("frame_skip"),
                    repeat_action_probability: options.float("repeat_action_probability"),
                    full_action_space: options.bool("full_action_space"),
                    noop_max: options.int("noop_max"),
                    terminal_on_life_loss: options.bool("terminal_on_life_loss"),
                    fire_on_reset: options.bool("fire_on_reset"),
                    max_frames: options.int("max_frames"),
                },
            )
        });
        registry.add(
            spec.about(format!("the Atari 2600 game {}", title(rom)))
                .option(
                    "frame_skip",
                    rules.frame_skip,
                    "frames that an action is held for",
                )
                .option(
                    "repeat_action_probability",
                    rules.repeat_action_probability,
                    "probability, at every frame, that the console gets the action of the frame before",
                )
                .option(
                    "full_action_space",
                    rules.full_action_space,
                    "all 18 actions of the console instead of those that do something in the game",
                )
                .option(
                    "noop_max",
                    rules.noop_max,
                    "an episode begins after 1 to so many frames without action (0: none)",
                )
                .option(
                    "terminal_on_life_loss",
                    rules.terminal_on_life_loss,
                    "whether the loss of a life ends the episode for the learner",
                )
                .option(
                    "fire_on_reset",
                    rules.fire_on_reset,
                    "whether FIRE is pressed when an episode begins, where the game has it",
                )
                .option(
                    "max_frames",
                    rules.max_frames,
                    "frames after which a game is truncated (0: never)",
                ),
        );
    }
}

/// The bytes of a ROM file.
pub(crate) fn read(rom: &str) -> Result<Vec<u8>, EnvError> {
    let folder = match std::env::var_os(FOLDER) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(concat!(env!("HOTLOOP_ALE"), "/roms")),
    };
    let path = folder.join(rom).with_extension("bin");
    std::fs::read(&path).map_err(|error| {
        EnvError::new(format!(
            "the game's ROM, {}, cannot be read: {error}; `cargo xtask atari` gets all ROMs, and {FOLDER} names another \
             folder with them",
            path.display()
        ))
    })
}

/// `space_invaders` as an id.
fn id(rom: &str) -> String {
    let name: String = title(rom).split(' ').collect();
    format!("ALE/{name}-v5")
}

/// `space_invaders` in words, each letter that follows none being a capital one, as Python's `title` does it.
fn title(rom: &str) -> String {
    let mut after_letter = false;
    let letters = rom.chars().map(|letter| {
        let capital = !after_letter;
        after_letter = letter.is_ascii_alphabetic();
        match letter {
            '_' => ' ',
            _ if capital => letter.to_ascii_uppercase(),
            _ => letter,
        }
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_gymnasium() {
        assert_eq!(id("pong"), "ALE/Pong-v5");
        assert_eq!(id("space_invaders"), "ALE/SpaceInvaders-v5");
        assert_eq!(id("tic_tac_toe_3d"), "ALE/TicTacToe3D-v5");
        assert_eq!(id("pitfall2"), "ALE/Pitfall2-v5");
    }
}
