//! MountainCarContinuous: rock a weak car out of a valley and pay for the thrust.

use crate::mountain_car::observation_space;
use crate::trig::sin_cos;
use crate::{picture, state};
use hotloop_env::{
    ActionView, End, Env, EnvError, EnvRng, Frame, ObservationMut, ResetCtx, Space, StateReader,
    StateWriter, Transition,
};

const MIN_POSITION: f64 = -1.2;
const MAX_POSITION: f64 = 0.6;
const MAX_SPEED: f64 = 0.07;
const GOAL: f64 = 0.45;
const POWER: f64 = 0.0015;
const GRAVITY: f64 = 0.0025;

/// The mountain car with continuous thrust, as in Gymnasium's `MountainCarContinuous-v0`.
///
/// Observation: position and velocity. Action: thrust, clipped to ±1 for the dynamics. Reward: 100 on
/// reaching the goal, less 0.1·action² at every step, for the action as it was given. The episode
/// terminates at position 0.45 or beyond, unless the car is rolling back.
///
/// The rounding is Gymnasium's as well: the state that a reset draws is `f64`, every later one `f32`,
/// and one step computes in the type of the state that it starts from.
#[derive(Clone, Debug, Default)]
pub struct ContinuousMountainCar {
    state: [f64; 2],
    /// Whether the state is the one that a reset drew.
    fresh: bool,
}

impl ContinuousMountainCar {
    /// A car at rest at position 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// A car in this state, after the first step of an episode: position, velocity.
    pub fn with_state(state: [f32; 2]) -> Self {
        Self {
            state: state.map(f64::from),
            fresh: false,
        }
    }

    /// Position, velocity; numbers of `f32` after the first step of an episode.
    pub fn state(&self) -> [f64; 2] {
        self.state
    }
}

/// The change of velocity by thrust and slope. NumPy computes with the `f32` action in `f32`; a thrust
/// at the clip is a Python float and leaves everything in `f64`.
#[inline]
fn acceleration(action: f32, slope: f64) -> f64 {
    if action.abs() > 1.0 {
        f64::from(action.signum()) * POWER - GRAVITY * slope
    } else {
        f64::from(action * POWER as f32 - (GRAVITY * slope) as f32)
    }
}

impl Env for ContinuousMountainCar {
    fn observation_space(&self) -> Space {
        observation_space()
    }

    fn action_space(&self) -> Space {
        Space::boxed(-1.0, 1.0, &[1])
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.state = [ctx.rng().range(-0.6, -0.4), 0.0];
        self.fresh = true;
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, _rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let action = action.continuous()[0];
        // A sum or product of two f32 numbers in f64, rounded, is their sum or product in f32.
        let fresh = self.fresh;
        let round = |x: f64| if fresh { x } else { f64::from(x as f32) };
        let [position, velocity] = self.state;
        let (_, slope) = sin_cos(round(3.0 * position));
        let (min, max, top) = (round(MIN_POSITION), round(MAX_POSITION), round(MAX_SPEED));

        let velocity = round(velocity + round(acceleration(action, slope))).clamp(-top, top);
        let position = round(position + velocity).clamp(min, max);
        let at_wall = position == min && velocity < 0.0;
        let velocity = if at_wall { 0.0 } else { velocity };
        let there = position >= round(GOAL) && velocity >= 0.0;

        self.state = [position, velocity].map(|x| f64::from(x as f32));
        self.fresh = false;
        let prize = if there { 100.0 } else { 0.0 };
        let cost = f64::from(action) * f64::from(action) * 0.1;
        let end = if there {
            End::Terminated
        } else {
            End::Continue
        };
        Ok(Transition::new(prize - cost, end))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&self.state.map(|x| x as f32))
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        state::save(out, &self.state);
        out.u8(u8::from(self.fresh));
        true
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.state = state::load(state)?;
        self.fresh = state.u8()? != 0;
        Ok(())
    }

    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        picture::mountain_car(frame, self.state[0], GOAL);
        Ok(true)
    }
}
