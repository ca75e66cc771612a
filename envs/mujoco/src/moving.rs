//! What the environments that move a body have in common.

use crate::{Cursor, Simulation, sums};
use hotloop_env::{EnvOptions, EnvSpec};

const FORWARD: &str = "forward_reward_weight";
const CONTROL: &str = "ctrl_cost_weight";
const NOISE: &str = "reset_noise_scale";
const EXCLUDE: &str = "exclude_current_positions_from_observation";

/// Costs of control, noise at the start, and how much of the position is seen.
pub(crate) struct Moving {
    ctrl_cost_weight: f64,
    pub(crate) reset_noise_scale: f64,
    /// Positions left out of the observation.
    hidden: usize,
}

impl Moving {
    /// Declares its options with these defaults.
    pub(crate) fn declare(spec: EnvSpec, control: f64, noise: f64) -> EnvSpec {
        spec.option(CONTROL, control, "cost per squared control")
            .option(
                NOISE,
                noise,
                "noise on positions and velocities at the start",
            )
            .option(EXCLUDE, true, "whether to hide where it is")
    }

    /// With these options, in a model whose first `coordinates` positions say where it is.
    pub(crate) fn new(options: &EnvOptions, coordinates: usize) -> Self {
        Self {
            ctrl_cost_weight: options.float(CONTROL),
            reset_noise_scale: options.float(NOISE),
            hidden: if options.bool(EXCLUDE) {
                coordinates
            } else {
                0
            },
        }
    }

    /// The cost of an action, in `float32` as NumPy makes it of a `float32` action.
    pub(crate) fn control_cost(&self, action: &[f32]) -> f64 {
        f64::from(self.ctrl_cost_weight as f32 * sums::squares(action.iter().copied()))
    }

    /// The cost of the controls that MuJoCo got, in `float64`.
    pub(crate) fn applied_cost(&self, simulation: &Simulation) -> f64 {
        self.ctrl_cost_weight * sums::squares(simulation.data().ctrl().iter().copied())
    }

    /// Writes positions and velocities.
    pub(crate) fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        out.put(&simulation.positions()[self.hidden..]);
        out.put(simulation.velocities());
    }

    /// Writes positions, and velocities cut to ±10.
    pub(crate) fn observe_cut(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        out.put(&simulation.positions()[self.hidden..]);
        out.map(simulation.velocities(), |v| v.clamp(-10.0, 10.0));
    }
}

/// A body that is paid for getting ahead.
pub(crate) struct Forward {
    pub(crate) moving: Moving,
    forward_reward_weight: f64,
}

impl Forward {
    /// Declares its options with these defaults.
    pub(crate) fn declare(spec: EnvSpec, forward: f64, control: f64, noise: f64) -> EnvSpec {
        let spec = spec.option(FORWARD, forward, "reward per m/s ahead");
        Moving::declare(spec, control, noise)
    }

    /// As [`Moving::new`].
    pub(crate) fn new(options: &EnvOptions, coordinates: usize) -> Self {
        Self {
            moving: Moving::new(options, coordinates),
            forward_reward_weight: options.float(FORWARD),
        }
    }

    /// The reward for a speed in m/s.
    pub(crate) fn reward(&self, speed: f64) -> f64 {
        self.forward_reward_weight * speed
    }
}
