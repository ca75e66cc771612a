//! Hopper: hop on one leg, in a plane.

use crate::health::Health;
use crate::moving::Forward;
use crate::{Cursor, Judgement, Simulation, Task};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

/// `Hopper-v5`. Observation: 5 positions (height, angles) and 6 velocities cut to ±10. Reward: speed ahead, 1 while
/// healthy, less 0.001 × squared controls. Terminates below a height of 0.7, beyond an angle of ±0.2, or when another
/// coordinate or a velocity is beyond ±100.
pub struct Hopper {
    forward: Forward,
    health: Health,
}

impl Task for Hopper {
    const ID: &'static str = "Hopper-v5";
    const ABOUT: &'static str = "hop ahead on one leg in a plane (MuJoCo)";
    const MODEL: &'static str = include_str!(concat!(env!("HOTLOOP_MUJOCO"), "/models/hopper.xml"));
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
        let positions = simulation.positions();
        let (z, angle) = (positions[1], positions[2]);
        let mut others = positions[2..].iter().chain(simulation.velocities());
        let healthy =
            others.all(|x| x.abs() < 100.0) && z > 0.7 && z < f64::INFINITY && angle.abs() < 0.2;
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
