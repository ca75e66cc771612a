//! InvertedPendulum: balance a pole on a cart.

use crate::{Cursor, Judgement, Simulation, Task};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

const NOISE: &str = "reset_noise_scale";

/// `InvertedPendulum-v5`. Observation: place of the cart, angle of the pole, both velocities. Reward: 1 for every step
/// that does not terminate. Terminates beyond an angle of ±0.2.
pub struct InvertedPendulum {
    reset_noise_scale: f64,
}

impl Task for InvertedPendulum {
    const ID: &'static str = "InvertedPendulum-v5";
    const ABOUT: &'static str = "balance a pole on a cart (MuJoCo)";
    const MODEL: &'static str = include_str!(concat!(
        env!("HOTLOOP_MUJOCO"),
        "/models/inverted_pendulum.xml"
    ));
    const FRAME_SKIP: i64 = 2;

    fn declare(spec: EnvSpec) -> EnvSpec {
        spec.option(
            NOISE,
            0.01,
            "noise on positions and velocities at the start",
        )
    }

    fn new(options: &EnvOptions, _: &Simulation) -> Self {
        Self {
            reset_noise_scale: options.float(NOISE),
        }
    }

    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng) {
        simulation.restart_uniform(self.reset_noise_scale, rng);
    }

    fn judge(&self, simulation: &Simulation, _: &[f32], _: [f64; 2]) -> Judgement {
        let mut all = simulation.positions().iter().chain(simulation.velocities());
        let terminated = !all.all(|x| x.is_finite()) || simulation.positions()[1].abs() > 0.2;
        Judgement {
            reward: f64::from(u8::from(!terminated)),
            terminated,
        }
    }

    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        out.put(simulation.positions());
        out.put(simulation.velocities());
    }
}
