//! The trait a user implements, and the one the engine knows.

use crate::{
    ActionView, EnvError, EnvRng, Frame, ObservationMut, Philox, Rows, Space, StateReader,
    StateWriter, Stream, Transition,
};

/// What an environment gets when it starts an episode.
pub struct ResetCtx<'a> {
    rng: &'a mut EnvRng,
    seeds: Philox,
    lane: u64,
    episode: u64,
}

impl<'a> ResetCtx<'a> {
    /// The context of episode `episode` of `lane` in a run with this seed.
    pub fn new(rng: &'a mut EnvRng, run_seed: u64, lane: u64, episode: u64) -> Self {
        Self::with_seeds(rng, Philox::new(run_seed, Stream::Seed), lane, episode)
    }

    pub(crate) fn with_seeds(rng: &'a mut EnvRng, seeds: Philox, lane: u64, episode: u64) -> Self {
        Self {
            rng,
            seeds,
            lane,
            episode,
        }
    }

    /// The lane's own random numbers: draw the starting state from these.
    pub fn rng(&mut self) -> &mut EnvRng {
        self.rng
    }

    /// A seed for a simulator that wants one; another for each lane and episode, and never one of
    /// training in an evaluation.
    pub fn seed(&self) -> u64 {
        episode_seed(&self.seeds, self.lane, self.episode)
    }

    /// The lane, counted over the whole run: for logs, and for simulators that need a port or a directory
    /// of their own. In an evaluation, the number of the episode.
    pub fn lane(&self) -> u64 {
        self.lane
    }

    /// The number of the episode that starts, from 0, counted for this lane.
    pub fn episode(&self) -> u64 {
        self.episode
    }
}

/// As [`ResetCtx::seed`].
pub(crate) fn episode_seed(seeds: &Philox, lane: u64, episode: u64) -> u64 {
    let words = seeds.block(lane, episode);
    words[0] as u64 | (words[1] as u64) << 32
}

/// One environment. See the crate's example.
///
/// `reset` and every `step` are followed by one `observe`, which writes the observation straight into
/// the memory that inference reads. After a step that ends the episode because it was truncated the
/// engine observes first (the final observation counts) and resets one step later; after one that
/// terminated it resets at once.
pub trait Env: Send {
    /// What `observe` writes. Asked once.
    fn observation_space(&self) -> Space;

    /// What `step` takes. Asked once.
    fn action_space(&self) -> Space;

    /// Starts an episode. All randomness comes from `ctx`.
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError>;

    /// Takes one action.
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError>;

    /// Writes the current observation. What it leaves unwritten is unspecified.
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError>;

    /// Says which choices are allowed now: 1 for allowed, 0 for not, one byte for each choice of every
    /// masked leaf of the action space, in order. Called after `observe`, only if the space has masks;
    /// all are allowed by default.
    fn action_mask(&mut self, mask: &mut [u8]) {
        mask.fill(1);
    }

    /// Saves everything that `load` needs to go on from here bit for bit, and returns true; or returns
    /// false (the default): then a resumed run starts a new episode in this lane.
    fn save(&self, out: &mut StateWriter) -> bool {
        let _ = out;
        false
    }

    /// Goes to a state that `save` wrote.
    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        let _ = state;
        Err(EnvError::new("this environment does not load states"))
    }

    /// Draws the present state into `frame`, and returns true; or returns false (the default): it cannot be
    /// drawn. Called after `reset` or `step` and the `observe` that follows, if one does (after a step that
    /// terminated none does), only where somebody looks: never in training, and only of environments made
    /// with [`EnvOptions::is_drawn`](crate::EnvOptions::is_drawn).
    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        let _ = frame;
        Ok(false)
    }

    /// The present state as text for a terminal, if it is one of cells: lines of equal width, each ended by
    /// `\n`; colours by the escape sequences `ESC [ … m` are welcome. None (the default) if not.
    fn glyphs(&self) -> Option<String> {
        None
    }
}

impl<E: Env + ?Sized> Env for Box<E> {
    fn observation_space(&self) -> Space {
        (**self).observation_space()
    }
    fn action_space(&self) -> Space {
        (**self).action_space()
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        (**self).reset(ctx)
    }
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        (**self).step(action, rng)
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        (**self).observe(out)
    }
    fn action_mask(&mut self, mask: &mut [u8]) {
        (**self).action_mask(mask);
    }
    fn save(&self, out: &mut StateWriter) -> bool {
        (**self).save(out)
    }
    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        (**self).load(state)
    }
    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        (**self).render(frame)
    }
    fn glyphs(&self) -> Option<String> {
        (**self).glyphs()
    }
}

/// A block of lanes that are stepped together: the one trait the engine knows.
///
/// [`Copies`](crate::Copies) makes one of any [`Env`]; a batched simulator implements it directly. For
/// every lane of `rows` exactly one outcome is given in every call: see [`Rows`].
///
/// ```
/// use hotloop_env::{Cause, FaultPhase, Rows, Transition, Turn, VectorEnv};
///
/// /// Counts to three in every lane, all lanes in one array.
/// struct Counters { at: Vec<u32> }
///
/// impl VectorEnv for Counters {
///     fn lanes(&self) -> usize { self.at.len() }
///
///     fn reset(&mut self, rows: &mut Rows<'_>) { self.step(rows) }
///
///     fn step(&mut self, rows: &mut Rows<'_>) {
///         for lane in 0..self.at.len() {
///             let mut place = match rows.turn(lane) {
///                 Turn::Reset(_) => {
///                     self.at[lane] = 0;
///                     rows.begin(lane)
///                 }
///                 Turn::Step(action, _) => {
///                     self.at[lane] += 1 + action.discrete() as u32;
///                     if self.at[lane] >= 3 {
///                         // Terminated: what follows is the first observation of the next episode.
///                         self.at[lane] = 0;
///                         rows.proceed(lane, Transition::terminated(1.0))
///                     } else {
///                         rows.proceed(lane, Transition::running(0.0))
///                     }
///                 }
///             };
///             if let Err(error) = place.write(&[self.at[lane] as f32]) {
///                 rows.fail(lane, FaultPhase::Step, Cause::Error, error.to_string());
///             }
///         }
///     }
/// }
/// ```
pub trait VectorEnv: Send {
    /// The number of lanes.
    fn lanes(&self) -> usize;

    /// Starts the first episode of every lane: `rows` is before its first row, every lane's turn is
    /// [`Turn::Reset`](crate::Turn::Reset).
    fn reset(&mut self, rows: &mut Rows<'_>);

    /// Gives every lane its turn.
    fn step(&mut self, rows: &mut Rows<'_>);

    /// As [`Env::save`], for one lane of the block.
    fn save(&self, lane: usize, out: &mut StateWriter) -> bool {
        let _ = (lane, out);
        false
    }

    /// As [`Env::load`], for one lane of the block.
    fn load(&mut self, lane: usize, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        let _ = (lane, state);
        Err(EnvError::new("this environment does not load states"))
    }

    /// As [`Env::render`], for one lane of the block: the state that its last turn led to. Where frames are
    /// asked for ([`EnvOptions::is_drawn`](crate::EnvOptions::is_drawn)), a block tells a step that
    /// terminated an episode as one that truncated it, so that the last state of the episode can be drawn before
    /// the reset.
    fn render(&mut self, lane: usize, frame: &mut Frame) -> Result<bool, EnvError> {
        let _ = (lane, frame);
        Ok(false)
    }

    /// As [`Env::glyphs`], for one lane of the block.
    fn glyphs(&self, lane: usize) -> Option<String> {
        let _ = lane;
        None
    }
}
