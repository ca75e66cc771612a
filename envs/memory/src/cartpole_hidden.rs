//! CartPole without velocities.

use hotloop_classic::CartPole;
use hotloop_env::{
    ActionView, Env, EnvError, EnvRng, Frame, ObservationMut, ResetCtx, Space, StateReader,
    StateWriter, Transition,
};

/// [`CartPole`] of which only positions are observed, so that velocities have to be told from how they
/// change (the partially observed pole of Wieland 1991 and Gomez & Schmidhuber 2005).
///
/// Observation: cart position (m) and pole angle (rad). Actions, rewards, ends and the limit of 500 steps are
/// those of `CartPole-v1`.
#[derive(Clone, Debug, Default)]
pub struct CartPoleHidden {
    inner: CartPole,
}

impl CartPoleHidden {
    /// A cart-pole at rest, upright.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Env for CartPoleHidden {
    fn observation_space(&self) -> Space {
        Space::boxed(vec![f64::NEG_INFINITY; 2], vec![f64::INFINITY; 2], &[2])
    }

    fn action_space(&self) -> Space {
        self.inner.action_space()
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.inner.reset(ctx)
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        self.inner.step(action, rng)
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        let [x, _, theta, _] = self.inner.state();
        out.write(&[x as f32, theta as f32])
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        self.inner.save(out)
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.inner.load(state)
    }

    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        self.inner.render(frame)
    }
}
