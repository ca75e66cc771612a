//! CartPole: balance a pole on a cart.

use crate::trig::sin_cos_small;
use crate::{picture, state};
use hotloop_env::{
    ActionView, End, Env, EnvError, EnvRng, Frame, ObservationMut, ResetCtx, Space, StateReader,
    StateWriter, Transition,
};

const GRAVITY: f64 = 9.8;
const MASS_CART: f64 = 1.0;
const MASS_POLE: f64 = 0.1;
const TOTAL_MASS: f64 = MASS_POLE + MASS_CART;
/// Half the pole's length, in metres.
const LENGTH: f64 = 0.5;
/// The push on the cart, in newtons.
const FORCE: f64 = 10.0;
// Quotients of constants, so that a step divides once.
const PUSH: f64 = FORCE / TOTAL_MASS;
const MASS_RATIO: f64 = MASS_POLE / TOTAL_MASS;
const MOMENT_RATIO: f64 = MASS_POLE * LENGTH / TOTAL_MASS;
/// Seconds per step.
const TAU: f64 = 0.02;
/// The episode ends when the pole leans further: 12 degrees.
const MAX_THETA: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;
/// The episode ends when the cart is further out, in metres.
const MAX_X: f64 = 2.4;

/// The cart-pole of Barto, Sutton and Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult
/// Learning Control Problems" (1983), as in Gymnasium's `CartPole-v1`; Euler steps of 0.02 s in `f64`.
///
/// Observation: cart position (m), cart velocity, pole angle (rad), pole angular velocity. Action: 0
/// pushes left, 1 right, with 10 N. Reward: 1 for every step, the last one included. The episode
/// terminates when the cart is more than 2.4 m from the centre or the pole leans more than 12°.
#[derive(Clone, Debug, Default)]
pub struct CartPole {
    state: [f64; 4],
}

impl CartPole {
    /// A cart-pole at rest, upright.
    pub fn new() -> Self {
        Self::default()
    }

    /// A cart-pole in this state: position, velocity, angle, angular velocity.
    pub fn with_state(state: [f64; 4]) -> Self {
        Self { state }
    }

    /// Position, velocity, angle, angular velocity.
    pub fn state(&self) -> [f64; 4] {
        self.state
    }
}

impl Env for CartPole {
    fn observation_space(&self) -> Space {
        let high = vec![
            f64::from((2.0 * MAX_X) as f32),
            f64::INFINITY,
            f64::from((2.0 * MAX_THETA) as f32),
            f64::INFINITY,
        ];
        let low: Vec<f64> = high.iter().map(|x| -x).collect();
        Space::boxed(low, high, &[4])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.state = std::array::from_fn(|_| ctx.rng().range(-0.05, 0.05));
        Ok(())
    }

    #[inline(always)]
    fn step(&mut self, action: ActionView<'_>, _rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let [x, x_dot, theta, theta_dot] = self.state;
        // Arithmetic, because the sign of the push is what a branch predictor cannot foresee.
        let push = PUSH * (2 * action.discrete() - 1) as f64;
        let (sin, cos) = sin_cos_small(theta);

        // The division does not wait for the numerator: lanes overlap as far as the chain is short.
        let inverse = 1.0 / (LENGTH * (4.0 / 3.0 - MASS_RATIO * (cos * cos)));
        let temp = push + MOMENT_RATIO * (theta_dot * theta_dot) * sin;
        let theta_acc = (GRAVITY * sin - cos * temp) * inverse;
        let x_acc = temp - MOMENT_RATIO * cos * theta_acc;

        let x = x + TAU * x_dot;
        let theta = theta + TAU * theta_dot;
        self.state = [x, x_dot + TAU * x_acc, theta, theta_dot + TAU * theta_acc];

        let fallen = (x.abs() > MAX_X) | (theta.abs() > MAX_THETA);
        let end = if fallen {
            End::Terminated
        } else {
            End::Continue
        };
        Ok(Transition::new(1.0, end))
    }

    #[inline(always)]
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
        picture::cartpole(frame, self.state[0], self.state[2]);
        Ok(true)
    }
}
