//! Swimmer: three links in a viscous fluid.

use crate::moving::Forward;
use crate::{Cursor, Judgement, Simulation, Task};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

/// `Swimmer-v5`. Observation: 3 angles and 5 velocities. Reward: speed along x less 0.0001 × squared controls. It
/// never terminates.
pub struct Swimmer(Forward);

impl Task for Swimmer {
    const ID: &'static str = "Swimmer-v5";
    const ABOUT: &'static str = "swim ahead with three links (MuJoCo)";
    const MODEL: &'static str =
        include_str!(concat!(env!("HOTLOOP_MUJOCO"), "/models/swimmer.xml"));
    const FRAME_SKIP: i64 = 4;

    fn declare(spec: EnvSpec) -> EnvSpec {
        Forward::declare(spec, 1.0, 1e-4, 0.1)
    }

    fn new(options: &EnvOptions, _: &Simulation) -> Self {
        Self(Forward::new(options, 2))
    }

    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng) {
        simulation.restart_uniform(self.0.moving.reset_noise_scale, rng);
    }

    fn place(&self, simulation: &Simulation) -> [f64; 2] {
        [simulation.positions()[0], simulation.positions()[1]]
    }

    fn judge(&self, _: &Simulation, action: &[f32], [speed, _]: [f64; 2]) -> Judgement {
        Judgement::running(self.0.reward(speed) - self.0.moving.control_cost(action))
    }

    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        self.0.moving.observe(simulation, out);
    }
}
