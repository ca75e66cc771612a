//! Cuts episodes after a number of steps.

use crate::{
    ActionView, AsyncEnv, Env, EnvError, EnvRng, Frame, ObservationMut, ResetCtx, Space,
    StateReader, StateWriter, Transition,
};

/// Truncates an episode at its `limit`-th step, unless it ended there by itself.
pub struct TimeLimit<E> {
    env: E,
    limit: u32,
    elapsed: u32,
}

impl<E> TimeLimit<E> {
    /// Limits episodes of `env` to `limit` steps. Panics if `limit` is 0.
    pub fn new(env: E, limit: u32) -> Self {
        assert!(limit > 0, "a time limit of 0 steps leaves no episode");
        Self {
            env,
            limit,
            elapsed: 0,
        }
    }

    fn count(&mut self, transition: Transition) -> Transition {
        self.elapsed += 1;
        if self.elapsed >= self.limit {
            transition.cut()
        } else {
            transition
        }
    }
}

impl<E: Env> Env for TimeLimit<E> {
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.elapsed = 0;
        self.env.reset(ctx)
    }

    #[inline]
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let transition = self.env.step(action, rng)?;
        Ok(self.count(transition))
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        out.u32(self.elapsed);
        self.env.save(out)
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.elapsed = state.u32()?;
        self.env.load(state)
    }

    delegate!(observation_space, action_space, observe, action_mask);
}

impl<E: AsyncEnv> AsyncEnv for TimeLimit<E> {
    fn observation_space(&self) -> Space {
        self.env.observation_space()
    }

    fn action_space(&self) -> Space {
        self.env.action_space()
    }

    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.elapsed = 0;
        self.env.reset(ctx).await
    }

    async fn step(
        &mut self,
        action: ActionView<'_>,
        rng: &mut EnvRng,
    ) -> Result<Transition, EnvError> {
        let transition = self.env.step(action, rng).await?;
        Ok(self.count(transition))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.env.observe(out)
    }

    fn action_mask(&mut self, mask: &mut [u8]) {
        self.env.action_mask(mask);
    }

    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        self.env.render(frame)
    }

    fn glyphs(&self) -> Option<String> {
        self.env.glyphs()
    }
}
