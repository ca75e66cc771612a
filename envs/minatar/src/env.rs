//! The environment around a game: spaces, sticky actions, saved states.

use crate::{Action, Canvas, Game, SIDE};
use hotloop_env::{
    ActionView, Board, Bound, BoxSpace, DType, Env, EnvError, EnvRng, Frame, ImageLayout,
    ObservationMut, ResetCtx, Space, StateReader, StateWriter, Transition,
};

/// Pixels along a cell of a picture.
const CELL: u32 = 24;
/// Pictures per second at which people can follow the games.
const FPS: f64 = 15.0;

/// What can be set for every game.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The probability, from 0 to 1, that the action of the step before is taken in place of the chosen one.
    pub sticky_action_prob: f64,
    /// Whether the game becomes more difficult as an episode goes on.
    pub difficulty_ramping: bool,
}

impl Default for Rules {
    /// The published ones: 0.1, with ramping.
    fn default() -> Self {
        Self {
            sticky_action_prob: 0.1,
            difficulty_ramping: true,
        }
    }
}

/// A game as an environment.
///
/// ```
/// use hotloop_env::{Env, Space};
/// use hotloop_minatar::{Breakout, MinAtar, Rules};
///
/// let env = MinAtar::<Breakout>::new(Rules::default())?;
/// assert_eq!(env.action_space(), Space::discrete(3));
/// # Ok::<(), hotloop_env::EnvError>(())
/// ```
#[derive(Debug)]
pub struct MinAtar<G> {
    game: G,
    rules: Rules,
    /// What the game got at the step before.
    last: Action,
}

impl<G: Game> MinAtar<G> {
    /// The game under these rules; an error if the probability is none.
    pub fn new(rules: Rules) -> Result<Self, EnvError> {
        if !(0.0..=1.0).contains(&rules.sticky_action_prob) {
            return Err(EnvError::new(format!(
                "sticky_action_prob is {}, expected a probability from 0 to 1",
                rules.sticky_action_prob
            )));
        }
        Ok(Self {
            game: G::default(),
            rules,
            last: Action::Noop,
        })
    }

    /// The game as people see it.
    fn board(&self) -> Board {
        let side = SIDE as usize;
        let mut cells = vec![0; side * side * G::CHANNELS];
        self.game.draw(&mut Canvas::new(&mut cells, G::CHANNELS));
        let mut board = Board::new(side, side);
        for &(plane, glyph, colour) in G::LOOK {
            for (at, cell) in cells.chunks_exact(G::CHANNELS).enumerate() {
                if cell[plane] == 1 {
                    board.set(at % side, at / side, glyph, colour);
                }
            }
        }
        board
    }
}

impl<G: Game> Env for MinAtar<G> {
    fn observation_space(&self) -> Space {
        Space::Box(BoxSpace {
            shape: vec![SIDE as usize, SIDE as usize, G::CHANNELS],
            low: Bound::Uniform(0.0),
            high: Bound::Uniform(1.0),
            dtype: DType::U8,
            image: Some(ImageLayout::Hwc),
        })
    }

    fn action_space(&self) -> Space {
        Space::discrete(G::ACTIONS.len())
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.last = Action::Noop;
        self.game.reset(ctx.rng());
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        if rng.uniform() >= self.rules.sticky_action_prob {
            self.last = G::ACTIONS[action.discrete() as usize];
        }
        Ok(self.game.act(self.last, self.rules.difficulty_ramping, rng))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.game.draw(&mut Canvas::new(out.slice()?, G::CHANNELS));
        Ok(())
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        let last = G::ACTIONS.iter().position(|&action| action == self.last);
        out.u8(last.expect("the last action is one of the game's") as u8);
        self.game.save(out);
        true
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        let last = state.u8()?;
        self.last = *G::ACTIONS.get(last as usize).ok_or_else(|| {
            EnvError::new(format!(
                "saved state: last action {last}, but the game has {}",
                G::ACTIONS.len()
            ))
        })?;
        self.game.load(state)
    }

    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        self.board().draw(frame, CELL);
        frame.fps = FPS;
        Ok(true)
    }

    fn glyphs(&self) -> Option<String> {
        Some(self.board().text())
    }
}
