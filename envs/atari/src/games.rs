//! The games by their ids, and where their ROMs are.

use crate::{Atari, Rules};
use hotloop_env::{EnvError, EnvSpec, Registry};
use std::path::Path;

/// The names of the ROM files that were found when the crate was built.
const ROMS: &[&str] = include!(concat!(env!("OUT_DIR"), "/roms.rs"));

/// Games that two must play.
const FOR_TWO: [&str; 4] = ["combat", "joust", "maze_craze", "warlords"];

/// The variable that names another folder with ROMs; that of the Python package `ale-py`.
const FOLDER: &str = "ALE_ROMS_DIR";

/// Adds all games that one can play alone, under the ids that they have in Gymnasium: `ALE/Pong-v5` for `pong.bin`.
pub fn register(registry: &mut Registry) {
    for &rom in ROMS.iter().filter(|rom| !FOR_TWO.contains(rom)) {
        let spec = EnvSpec::new(id(rom), move |options| {
            Atari::new(rom, &read(rom)?, Rules::of(options))
        });
        registry.add(Rules::declare(
            spec.about(format!("the Atari 2600 game {}", title(rom))),
        ));
    }
}

/// The bytes of a ROM file.
fn read(rom: &str) -> Result<Vec<u8>, EnvError> {
    match std::env::var_os(FOLDER) {
        Some(folder) => read_from(Path::new(&folder), rom),
        None => read_from(Path::new(concat!(env!("HOTLOOP_ALE"), "/roms")), rom),
    }
}

fn read_from(folder: &Path, rom: &str) -> Result<Vec<u8>, EnvError> {
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

    #[test]
    fn a_missing_rom_is_named_and_an_unknown_game_is_met_with_a_suggestion() {
        let error = read_from(Path::new("/nowhere"), "pong")
            .unwrap_err()
            .to_string();
        for part in ["/nowhere/pong.bin", "cargo xtask atari", "ALE_ROMS_DIR"] {
            assert!(error.contains(part), "{error}");
        }
        let mut registry = Registry::new();
        register(&mut registry);
        let error = registry.get("ALE/SpaceInvader-v5").unwrap_err().to_string();
        assert!(
            error.contains("did you mean \"ALE/SpaceInvaders-v5\"?"),
            "{error}"
        );
        assert!(
            registry.get("ALE/Combat-v5").is_err(),
            "nobody plays it alone"
        );
    }

    #[test]
    fn what_is_no_rom_and_rules_that_cannot_be_are_refused() {
        let open = |rom: &[u8], rules: Rules| {
            let refused = Atari::new("pong", rom, rules).map(|_| ());
            refused.unwrap_err().to_string()
        };
        let error = open(&[0; 100], Rules::default());
        assert!(error.starts_with("the ROM pong cannot be used"), "{error}");
        let mut rom = read("pong").unwrap();
        rom[7] ^= 1;
        let error = open(&rom, Rules::default());
        assert!(error.contains("another version of the game"), "{error}");
        rom[7] ^= 1;
        let defaults = Rules::default;
        for (rules, expected) in [
            (
                Rules {
                    frame_skip: 0,
                    ..defaults()
                },
                "frame_skip is 0, expected 1 to 1000",
            ),
            (
                Rules {
                    noop_max: -1,
                    ..defaults()
                },
                "noop_max is -1",
            ),
            (
                Rules {
                    max_frames: 1 << 40,
                    ..defaults()
                },
                "max_frames is",
            ),
            (
                Rules {
                    repeat_action_probability: 1.5,
                    ..defaults()
                },
                "expected a probability",
            ),
        ] {
            let error = open(&rom, rules);
            assert!(error.contains(expected), "{error}");
        }
    }
}
