//! From a configuration to what its network remembers of the lanes.

use crate::Error;
use crate::assemble::beyond;
use crate::config::{Config, Recurrent};
use hotloop_learn::net::{CellKind, RecurrentSpec};
use hotloop_learn::{Recall, StateStore, tch::Device};
use hotloop_rollout::StateColumn;

/// The recurrent cell of a network.
pub(crate) fn cell(config: &Config) -> Option<RecurrentSpec> {
    let kind = match config.network.recurrent {
        Recurrent::None => return None,
        Recurrent::Gru => CellKind::Gru,
        Recurrent::Lstm => CellKind::Lstm,
    };
    Some(RecurrentSpec {
        kind,
        hidden: config.network.recurrent_size,
    })
}

/// Elements of what a network remembers of one lane; `None` if it remembers nothing.
fn width(config: &Config) -> Option<usize> {
    cell(config).map(|spec| spec.state(config.network.shared))
}

/// The sequences that a learner trains over.
pub(crate) fn sequences(config: &Config) -> Option<Recall> {
    width(config).map(|state| Recall {
        length: config.sequence(),
        state,
    })
}

/// The states that segments keep.
pub(crate) fn column(config: &Config) -> Option<StateColumn> {
    width(config).map(|width| StateColumn {
        bytes: StateStore::bytes(1, width),
        every: config.sequence(),
    })
}

/// The states of all lanes, on the device of the weights.
///
/// # Errors
/// If they do not fit into memory.
pub(crate) fn states(config: &Config, device: Device) -> Result<Option<StateStore>, Error> {
    let Some(width) = width(config) else {
        return Ok(None);
    };
    let lanes = config.rollout.envs;
    hotloop_rollout::check_memory(StateStore::bytes(lanes, width)).map_err(|error| {
        let instead = "a smaller network.recurrent_size or fewer rollout.envs";
        beyond("the recurrent states", instead, error)
    })?;
    Ok(Some(StateStore::new(lanes, width, device)?))
}
