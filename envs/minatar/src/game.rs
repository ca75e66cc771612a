//! What a game is to the environment around it.

use crate::Canvas;
use hotloop_env::{EnvError, EnvRng, StateReader, StateWriter, Transition};

/// What a player can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    #[default]
    Noop,
    /// One cell to the left.
    Left,
    /// One cell up.
    Up,
    /// One cell to the right.
    Right,
    /// One cell down.
    Down,
    /// Fire.
    Fire,
}

/// The state and the rules of one game, without sticky actions.
pub trait Game: Default + Send {
    /// The number of planes that it draws.
    const CHANNELS: usize;

    /// The actions that do something in this game, no action first.
    const ACTIONS: &'static [Action];

    /// How its planes look to people: plane, glyph and colour (red, green, blue), later ones over earlier ones.
    const LOOK: &'static [(usize, char, [u8; 3])];

    /// Starts an episode.
    fn reset(&mut self, rng: &mut EnvRng);

    /// Plays one frame. `ramping` says whether the game may become more difficult.
    fn act(&mut self, action: Action, ramping: bool, rng: &mut EnvRng) -> Transition;

    /// Draws the board on an empty canvas.
    fn draw(&self, canvas: &mut Canvas<'_>);

    /// Saves all of the state.
    fn save(&self, out: &mut StateWriter);

    /// Goes to a state that `save` wrote.
    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), EnvError>;
}
