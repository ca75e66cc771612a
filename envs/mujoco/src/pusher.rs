//! Pusher: push an object to a goal with an arm.

use crate::{Cursor, Judgement, Simulation, Task, sums};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

const NEAR: &str = "reward_near_weight";
const DISTANCE: &str = "reward_dist_weight";
const CONTROL: &str = "reward_control_weight";

/// `Pusher-v5`. Observation: 7 angles and 7 velocities of the arm, places of its tip, the object and the goal. Reward:
/// −(distance of the object from the goal) − 0.1 × squared controls − 0.5 × (distance of the object from the tip). It
/// never terminates.
///
/// A start draws places of the object (x, then y) until one is farther than 0.17 from the goal, then the velocities.
pub struct Pusher {
    near_weight: f64,
    distance_weight: f64,
    control_weight: f64,
    tip: usize,
    object: usize,
    goal: usize,
}

fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    sums::squares([0, 1, 2].map(|i| a[i] - b[i]).into_iter()).sqrt()
}

impl Task for Pusher {
    const ID: &'static str = "Pusher-v5";
    const ABOUT: &'static str = "push an object to a goal with an arm (MuJoCo)";
    const MODEL: &'static str =
        include_str!(concat!(env!("HOTLOOP_MUJOCO"), "/models/pusher_v5.xml"));
    const FRAME_SKIP: i64 = 5;
    const TIME_LIMIT: u32 = 100;

    fn declare(spec: EnvSpec) -> EnvSpec {
        spec.option(NEAR, 0.5, "cost per metre of the object from the tip")
            .option(DISTANCE, 1.0, "cost per metre of the object from the goal")
            .option(CONTROL, 0.1, "cost per squared control")
    }

    fn new(options: &EnvOptions, simulation: &Simulation) -> Self {
        Self {
            near_weight: options.float(NEAR),
            distance_weight: options.float(DISTANCE),
            control_weight: options.float(CONTROL),
            tip: simulation.body_named("tips_arm"),
            object: simulation.body_named("object"),
            goal: simulation.body_named("goal"),
        }
    }

    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng) {
        let object = loop {
            let [x, y] = [rng.range(-0.3, 0.0), rng.range(-0.2, 0.2)];
            if (x * x + y * y).sqrt() > 0.17 {
                break [x, y];
            }
        };
        simulation.restart(
            |positions| {
                positions[7..9].copy_from_slice(&object);
                positions[9..].fill(0.0);
            },
            |velocities| {
                for velocity in &mut *velocities {
                    *velocity += rng.range(-0.005, 0.005);
                }
                velocities[7..].fill(0.0);
            },
        );
    }

    fn judge(&self, simulation: &Simulation, action: &[f32], _: [f64; 2]) -> Judgement {
        let object = simulation.body(self.object);
        let near = distance(object, simulation.body(self.tip)) * self.near_weight;
        let far = distance(object, simulation.body(self.goal)) * self.distance_weight;
        let control = sums::squares(action.iter().copied()) * self.control_weight as f32;
        Judgement::running(-far - f64::from(control) - near)
    }

    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        out.put(&simulation.positions()[..7]);
        out.put(&simulation.velocities()[..7]);
        for body in [self.tip, self.object, self.goal] {
            out.put(&simulation.body(body));
        }
    }
}
