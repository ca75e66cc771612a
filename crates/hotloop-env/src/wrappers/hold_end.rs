//! Keeps the last state of an episode in view.

use crate::{
    ActionView, AsyncEnv, End, Env, EnvError, EnvRng, Frame, ObservationMut, ResetCtx, Space,
    Transition,
};

/// Lets an episode that terminated rest in its last state for one turn, as one that was truncated does,
/// so that it can be drawn before the reset. Goes around whatever is drawn, and around nothing else:
/// what the learner is told of the end is wrong.
///
/// Nothing is observed of that state, since environments are asked for no observation after a termination.
pub(crate) struct HoldEnd<E> {
    env: E,
    ended: bool,
}

impl<E> HoldEnd<E> {
    pub(crate) fn new(env: E) -> Self {
        Self { env, ended: false }
    }

    fn hold(&mut self, transition: Transition) -> Transition {
        self.ended = transition.end() == End::Terminated;
        transition.held()
    }
}

impl<E: Env> Env for HoldEnd<E> {
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.ended = false;
        self.env.reset(ctx)
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let transition = self.env.step(action, rng)?;
        Ok(self.hold(transition))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        if self.ended {
            out.record().fill(0);
            return Ok(());
        }
        self.env.observe(out)
    }

    fn action_mask(&mut self, mask: &mut [u8]) {
        if self.ended {
            return mask.fill(1);
        }
        self.env.action_mask(mask);
    }

    delegate!(observation_space, action_space, save, load);
}

impl<E: AsyncEnv> AsyncEnv for HoldEnd<E> {
    fn observation_space(&self) -> Space {
        self.env.observation_space()
    }

    fn action_space(&self) -> Space {
        self.env.action_space()
    }

    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.ended = false;
        self.env.reset(ctx).await
    }

    async fn step(
        &mut self,
        action: ActionView<'_>,
        rng: &mut EnvRng,
    ) -> Result<Transition, EnvError> {
        let transition = self.env.step(action, rng).await?;
        Ok(self.hold(transition))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        if self.ended {
            out.record().fill(0);
            return Ok(());
        }
        self.env.observe(out)
    }

    fn action_mask(&mut self, mask: &mut [u8]) {
        if self.ended {
            return mask.fill(1);
        }
        self.env.action_mask(mask);
    }

    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        self.env.render(frame)
    }

    fn glyphs(&self) -> Option<String> {
        self.env.glyphs()
    }
}
