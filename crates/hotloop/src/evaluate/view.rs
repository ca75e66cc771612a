//! What is shown to those who look on while a policy plays.

use hotloop_env::{Block, EnvError, Frame};

/// One state of an episode that is watched: the first one, then the one that each step led to.
pub struct View<'a> {
    pub(super) block: &'a mut Block,
    pub(super) frame: &'a mut Frame,
    pub(super) env: &'a str,
    pub(super) episode: usize,
    pub(super) steps: u32,
    pub(super) episode_return: f64,
    pub(super) is_over: bool,
}

impl View<'_> {
    /// The number of the episode, from 0.
    pub fn episode(&self) -> usize {
        self.episode
    }

    /// Steps so far in this episode; 0 for its first state.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// The sum of raw rewards so far.
    pub fn episode_return(&self) -> f64 {
        self.episode_return
    }

    /// Whether this is the last state of the episode.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Draws the state; none if the environment cannot be drawn.
    ///
    /// # Errors
    /// If the environment fails at it.
    pub fn frame(&mut self) -> Result<Option<&Frame>, EnvError> {
        let drawn = self.block.render(0, self.frame).map_err(|error| {
            EnvError::new(format!(
                "{}, episode {}, step {}: render failed: {error}",
                self.env, self.episode, self.steps
            ))
        })?;
        Ok(drawn.then_some(&*self.frame))
    }

    /// The state as text, if it is one of cells: see [`Env::glyphs`](hotloop_env::Env::glyphs).
    pub fn glyphs(&self) -> Option<String> {
        self.block.glyphs(0)
    }
}
