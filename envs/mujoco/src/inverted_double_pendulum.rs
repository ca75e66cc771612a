//! InvertedDoublePendulum: balance two poles, one on top of the other, on a cart.

use crate::{Cursor, Judgement, Simulation, Task};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

const REWARD: &str = "healthy_reward";
const NOISE: &str = "reset_noise_scale";

/// `InvertedDoublePendulum-v5`. Observation: place of the cart, sines and then cosines of both angles, three velocities
/// and the constraint force on the cart, the last four cut to ±10. Reward: 10 for every step that does not terminate,
/// less a distance of the tip from its highest place (0.01 x² + (y − 2)²), less 0.001 and 0.005 × the squared
/// velocities of the poles. Terminates when the tip is not above 1.
pub struct InvertedDoublePendulum {
    healthy_reward: f64,
    reset_noise_scale: f64,
}

fn cut(x: f64) -> f64 {
    x.clamp(-10.0, 10.0)
}

impl Task for InvertedDoublePendulum {
    const ID: &'static str = "InvertedDoublePendulum-v5";
    const ABOUT: &'static str = "balance two poles on top of each other on a cart (MuJoCo)";
    const MODEL: &'static str = include_str!(concat!(
        env!("HOTLOOP_MUJOCO"),
        "/models/inverted_double_pendulum.xml"
    ));
    const FRAME_SKIP: i64 = 5;

    fn declare(spec: EnvSpec) -> EnvSpec {
        spec.option(REWARD, 10.0, "reward per step that does not terminate")
            .option(NOISE, 0.1, "noise on positions and velocities at the start")
    }

    fn new(options: &EnvOptions, _: &Simulation) -> Self {
        Self {
            healthy_reward: options.float(REWARD),
            reset_noise_scale: options.float(NOISE),
        }
    }

    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng) {
        simulation.restart_normal(self.reset_noise_scale, rng);
    }

    fn judge(&self, simulation: &Simulation, _: &[f32], _: [f64; 2]) -> Judgement {
        let [x, _, y] = simulation.data().site_xpos()[0];
        let (v1, v2) = (simulation.velocities()[1], simulation.velocities()[2]);
        let distance = 0.01 * (x * x) + (y - 2.0) * (y - 2.0);
        let haste = 1e-3 * (v1 * v1) + 5e-3 * (v2 * v2);
        let terminated = y <= 1.0;
        let bonus = if terminated { 0.0 } else { self.healthy_reward };
        Judgement {
            reward: bonus - distance - haste,
            terminated,
        }
    }

    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        let positions = simulation.positions();
        out.put(&positions[..1]);
        out.map(&positions[1..], f64::sin);
        out.map(&positions[1..], f64::cos);
        out.map(simulation.velocities(), cut);
        out.map(&simulation.data().qfrc_constraint()[..1], cut);
    }
}
