//! MinAtar: miniatures of five Atari games on a 10×10 board (Young and Tian, "MinAtar: An Atari-Inspired
//! Testbed for Thorough and Reproducible Reinforcement Learning Experiments", 2019, arXiv:1903.03176), to the
//! rules of version 1 of the games in the Python package `minatar` 1.0.15.
//!
//! - **Observation**: 10×10 cells of planes of bits, channels last, as `uint8` 0 and 1. What each plane shows is
//!   said with each game.
//! - **Actions**: the minimal set of each game, 0 being no action.
//! - **Sticky actions**: with probability 0.1 (option `sticky_action_prob`) the game gets the action that it got at
//!   the step before, whatever the agent chooses.
//! - **Difficulty ramping** (option `difficulty_ramping`, on): Asterix, Seaquest and Space Invaders become
//!   faster as an episode goes on.
//! - **Time limit**: the package has none but Freeway's own 2,500 frames. Here the other games are truncated after
//!   10,000 steps, far beyond where play usually ends, so that a perfect player of Breakout comes to an end.
//!
//! Every game is checked step by step against recordings of the package with its random draws (see
//! `tests/golden.rs`). One thing differs on purpose: the sticky action of an episode's first step is no action, where the
//! package carries over the last one of the episode before, so that an episode depends on nothing but its own draws.
//!
//! ```
//! use hotloop_env::Registry;
//!
//! let mut registry = Registry::new();
//! hotloop_minatar::register(&mut registry);
//! assert_eq!(registry.get("MinAtar/Breakout-v1").unwrap().max_steps(), 10_000);
//! ```

mod asterix;
mod board;
mod breakout;
mod env;
mod freeway;
mod game;
mod saved;
mod seaquest;
mod space_invaders;

pub use asterix::Asterix;
pub use board::{Canvas, Plane, SIDE};
pub use breakout::Breakout;
pub use env::{MinAtar, Rules};
pub use freeway::Freeway;
pub use game::{Action, Game};
pub use seaquest::Seaquest;
pub use space_invaders::SpaceInvaders;

use hotloop_env::{EnvSpec, Registry};

/// Steps after which an episode is truncated; see the crate's page.
const TIME_LIMIT: u32 = 10_000;

/// Adds the five games under the ids that they have in Gymnasium.
pub fn register(registry: &mut Registry) {
    registry
        .add(spec::<Breakout>(
            "MinAtar/Breakout-v1",
            "keep a ball in play with a paddle and break three rows of bricks",
        ))
        .add(spec::<Asterix>(
            "MinAtar/Asterix-v1",
            "collect the treasure that crosses the board and keep clear of the enemies",
        ))
        .add(
            // The game ends itself.
            spec::<Freeway>(
                "MinAtar/Freeway-v1",
                "lead a chicken across eight lanes of traffic as often as possible",
            )
            .time_limit(0),
        )
        .add(spec::<Seaquest>(
            "MinAtar/Seaquest-v1",
            "shoot fish and submarines, pick up divers, and surface before the oxygen is used up",
        ))
        .add(spec::<SpaceInvaders>(
            "MinAtar/SpaceInvaders-v1",
            "shoot the aliens that march down the board and shoot back",
        ));
}

fn spec<G: Game + 'static>(id: &str, about: &str) -> EnvSpec {
    let rules = Rules::default();
    EnvSpec::new(id, |options| {
        MinAtar::<G>::new(Rules {
            sticky_action_prob: options.float("sticky_action_prob"),
            difficulty_ramping: options.bool("difficulty_ramping"),
        })
    })
    .about(about)
    .time_limit(TIME_LIMIT)
    .option(
        "sticky_action_prob",
        rules.sticky_action_prob,
        "probability that the action of the step before is taken again",
    )
    .option(
        "difficulty_ramping",
        rules.difficulty_ramping,
        "whether the game becomes faster as an episode goes on",
    )
}
