//! The policy of a rollout: the network with the weights of the version that each batch asks for.

use crate::{
    actor::{Actor, Chosen},
    device,
    dist::Choice,
    error::LearnError,
    evaluate::Past,
    params::Params,
    published::{Lease, PolicyStore},
    state::{Lanes, StateStore},
    stream,
};
use hotloop_env::{Philox, Stream};
use hotloop_rollout::{Batch, Places, Policy, PolicyError};
use std::sync::Arc;
use tch::Kind;

/// In what numbers a network is evaluated for acting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Single precision, as it is trained.
    #[default]
    F32,
    /// Half the bits, of which 8 are the mantissa's. Weights are rounded once per version; actions are drawn, and
    /// their log-probabilities stored, from what the rounded network says.
    Bf16,
}

/// The version at hand.
struct Held {
    number: u64,
    lease: Lease,
    /// Its weights, if the network is evaluated in another precision.
    rounded: Option<Params>,
}

/// The policy that inference workers run: the network with the weights of the version that each batch
/// asks for.
pub struct ActorPolicy {
    actor: Actor,
    store: Arc<PolicyStore>,
    held: Option<Held>,
    precision: Precision,
    philox: Philox,
    /// What is remembered of all lanes, if the network remembers.
    states: Option<StateStore>,
    /// The lanes of a batch.
    lanes: Vec<i64>,
}

impl ActorPolicy {
    /// A policy that samples under `seed`, with the versions of `store`.
    pub fn new(actor: Actor, store: Arc<PolicyStore>, seed: u64) -> Self {
        Self {
            actor,
            store,
            held: None,
            precision: Precision::F32,
            philox: Philox::new(seed, Stream::Action),
            states: None,
            lanes: vec![],
        }
    }

    /// The same policy with what is remembered of every lane of the rollout, which a recurrent network needs. The
    /// other workers of the rollout get [shares](StateStore::share) of the same store.
    #[must_use]
    pub fn with_states(mut self, states: StateStore) -> Self {
        self.states = Some(states);
        self
    }

    /// The same policy, evaluated in `precision`.
    ///
    /// # Errors
    /// If the network remembers: rounding would add up in what it does.
    pub fn with_precision(mut self, precision: Precision) -> Result<Self, LearnError> {
        if precision != Precision::F32 && self.actor.evaluator.net.state() > 0 {
            return Err(LearnError::Spec {
                what: "policy",
                reason: "a recurrent network is evaluated in f32 only; bf16 was asked for".into(),
            });
        }
        self.precision = precision;
        Ok(self)
    }

    /// Leases version `number`, if it is not at hand. False if it is not in the store.
    fn take(&mut self, number: u64) -> bool {
        if self.held.as_ref().is_some_and(|held| held.number == number) {
            return true;
        }
        let Some(lease) = self.store.lease(number) else {
            return false;
        };
        // The worker's thread was started by a crate that knows nothing of libtorch.
        device::set_threads_once();
        stream::own_once(lease.params.device());
        let rounded = match self.precision {
            Precision::F32 => None,
            Precision::Bf16 => Some(lease.params.rounded(Kind::BFloat16)),
        };
        self.held = Some(Held {
            number,
            lease,
            rounded,
        });
        true
    }
}

impl Policy for ActorPolicy {
    fn newest(&mut self) -> u64 {
        loop {
            let newest = self.store.newest();
            // A version is gone if two more were published meanwhile; and there may be none at all.
            if self.take(newest) || self.store.newest() == newest {
                return newest;
            }
        }
    }

    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        let failed = |error: LearnError| PolicyError::new(error.to_string());
        let wanted = batch.version();
        self.take(wanted);
        let Some(held) = self.held.as_ref().filter(|held| held.number == wanted) else {
            return Err(PolicyError::new(format!(
                "policy version {wanted} is not published"
            )));
        };
        let lease = &held.lease;
        let (n, bootstrap) = (batch.len(), batch.bootstrap());
        let (masks, valid, places) = (batch.masks(), batch.valid(), batch.places());
        let (observations, starts) = (batch.stacks(), batch.starts());
        let past = self.states.as_ref().map(|store| Past {
            store,
            lanes: lanes_of(places, n, &mut self.lanes),
            starts,
            // Nothing of a row that is only evaluated is remembered: it comes again, or another episode does.
            keep: (!bootstrap).then_some(valid),
            before: bytemuck::cast_slice_mut(batch.states_mut()),
        });
        self.actor
            .evaluator
            .evaluate(
                held.rounded.as_ref().unwrap_or(&lease.params),
                lease.standardizer.as_ref(),
                observations,
                past,
                n,
                bootstrap,
            )
            .map_err(failed)?;
        let outcome = self.actor.evaluator.finite_values().and_then(|()| {
            let outputs = batch.outputs();
            outputs.values.copy_from_slice(&self.actor.evaluator.values);
            if let Some(unit) = lease.value_unit {
                unit.denormalize(outputs.values);
            }
            if bootstrap {
                return Ok(());
            }
            self.actor.choose(
                Choice::Sample,
                &self.philox,
                masks,
                |row| valid[row] != 0,
                |row| (places.lane(row) as u64, places.counter(row)),
                Chosen {
                    actions: outputs.actions,
                    log_probs: outputs.log_probs,
                },
            )
        });
        outcome.map_err(|unusable| {
            PolicyError::new(format!(
                "lane {}: {}",
                places.lane(unusable.row),
                unusable.reason
            ))
        })
    }
}

/// The lanes of a batch of `n`, in `room` unless they follow each other.
fn lanes_of<'a>(places: Places<'_>, n: usize, room: &'a mut Vec<i64>) -> Lanes<'a> {
    let first = places.lane(0);
    if (1..n).all(|i| places.lane(i) == first + i) {
        return Lanes::Run(first..first + n);
    }
    room.clear();
    room.extend((0..n).map(|i| places.lane(i) as i64));
    Lanes::Each(room)
}
