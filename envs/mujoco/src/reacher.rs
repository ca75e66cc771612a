//! Reacher: bring the tip of an arm to a target.

use crate::{Cursor, Judgement, Simulation, Task, sums};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

const DISTANCE: &str = "reward_dist_weight";
const CONTROL: &str = "reward_control_weight";

/// `Reacher-v5`. Observation: cosines and then sines of both angles, place of the target, velocities of both angles,
/// vector from the target to the tip (x, y). Reward: −(distance of the tip from the target) − squared controls. It
/// never terminates.
///
/// A start draws the positions, then places of the target until one is within 0.2 of the centre, then the velocities.
pub struct Reacher {
    distance_weight: f64,
    control_weight: f64,
    tip: usize,
    target: usize,
}

impl Reacher {
    fn miss(&self, simulation: &Simulation) -> [f64; 3] {
        let (tip, target) = (simulation.body(self.tip), simulation.body(self.target));
        [0, 1, 2].map(|i| tip[i] - target[i])
    }
}

impl Task for Reacher {
    const ID: &'static str = "Reacher-v5";
    const ABOUT: &'static str = "bring the tip of an arm of two links to a target (MuJoCo)";
    const MODEL: &'static str =
        include_str!(concat!(env!("HOTLOOP_MUJOCO"), "/models/reacher.xml"));
    const FRAME_SKIP: i64 = 2;
    const TIME_LIMIT: u32 = 50;

    fn declare(spec: EnvSpec) -> EnvSpec {
        spec.option(DISTANCE, 1.0, "cost per metre from the target")
            .option(CONTROL, 1.0, "cost per squared control")
    }

    fn new(options: &EnvOptions, simulation: &Simulation) -> Self {
        Self {
            distance_weight: options.float(DISTANCE),
            control_weight: options.float(CONTROL),
            tip: simulation.body_named("fingertip"),
            target: simulation.body_named("target"),
        }
    }

    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng) {
        let mut places = [0.0; 4];
        for noise in &mut places {
            *noise = rng.range(-0.1, 0.1);
        }
        let target = loop {
            let [x, y] = [rng.range(-0.2, 0.2), rng.range(-0.2, 0.2)];
            if (x * x + y * y).sqrt() < 0.2 {
                break [x, y];
            }
        };
        simulation.restart(
            |positions| {
                for (position, noise) in positions.iter_mut().zip(places) {
                    *position += noise;
                }
                positions[2..].copy_from_slice(&target);
            },
            |velocities| {
                for velocity in &mut *velocities {
                    *velocity += rng.range(-0.005, 0.005);
                }
                velocities[2..].fill(0.0);
            },
        );
    }

    fn judge(&self, simulation: &Simulation, action: &[f32], _: [f64; 2]) -> Judgement {
        let distance = sums::squares(self.miss(simulation).into_iter()).sqrt();
        let control = sums::squares(action.iter().copied()) * self.control_weight as f32;
        Judgement::running(-distance * self.distance_weight - f64::from(control))
    }

    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        let positions = simulation.positions();
        out.map(&positions[..2], f64::cos);
        out.map(&positions[..2], f64::sin);
        out.put(&positions[2..]);
        out.put(&simulation.velocities()[..2]);
        out.put(&self.miss(simulation)[..2]);
    }
}
