//! HumanoidStandup: get up from the floor.

use crate::body_parts::{BodyParts, impact_cost};
use crate::moving::Moving;
use crate::{Cursor, Judgement, Simulation, Task};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

const IMPACT: &str = "impact_cost_weight";

/// `HumanoidStandup-v5`. Observation: as Humanoid's. Reward: height divided by the time of one substep, and 1, less
/// 0.1 × squared controls, less 0.0000005 × squared forces (at most 10). It never terminates.
///
/// Gymnasium's `uph_cost_weight` is missing here: it has no effect there.
pub struct HumanoidStandup {
    moving: Moving,
    parts: BodyParts,
    impact_cost_weight: f64,
}

impl Task for HumanoidStandup {
    const ID: &'static str = "HumanoidStandup-v5";
    const ABOUT: &'static str = "get up from the floor as a human does (MuJoCo)";
    const MODEL: &'static str = include_str!(concat!(
        env!("HOTLOOP_MUJOCO"),
        "/models/humanoidstandup.xml"
    ));
    const FRAME_SKIP: i64 = 5;
    const FORCES: bool = true;

    fn declare(spec: EnvSpec) -> EnvSpec {
        BodyParts::declare(Moving::declare(spec, 0.1, 1e-2)).option(
            IMPACT,
            0.5e-6,
            "cost per squared external force",
        )
    }

    fn new(options: &EnvOptions, _: &Simulation) -> Self {
        Self {
            moving: Moving::new(options, 2),
            parts: BodyParts::new(options),
            impact_cost_weight: options.float(IMPACT),
        }
    }

    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng) {
        simulation.restart_uniform(self.moving.reset_noise_scale, rng);
    }

    fn judge(&self, simulation: &Simulation, _: &[f32], _: [f64; 2]) -> Judgement {
        let up = simulation.positions()[2] / simulation.timestep();
        let control = self.moving.applied_cost(simulation);
        let impact = impact_cost(simulation, self.impact_cost_weight);
        Judgement::running(up - control - impact + 1.0)
    }

    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        self.moving.observe(simulation, out);
        self.parts.observe(simulation, out);
    }
}
