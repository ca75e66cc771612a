//! Ant: walk on four legs.

use crate::health::Health;
use crate::moving::Forward;
use crate::{Cursor, Judgement, Simulation, Task, sums};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

/// The body whose velocity counts.
const TORSO: usize = 1;
const CONTACT: &str = "contact_cost_weight";
const INCLUDE_FORCES: &str = "include_cfrc_ext_in_observation";

/// `Ant-v5`. Observation: 13 positions (height, orientation, angles), 14 velocities, and the external force and torque
/// on each of 13 bodies, cut to ±1. Reward: speed of the torso along x, 1 while healthy, less 0.5 × squared
/// controls, less 0.0005 × squared forces, cut as seen. Terminates outside of heights 0.2 to 1.
pub struct Ant {
    forward: Forward,
    health: Health,
    contact_cost_weight: f64,
    include_forces: bool,
}

/// A force as it is seen and paid for.
fn cut(force: f64) -> f64 {
    force.clamp(-1.0, 1.0)
}

impl Task for Ant {
    const ID: &'static str = "Ant-v5";
    const ABOUT: &'static str = "walk ahead on four legs (MuJoCo)";
    const MODEL: &'static str = include_str!(concat!(env!("HOTLOOP_MUJOCO"), "/models/ant.xml"));
    const FRAME_SKIP: i64 = 5;
    const FORCES: bool = true;

    fn declare(spec: EnvSpec) -> EnvSpec {
        Health::declare(Forward::declare(spec, 1.0, 0.5, 0.1), 1.0)
            .option(CONTACT, 5e-4, "cost per squared external force")
            .option(INCLUDE_FORCES, true, "whether external forces are seen")
    }

    fn new(options: &EnvOptions, _: &Simulation) -> Self {
        Self {
            forward: Forward::new(options, 2),
            health: Health::new(options),
            contact_cost_weight: options.float(CONTACT),
            include_forces: options.bool(INCLUDE_FORCES),
        }
    }

    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng) {
        simulation.restart_normal(self.forward.moving.reset_noise_scale, rng);
    }

    fn place(&self, simulation: &Simulation) -> [f64; 2] {
        let [x, y, _] = simulation.body(TORSO);
        [x, y]
    }

    fn judge(&self, simulation: &Simulation, action: &[f32], [speed, _]: [f64; 2]) -> Judgement {
        let (positions, velocities) = (simulation.positions(), simulation.velocities());
        let finite = positions.iter().chain(velocities).all(|x| x.is_finite());
        let healthy = finite && (0.2..=1.0).contains(&positions[2]);
        let forces = simulation.data().cfrc_ext().as_flattened().iter();
        let contact_cost = self.contact_cost_weight * sums::squares(forces.map(|f| cut(*f)));
        self.health.judge(
            healthy,
            self.forward.reward(speed),
            self.forward.moving.control_cost(action) + contact_cost,
        )
    }

    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        self.forward.moving.observe(simulation, out);
        if self.include_forces {
            out.map(simulation.data().cfrc_ext()[1..].as_flattened(), cut);
        }
    }
}
