//! What the environments that can fall have in common.

use crate::Judgement;
use hotloop_env::{EnvOptions, EnvSpec};

const REWARD: &str = "healthy_reward";
const TERMINATE: &str = "terminate_when_unhealthy";

/// The reward for being well, and whether an episode ends when it is not.
pub(crate) struct Health {
    healthy_reward: f64,
    terminate_when_unhealthy: bool,
}

impl Health {
    /// Declares its options with this default of the reward.
    pub(crate) fn declare(spec: EnvSpec, reward: f64) -> EnvSpec {
        spec.option(REWARD, reward, "reward per step while healthy")
            .option(TERMINATE, true, "whether being unhealthy ends the episode")
    }

    pub(crate) fn new(options: &EnvOptions) -> Self {
        Self {
            healthy_reward: options.float(REWARD),
            terminate_when_unhealthy: options.bool(TERMINATE),
        }
    }

    /// Judges a step that earned `forward` and cost `costs`.
    pub(crate) fn judge(&self, healthy: bool, forward: f64, costs: f64) -> Judgement {
        let bonus = if healthy { self.healthy_reward } else { 0.0 };
        Judgement {
            reward: forward + bonus - costs,
            terminated: !healthy && self.terminate_when_unhealthy,
        }
    }
}
