//! An environment that follows a script of rewards, and does something else where a test asks for it.

use hotloop_env::{
    ActionView, End, Env, EnvError, EnvRng, EnvSpec, ObservationMut, Philox, ResetCtx, Space,
    StateReader, StateWriter, Stream, Transition,
};
use std::sync::Arc;

/// What an environment is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being built.
    Build,
    /// It starts an episode.
    Reset,
    /// It takes an action.
    Step,
    /// It shows what it sees.
    Observe,
    /// It saves its state.
    Save,
}

/// Where in a run an environment is.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// What it is doing.
    pub phase: Phase,
    /// Its lane in a run with seed 1 (an episode's number in an evaluation); while it is built nobody
    /// knows, and it is `usize::MAX`.
    pub lane: usize,
    /// The episode, from 0.
    pub episode: u64,
    /// Steps made in it.
    pub step: u32,
}

/// What comes instead of what the script says.
#[derive(Clone, Debug, PartialEq)]
pub enum Twist {
    /// Nothing else.
    None,
    /// This reward.
    Reward(f64),
    /// This observation.
    Observation(Vec<f32>),
}

type Hook = dyn Fn(&Moment) -> Result<Twist, EnvError> + Send + Sync;

/// Gives the rewards of its script one after the other; then the episode ends. Observes
/// `10 * episode + step`, and takes any of two actions.
#[derive(Clone)]
pub struct Script {
    rewards: Vec<f64>,
    end: End,
    hook: Arc<Hook>,
    lane: usize,
    episode: u64,
    step: u32,
}

impl Script {
    /// Terminates after these rewards.
    #[must_use]
    pub fn new(rewards: &[f64]) -> Self {
        Self {
            rewards: rewards.to_vec(),
            end: End::Terminated,
            hook: Arc::new(|_| Ok(Twist::None)),
            lane: usize::MAX,
            episode: 0,
            step: 0,
        }
    }

    /// A reward of 1 a step for `length` steps, then this end.
    #[must_use]
    pub fn count(length: usize, end: End) -> Self {
        Self {
            end,
            ..Self::new(&vec![1.0; length])
        }
    }

    /// Asks `hook` at every turn; it may panic, sleep, fail or change what comes.
    #[must_use]
    pub fn hooked(
        mut self,
        hook: impl Fn(&Moment) -> Result<Twist, EnvError> + Send + Sync + 'static,
    ) -> Self {
        self.hook = Arc::new(hook);
        self
    }

    /// The environment under the id `Script-v0`.
    #[must_use]
    pub fn spec(self) -> EnvSpec {
        EnvSpec::new("Script-v0", move |_| {
            let env = self.clone();
            env.ask(Phase::Build)?;
            Ok(env)
        })
    }

    fn ask(&self, phase: Phase) -> Result<Twist, EnvError> {
        (self.hook)(&Moment {
            phase,
            lane: self.lane,
            episode: self.episode,
            step: self.step,
        })
    }
}

/// The lane whose episode has this seed in a run, or an evaluation, with seed 1.
fn lane_of(ctx: &ResetCtx<'_>) -> usize {
    let find = |stream| {
        let philox = Philox::new(1, stream);
        (0..64).find(|lane| {
            let words = philox.block(*lane as u64, ctx.episode());
            ctx.seed() == u64::from(words[0]) | u64::from(words[1]) << 32
        })
    };
    find(Stream::Seed)
        .or_else(|| find(Stream::EvalSeed))
        .unwrap_or(usize::MAX)
}

impl Env for Script {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        (self.lane, self.episode, self.step) = (lane_of(ctx), ctx.episode(), 0);
        self.ask(Phase::Reset)?;
        Ok(())
    }

    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        let reward = match self.ask(Phase::Step)? {
            Twist::Reward(reward) => reward,
            _ => self.rewards[self.step as usize],
        };
        self.step += 1;
        let over = self.step as usize == self.rewards.len();
        Ok(Transition::new(
            reward,
            if over { self.end } else { End::Continue },
        ))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        match self.ask(Phase::Observe)? {
            Twist::Observation(values) => out.write(&values),
            _ => out.write(&[10.0 * self.episode as f32 + self.step as f32]),
        }
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        out.u64(self.lane as u64);
        out.u64(self.episode);
        out.u32(self.step);
        self.ask(Phase::Save).is_ok()
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.lane = state.u64()? as usize;
        (self.episode, self.step) = (state.u64()?, state.u32()?);
        Ok(())
    }
}
