//! Acrobot: swing a two-link pendulum up.

use crate::trig::sin_cos;
use crate::{picture, state};
use hotloop_env::{
    ActionView, Env, EnvError, EnvRng, Frame, ObservationMut, ResetCtx, Space, StateReader,
    StateWriter, Transition,
};
use std::f64::consts::{FRAC_PI_2, PI};

/// Seconds per step.
const DT: f64 = 0.2;
const LINK_LENGTH_1: f64 = 1.0;
const LINK_MASS_1: f64 = 1.0;
const LINK_MASS_2: f64 = 1.0;
/// Where the centres of mass lie on their links.
const LINK_COM_1: f64 = 0.5;
const LINK_COM_2: f64 = 0.5;
/// The moment of inertia of each link.
const LINK_INERTIA: f64 = 1.0;
const MAX_SPEED_1: f64 = 4.0 * PI;
const MAX_SPEED_2: f64 = 9.0 * PI;
const GRAVITY: f64 = 9.8;

/// The acrobot of Sutton, "Generalization in Reinforcement Learning: Successful Examples Using Sparse
/// Coarse Coding" (1996), with the equations of Sutton and Barto's book, as in Gymnasium's
/// `Acrobot-v1`: one fourth-order Runge–Kutta step of 0.2 s in `f64`.
///
/// Observation: cosine and sine of the first joint's angle (0 hangs down), cosine and sine of the
/// second's (relative to the first link), both angular velocities. Action: torque −1, 0 or 1 on the
/// second joint. Reward: −1 for every step, 0 for the one that reaches the height. The episode
/// terminates when the free end is more than one link above the pivot.
#[derive(Clone, Debug, Default)]
pub struct Acrobot {
    state: [f64; 4],
}

impl Acrobot {
    /// An acrobot at rest, hanging down.
    pub fn new() -> Self {
        Self::default()
    }

    /// An acrobot in this state: both angles, both angular velocities.
    pub fn with_state(state: [f64; 4]) -> Self {
        Self { state }
    }

    /// Both angles, both angular velocities.
    pub fn state(&self) -> [f64; 4] {
        self.state
    }
}

/// The time derivative of the state under a torque on the second joint.
fn derivative([theta1, theta2, dtheta1, dtheta2]: [f64; 4], torque: f64) -> [f64; 4] {
    let (m1, m2, l1) = (LINK_MASS_1, LINK_MASS_2, LINK_LENGTH_1);
    let (lc1, lc2) = (LINK_COM_1, LINK_COM_2);
    let (sin2, cos2) = sin_cos(theta2);
    let (_, lean1) = sin_cos(theta1 - FRAC_PI_2);
    let (_, lean12) = sin_cos(theta1 + theta2 - FRAC_PI_2);

    let d1 = m1 * (lc1 * lc1)
        + m2 * (l1 * l1 + lc2 * lc2 + 2.0 * l1 * lc2 * cos2)
        + LINK_INERTIA
        + LINK_INERTIA;
    let d2 = m2 * (lc2 * lc2 + l1 * lc2 * cos2) + LINK_INERTIA;
    let phi2 = m2 * lc2 * GRAVITY * lean12;
    let phi1 = -m2 * l1 * lc2 * (dtheta2 * dtheta2) * sin2
        - 2.0 * m2 * l1 * lc2 * dtheta2 * dtheta1 * sin2
        + (m1 * lc1 + m2 * l1) * GRAVITY * lean1
        + phi2;
    let ddtheta2 = (torque + d2 / d1 * phi1 - m2 * l1 * lc2 * (dtheta1 * dtheta1) * sin2 - phi2)
        / (m2 * (lc2 * lc2) + LINK_INERTIA - d2 * d2 / d1);
    let ddtheta1 = -(d2 * ddtheta2 + phi1) / d1;
    [dtheta1, dtheta2, ddtheta1, ddtheta2]
}

/// One classical fourth-order Runge–Kutta step.
fn runge_kutta(y: [f64; 4], torque: f64) -> [f64; 4] {
    let ahead = |k: [f64; 4], dt: f64| std::array::from_fn(|i| y[i] + dt * k[i]);
    let k1 = derivative(y, torque);
    let k2 = derivative(ahead(k1, DT / 2.0), torque);
    let k3 = derivative(ahead(k2, DT / 2.0), torque);
    let k4 = derivative(ahead(k3, DT), torque);
    std::array::from_fn(|i| y[i] + DT / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]))
}

/// Turns an angle by whole turns until it lies in [−π, π].
fn wrapped(angle: f64) -> f64 {
    if angle.abs() <= PI {
        angle
    } else {
        (angle + PI).rem_euclid(2.0 * PI) - PI
    }
}

impl Env for Acrobot {
    fn observation_space(&self) -> Space {
        let f32_rounded = |x: f64| f64::from(x as f32);
        let (v1, v2) = (f32_rounded(MAX_SPEED_1), f32_rounded(MAX_SPEED_2));
        let high = vec![1.0, 1.0, 1.0, 1.0, v1, v2];
        let low: Vec<f64> = high.iter().map(|x| -x).collect();
        Space::boxed(low, high, &[6])
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        // The first state of an episode is rounded to f32; what follows from it is not.
        self.state = std::array::from_fn(|_| f64::from(ctx.rng().range(-0.1, 0.1) as f32));
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, _rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let torque = (action.discrete() - 1) as f64;
        let [theta1, theta2, dtheta1, dtheta2] = runge_kutta(self.state, torque);
        let (theta1, theta2) = (wrapped(theta1), wrapped(theta2));
        self.state = [
            theta1,
            theta2,
            dtheta1.clamp(-MAX_SPEED_1, MAX_SPEED_1),
            dtheta2.clamp(-MAX_SPEED_2, MAX_SPEED_2),
        ];
        let ((_, cos1), (_, cos12)) = (sin_cos(theta1), sin_cos(theta2 + theta1));
        Ok(if -cos1 - cos12 > 1.0 {
            Transition::terminated(0.0)
        } else {
            Transition::running(-1.0)
        })
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        let [theta1, theta2, dtheta1, dtheta2] = self.state;
        let ((sin1, cos1), (sin2, cos2)) = (sin_cos(theta1), sin_cos(theta2));
        out.write(&[cos1, sin1, cos2, sin2, dtheta1, dtheta2].map(|x| x as f32))
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
        picture::acrobot(frame, self.state[0], self.state[1]);
        Ok(true)
    }
}
