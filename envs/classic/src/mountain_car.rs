//! MountainCar: rock a weak car out of a valley.

use crate::trig::sin_cos;
use crate::{picture, state};
use hotloop_env::{
    ActionView, End, Env, EnvError, EnvRng, Frame, ObservationMut, ResetCtx, Space, StateReader,
    StateWriter, Transition,
};

const MIN_POSITION: f64 = -1.2;
const MAX_POSITION: f64 = 0.6;
const MAX_SPEED: f64 = 0.07;
const GOAL: f64 = 0.5;
const FORCE: f64 = 0.001;
const GRAVITY: f64 = 0.0025;

/// The mountain car of Moore, "Efficient Memory-based Learning for Robot Control" (1990), as in
/// Gymnasium's `MountainCar-v0`, in `f64`.
///
/// Observation: position and velocity. Action: 0 thrusts left, 1 not at all, 2 right. Reward: −1 for
/// every step. The episode terminates at position 0.5 or beyond, unless the car is rolling back.
#[derive(Clone, Debug, Default)]
pub struct MountainCar {
    state: [f64; 2],
}

impl MountainCar {
    /// A car at rest at position 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// A car in this state: position, velocity.
    pub fn with_state(state: [f64; 2]) -> Self {
        Self { state }
    }

    /// Position, velocity.
    pub fn state(&self) -> [f64; 2] {
        self.state
    }
}

/// The observation space of both mountain cars.
pub(crate) fn observation_space() -> Space {
    let f32_rounded = |x: f64| f64::from(x as f32);
    Space::boxed(
        vec![f32_rounded(MIN_POSITION), f32_rounded(-MAX_SPEED)],
        vec![f32_rounded(MAX_POSITION), f32_rounded(MAX_SPEED)],
        &[2],
    )
}

impl Env for MountainCar {
    fn observation_space(&self) -> Space {
        observation_space()
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.state = [ctx.rng().range(-0.6, -0.4), 0.0];
        Ok(())
    }

    #[inline]
    fn step(&mut self, action: ActionView<'_>, _rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let [position, velocity] = self.state;
        let thrust = (action.discrete() - 1) as f64 * FORCE;
        let (_, slope) = sin_cos(3.0 * position);
        let velocity = (velocity + (thrust - slope * GRAVITY)).clamp(-MAX_SPEED, MAX_SPEED);
        let position = (position + velocity).clamp(MIN_POSITION, MAX_POSITION);
        let at_wall = (position == MIN_POSITION) & (velocity < 0.0);
        let velocity = if at_wall { 0.0 } else { velocity };
        self.state = [position, velocity];

        let there = (position >= GOAL) & (velocity >= 0.0);
        let end = if there {
            End::Terminated
        } else {
            End::Continue
        };
        Ok(Transition::new(-1.0, end))
    }

    #[inline]
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&self.state.map(|x| x as f32))
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        state::save(out, &self.state);
        true
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.state = state::load(state)?;
        Ok(())
    }

    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        picture::mountain_car(frame, self.state[0], GOAL);
        Ok(true)
    }
}
