//! Games of the Atari 2600 on the Arcade Learning Environment (Bellemare, Naddaf, Veness and Bowling, "The Arcade Learning
//! Environment: An Evaluation Platform for General Agents", JAIR 47, 2013), version 0.12.1, without Python.
//!
//! **This crate is empty unless its feature `atari` is on**, and the feature needs `cargo xtask atari`, which downloads the
//! emulator's source and the ROMs that come with it. The Arcade Learning Environment is under the GNU General Public
//! License, version 2. hotloop's own code, this crate's included, is not, but a *binary* built with the feature contains
//! the emulator and may be passed on under the terms of that licence only: with its whole source, or an offer of it. To
//! use such a binary yourself, or to publish what it measured or trained, asks nothing of you.
//!
//! - **Observation**: 1×84×84 grey pixels, the lighter of the last two frames, shrunk by area: Gymnasium's
//!   `AtariPreprocessing`, byte for byte. `env.frame_stack = 4` shows the last four.
//! - **Actions**: those that do something in the game, or all 18 of the console (option `full_action_space`).
//! - **Ends**: terminated when the game is over, truncated after 108,000 frames (half an hour of play).
//! - **Randomness**: sticky actions and frames without action at the start, both drawn from the lane's own numbers. The
//!   console itself starts every episode in the state that Gymnasium's seeded `reset` leaves.
//!
//! The defaults are those of Gymnasium's `ALE/…-v5` ids (Machado et al., "Revisiting the Arcade Learning Environment:
//! Evaluation Protocols and Open Problems for General Agents", JAIR 61, 2018). The older protocol (Mnih et al., "Human-level
//! control through deep reinforcement learning", Nature 518, 2015) is `repeat_action_probability = 0.0` and
//! `terminal_on_life_loss = true` with rewards clipped to their sign: the preset `atari`.
//!
//! Once a life is lost, with `terminal_on_life_loss`, the next episode begins with the very frame that the last one ended
//! with, where some wrappers skip a step first; so raw returns, which are those of whole games, miss no reward.
#![cfg(feature = "atari")]

mod console;
mod env;
mod games;
mod resize;
mod rules;
mod screen;
mod wide;

pub use console::{Console, Outcome};
pub use env::Atari;
pub use games::register;
pub use rules::Rules;
