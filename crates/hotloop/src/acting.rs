//! From a configuration to the policies that act in its rollout.

use crate::Error;
use crate::config::{Config, InferenceDtype};
use hotloop_env::Spaces;
use hotloop_learn::{
    Actor, ActorPolicy, CopyCounters, Learner, PolicyStore, Precision, StateStore, Transfer,
};
use std::sync::Arc;

/// A policy with the versions of `store`, which draws its actions under `seed`; `copies` counts what it copies
/// between host and device.
///
/// # Errors
/// If the network cannot be evaluated in the numbers that are asked for.
pub(crate) fn policy(
    config: &Config,
    learner: &Learner,
    spaces: &Spaces,
    store: &Arc<PolicyStore>,
    seed: u64,
    states: Option<&StateStore>,
    copies: &Arc<CopyCounters>,
) -> Result<ActorPolicy, Error> {
    let transfer = Transfer::new(config.staged, Arc::clone(copies));
    let actor = Actor::new(learner.net().clone(), spaces).with_transfer(transfer);
    let policy = ActorPolicy::new(actor, Arc::clone(store), seed).with_precision(
        match config.network.inference_dtype {
            InferenceDtype::F32 => Precision::F32,
            InferenceDtype::Bf16 => Precision::Bf16,
        },
    )?;
    Ok(match states {
        Some(states) => policy.with_states(states.share()),
        None => policy,
    })
}
