//! HalfCheetah: run on two legs, in a plane.

use crate::moving::Forward;
use crate::{Cursor, Judgement, Simulation, Task};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

/// `HalfCheetah-v5`. Observation: 8 positions (height, angles) and 9 velocities. Reward: speed ahead less 0.1 × squared
/// controls. It never terminates.
pub struct HalfCheetah(Forward);

impl Task for HalfCheetah {
    const ID: &'static str = "HalfCheetah-v5";
    const ABOUT: &'static str = "run ahead with two legs in a plane (MuJoCo)";
    const MODEL: &'static str =
        include_str!(concat!(env!("HOTLOOP_MUJOCO"), "/models/half_cheetah.xml"));
    const FRAME_SKIP: i64 = 5;

    fn declare(spec: EnvSpec) -> EnvSpec {
        Forward::declare(spec, 1.0, 0.1, 0.1)
    }

    fn new(options: &EnvOptions, _: &Simulation) -> Self {
        Self(Forward::new(options, 1))
    }

    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng) {
        simulation.restart_normal(self.0.moving.reset_noise_scale, rng);
    }

    fn place(&self, simulation: &Simulation) -> [f64; 2] {
        [simulation.positions()[0], 0.0]
    }

    fn judge(&self, _: &Simulation, action: &[f32], [speed, _]: [f64; 2]) -> Judgement {
        Judgement::running(self.0.reward(speed) - self.0.moving.control_cost(action))
    }

    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        self.0.moving.observe(simulation, out);
    }
}
