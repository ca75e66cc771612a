//! What the two humanoids have in common: an observation of all parts of the body, and the cost of impacts.

use crate::{Cursor, Simulation, sums};
use hotloop_env::{EnvOptions, EnvSpec};

/// The options for the parts of the observation, with what each is.
const PARTS: [(&str, &str); 4] = [
    (
        "include_cinert_in_observation",
        "whether the bodies' inertia is seen",
    ),
    (
        "include_cvel_in_observation",
        "whether the bodies' velocities are seen",
    ),
    (
        "include_qfrc_actuator_in_observation",
        "whether the joints' forces are seen",
    ),
    (
        "include_cfrc_ext_in_observation",
        "whether external forces on bodies are seen",
    ),
];

/// Which parts are seen: inertia and mass, velocity, force of the actuators, external force.
pub(crate) struct BodyParts([bool; 4]);

impl BodyParts {
    pub(crate) fn declare(spec: EnvSpec) -> EnvSpec {
        PARTS
            .iter()
            .fold(spec, |spec, (name, about)| spec.option(name, true, about))
    }

    pub(crate) fn new(options: &EnvOptions) -> Self {
        Self(PARTS.map(|(name, _)| options.bool(name)))
    }

    /// Writes what is seen beside positions and velocities. The world's own body is left out, and so are the forces
    /// on the six free coordinates.
    pub(crate) fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>) {
        let [inertia, velocity, actuators, forces] = self.0;
        let data = simulation.data();
        if inertia {
            out.put(data.cinert()[1..].as_flattened());
        }
        if velocity {
            out.put(data.cvel()[1..].as_flattened());
        }
        if actuators {
            out.put(&data.qfrc_actuator()[6..]);
        }
        if forces {
            out.put(data.cfrc_ext()[1..].as_flattened());
        }
    }
}

/// `weight` × squared external forces, at most 10.
pub(crate) fn impact_cost(simulation: &Simulation, weight: f64) -> f64 {
    let forces = simulation.data().cfrc_ext().as_flattened();
    (weight * sums::squares(forces.iter().copied())).min(10.0)
}
