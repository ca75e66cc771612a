//! What can be set for every game.

use hotloop_env::{EnvError, EnvOptions, EnvSpec};

/// What can be set for every game. Names are those of Gymnasium.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Frames that an action is held for, 1 or more.
    pub frame_skip: i64,
    /// The probability, from 0 to 1, that the console gets the action of the frame before in place of the chosen one; drawn
    /// for every frame.
    pub repeat_action_probability: f64,
    /// All 18 actions of the console, and not only the game's minimal set.
    pub full_action_space: bool,
    /// An episode begins after 1 to `noop_max` frames without action, as drawn; 0 for none.
    pub noop_max: i64,
    /// Whether the loss of a life ends the episode for the learner. The game goes on where it was, and statistics see
    /// whole games.
    pub terminal_on_life_loss: bool,
    /// Whether FIRE is held for one frame when an episode begins and after the loss of a life, if that ends it, where FIRE
    /// is among the game's actions.
    pub fire_on_reset: bool,
    /// Frames after which a game is truncated; 0 for never.
    pub max_frames: i64,
}

impl Default for Rules {
    /// Those of Gymnasium's `ALE/…-v5` under its `AtariPreprocessing`: sticky actions and whole games, as Machado et al.
    /// (2018) recommend, the game's minimal actions, and up to 30 frames without action.
    fn default() -> Self {
        Self {
            frame_skip: 4,
            repeat_action_probability: 0.25,
            full_action_space: false,
            noop_max: 30,
            terminal_on_life_loss: false,
            fire_on_reset: false,
            max_frames: 108_000,
        }
    }
}

impl Rules {
    /// Declares them as options of `spec`.
    pub(crate) fn declare(spec: EnvSpec) -> EnvSpec {
        let rules = Self::default();
        spec.option(
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
        )
    }

    /// What these options say, of a spec that they were declared for.
    pub(crate) fn of(options: &EnvOptions) -> Self {
        Self {
            frame_skip: options.int("frame_skip"),
            repeat_action_probability: options.float("repeat_action_probability"),
            full_action_space: options.bool("full_action_space"),
            noop_max: options.int("noop_max"),
            terminal_on_life_loss: options.bool("terminal_on_life_loss"),
            fire_on_reset: options.bool("fire_on_reset"),
            max_frames: options.int("max_frames"),
        }
    }

    /// Whether a game can be played by them.
    ///
    /// # Errors
    /// If one of them is out of range.
    pub(crate) fn check(&self) -> Result<(), EnvError> {
        let within = |name: &str, value: i64, least: i64, most: i64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(EnvError::new(format!(
                "{name} is {value}, expected {least} to {most}"
            )))
        };
        within("frame_skip", self.frame_skip, 1, 1000)?;
        within("noop_max", self.noop_max, 0, 100_000)?;
        within("max_frames", self.max_frames, 0, i64::from(i32::MAX))?;
        if !(0.0..=1.0).contains(&self.repeat_action_probability) {
            return Err(EnvError::new(format!(
                "repeat_action_probability is {}, expected a probability from 0 to 1",
                self.repeat_action_probability
            )));
        }
        Ok(())
    }
}
