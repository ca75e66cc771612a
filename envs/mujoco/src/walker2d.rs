//! Walker2d: walk on two legs, in a plane.

use crate::health::Health;
use crate::moving::Forward;
use crate::{Cursor, Judgement, Simulation, Task};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

/// `Walker2d-v5`. Observation: 8 positions (height, angles) and 9 velocities cut to ±10. Reward: speed ahead, 1 while
/// healthy, less 0.001 × squared controls. Terminates outside of heights 0.8 to 2 and angles ±1.
pub struct Walker2d {
    forward: Forward,
    health: Health,
}

impl Task for Walker2d {
    const ID: &'static str = "Walker2d-v5";
    const ABOUT: &'static str = "walk ahead on two legs in a plane (MuJoCo)";
    const MODEL: &'static str =
        include_str!(concat!(env!("HOTLOOP_MUJOCO"), "/models/walker2d_v5.xml"));
    const FRAME_SKIP: i64 = 4;

    fn declare(spec: EnvSpec) -> EnvSpec {
        Health::declare(Forward::declare(spec, 1.0, 1e-3, 5e-3), 1.0)
    }

    fn new(options: &EnvOptions, _: &Simulation) -> Self {
        Self {
            forward: Forward::new(options, 1),
            health: Health::new(options),
        }
    }

    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng) {
        simulation.restart_uniform(self.forward.moving.reset_noise_scale, rng);
    }

    fn place(&self, simulation: &Simulation) -> [f64; 2] {
        [simulation.positions()[0], 0.0]
    }

    fn judge(&self, simulation: &Simulation, action: &[f32], [speed, _]: [f64; 2]) -> Judgement {
        let (z, angle) = (simulation.positions()[1], simulation.positions()[2]);
        let healthy = z > 0.8 && z < 2.0 && angle.abs() < 1.0;
        self.health.judge(
            healthy,
            self.forward.reward(speed),
            self.forward.moving.control_cost(action),
        )
    }

    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        self.forward.moving.observe_cut(simulation, out);
    }
}
