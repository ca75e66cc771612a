//! Pendulum: swing up and hold.

use crate::trig::sin_cos;
use crate::{picture, state};
use hotloop_env::{
    ActionView, Env, EnvError, EnvRng, Frame, ObservationMut, ResetCtx, Space, StateReader,
    StateWriter, Transition,
};
use std::f64::consts::PI;

const MAX_SPEED: f64 = 8.0;
const MAX_TORQUE: f32 = 2.0;
/// Seconds per step.
const DT: f64 = 0.05;
const GRAVITY: f64 = 10.0;
const MASS: f64 = 1.0;
const LENGTH: f64 = 1.0;

/// The pendulum of Gymnasium's `Pendulum-v1`: semi-implicit Euler steps of 0.05 s in `f64`.
///
/// Observation: cosine and sine of the angle (0 is upright), angular velocity. Action: torque, clipped
/// to ±2. Reward: −(angle² + 0.1·velocity² + 0.001·torque²), of the state before the step, with the
/// angle in [−π, π). The episode never terminates.
///
/// The torque is `f32`, and so is what NumPy makes of it before it meets the state.
#[derive(Clone, Debug, Default)]
pub struct Pendulum {
    state: [f64; 2],
}

impl Pendulum {
    /// A pendulum at rest, upright.
    pub fn new() -> Self {
        Self::default()
    }

    /// A pendulum in this state: angle (not normalised), angular velocity.
    pub fn with_state(state: [f64; 2]) -> Self {
        Self { state }
    }

    /// Angle (not normalised), angular velocity.
    pub fn state(&self) -> [f64; 2] {
        self.state
    }
}

/// The angle in [−π, π).
#[inline]
fn normalized(theta: f64) -> f64 {
    (theta + PI).rem_euclid(2.0 * PI) - PI
}

impl Env for Pendulum {
    fn observation_space(&self) -> Space {
        let high = vec![1.0, 1.0, MAX_SPEED];
        let low: Vec<f64> = high.iter().map(|x| -x).collect();
        Space::boxed(low, high, &[3])
    }

    fn action_space(&self) -> Space {
        let torque = f64::from(MAX_TORQUE);
        Space::boxed(-torque, torque, &[1])
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.state = [ctx.rng().range(-PI, PI), ctx.rng().range(-1.0, 1.0)];
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, _rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let [theta, theta_dot] = self.state;
        let torque = action.continuous()[0].clamp(-MAX_TORQUE, MAX_TORQUE);
        let angle = normalized(theta);
        let effort = f64::from(0.001f32 * (torque * torque));
        let cost = angle * angle + 0.1 * (theta_dot * theta_dot) + effort;

        let (sin, _) = sin_cos(theta);
        let pull = 3.0 * GRAVITY / (2.0 * LENGTH) * sin;
        let push = f64::from((3.0 / (MASS * LENGTH * LENGTH)) as f32 * torque);
        let theta_dot = (theta_dot + (pull + push) * DT).clamp(-MAX_SPEED, MAX_SPEED);
        self.state = [theta + theta_dot * DT, theta_dot];
        Ok(Transition::running(-cost))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        let [theta, theta_dot] = self.state;
        let (sin, cos) = sin_cos(theta);
        out.write(&[cos as f32, sin as f32, theta_dot as f32])
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
        picture::pendulum(frame, self.state[0]);
        Ok(true)
    }
}
