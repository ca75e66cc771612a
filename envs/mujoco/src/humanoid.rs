//! Humanoid: walk on two legs.

use crate::body_parts::{BodyParts, impact_cost};
use crate::health::Health;
use crate::moving::Forward;
use crate::{Cursor, Judgement, Simulation, Task};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

const CONTACT: &str = "contact_cost_weight";

/// `Humanoid-v5`. Observation: 22 positions, 23 velocities, and of 13 bodies inertia and mass (10 numbers each),
/// velocity (6) and external force (6), with the 17 joints' actuator forces between the last two. Reward: 1.25 × speed of
/// the centre of mass along x, 5 while healthy, less 0.1 × squared controls, less 0.0000005 × squared forces (at most
/// 10). Terminates outside of heights 1 to 2.
pub struct Humanoid {
    forward: Forward,
    health: Health,
    parts: BodyParts,
    contact_cost_weight: f64,
    mass: f64,
}

impl Task for Humanoid {
    const ID: &'static str = "Humanoid-v5";
    const ABOUT: &'static str = "walk ahead as a human does (MuJoCo)";
    const MODEL: &'static str =
        include_str!(concat!(env!("HOTLOOP_MUJOCO"), "/models/humanoid.xml"));
    const FRAME_SKIP: i64 = 5;
    const FORCES: bool = true;

    fn declare(spec: EnvSpec) -> EnvSpec {
        let spec = Health::declare(Forward::declare(spec, 1.25, 0.1, 1e-2), 5.0);
        BodyParts::declare(spec).option(CONTACT, 5e-7, "cost per squared external force")
    }

    fn new(options: &EnvOptions, simulation: &Simulation) -> Self {
        Self {
            forward: Forward::new(options, 2),
            health: Health::new(options),
            parts: BodyParts::new(options),
            contact_cost_weight: options.float(CONTACT),
            mass: simulation.model().body_mass().iter().sum(),
        }
    }

    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng) {
        simulation.restart_uniform(self.forward.moving.reset_noise_scale, rng);
    }

    /// The centre of mass.
    fn place(&self, simulation: &Simulation) -> [f64; 2] {
        let masses = simulation.model().body_mass();
        let centres = simulation.data().xipos();
        [0, 1].map(|i| {
            let moments = masses
                .iter()
                .zip(centres)
                .map(|(mass, centre)| mass * centre[i]);
            moments.sum::<f64>() / self.mass
        })
    }

    fn judge(&self, simulation: &Simulation, _: &[f32], [speed, _]: [f64; 2]) -> Judgement {
        let z = simulation.positions()[2];
        let costs = self.forward.moving.applied_cost(simulation)
            + impact_cost(simulation, self.contact_cost_weight);
        self.health
            .judge(z > 1.0 && z < 2.0, self.forward.reward(speed), costs)
    }

    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        self.forward.moving.observe(simulation, out);
        self.parts.observe(simulation, out);
    }
}
