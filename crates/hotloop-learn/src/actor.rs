//! Acting: from observation records to actions, in the rollout and in evaluation alike.
//!
//! Inference works for whole batches; the choice itself is made row by row from the lane's own
//! random numbers, so that it does not depend on who else is in the batch.

use crate::{
    device,
    dist::{Choice, Deviation, HeadPart, HeadSpec},
    error::LearnError,
    memory,
    net::ActorCritic,
    params::Params,
    published::{Lease, PolicyStore},
    state::{Lanes, StateStore},
};
use hotloop_env::{FeaturePlan, Layout, LeafKind, Philox, Spaces, Stream};
use hotloop_math::Standardizer;
use hotloop_rollout::{Batch, Bounding, Places, Policy, PolicyError};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// What can be chosen about the distribution of box actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxHead {
    /// Where deviations come from.
    pub deviation: Deviation,
    /// Whether environments are sent `tanh` of the sample, scaled to their bounds.
    pub squash: bool,
}

/// The action distribution that fits an action space: a part for each leaf. Boxes are Gaussians as `boxes` says.
///
/// # Errors
/// If the space has no elements, or is to be squashed to a bound that is not finite.
pub fn head_of(action: &Layout, boxes: BoxHead) -> Result<HeadSpec, LearnError> {
    let unfit = |reason: String| LearnError::Spec {
        what: "policy head",
        reason,
    };
    let mut parts = vec![];
    for leaf in action.leaves() {
        parts.push(match &leaf.kind {
            LeafKind::Box(space) => {
                let free = (0..leaf.elements)
                    .find(|i| !(space.low.at(*i).is_finite() && space.high.at(*i).is_finite()));
                if let (Some(i), true) = (free, boxes.squash) {
                    return Err(unfit(format!(
                        "element {i} of action {:?} lies between {} and {}; a squash needs two finite bounds: \
                         bound the action space, or set network.squash = false",
                        leaf.path,
                        space.low.at(i),
                        space.high.at(i)
                    )));
                }
                HeadPart::Gaussian {
                    dim: leaf.elements,
                    deviation: boxes.deviation,
                    squash: boxes.squash,
                }
            }
            choices => HeadPart::Categorical {
                sizes: choices.choices(),
                masked: leaf.mask_offset.is_some(),
            },
        });
    }
    let head = HeadSpec::from_iter(parts);
    if head.outputs() == 0 {
        return Err(unfit("the action space has no elements".into()));
    }
    Ok(head)
}

/// Where the choices of a batch go; all slices are of its rows.
struct Chosen<'a> {
    actions: &'a mut [u8],
    log_probs: &'a mut [f32],
}

/// A row whose action could not be chosen.
struct Unusable {
    row: usize,
    reason: String,
}

/// A network with what it takes to act with it: features in, choices out. It holds no weights.
pub struct Actor {
    net: ActorCritic,
    plan: FeaturePlan,
    action: Layout,
    /// Philox blocks of four numbers that one decision may use.
    blocks: u64,
    encoded: Vec<f32>,
    features: Vec<f32>,
    head: Vec<f32>,
    values: Vec<f32>,
    log_std: Vec<f32>,
    log_probs: Vec<f32>,
    /// What is remembered of the environments of an evaluation.
    played: Option<StateStore>,
}

impl Actor {
    /// An actor for environments of these spaces.
    pub fn new(net: ActorCritic, spaces: &Spaces) -> Self {
        Self {
            plan: FeaturePlan::new(&spaces.observation),
            action: spaces.action.clone(),
            blocks: net.spec().head.uniforms().div_ceil(4) as u64,
            net,
            encoded: vec![],
            features: vec![],
            head: vec![],
            values: vec![],
            log_std: vec![],
            log_probs: vec![],
            played: None,
        }
    }

    /// How environments must be sent this actor's box actions.
    pub fn bounding(&self) -> Bounding {
        if self.net.spec().head.squashes() {
            Bounding::Tanh
        } else {
            Bounding::Clip
        }
    }

    /// Evaluates `n` observation records after `states`, if the network remembers; the results are kept until the
    /// next call. Returns the states after.
    fn evaluate(
        &mut self,
        params: &Params,
        standardizer: Option<&Standardizer>,
        records: &[u8],
        states: Option<&Tensor>,
        n: usize,
    ) -> Result<Option<Tensor>, LearnError> {
        let width = self.plan.features();
        let mut rows: &[f32] = if self.plan.is_plain() {
            bytemuck::cast_slice(records)
        } else {
            self.encoded.resize(n * width, 0.0);
            let bytes = records.len() / n.max(1);
            let encoded = self.encoded.chunks_exact_mut(width);
            records
                .chunks_exact(bytes)
                .zip(encoded)
                .for_each(|(r, out)| self.plan.encode(r, out));
            &self.encoded
        };
        if let Some(standardizer) = standardizer {
            self.features.resize(rows.len(), 0.0);
            standardizer.apply(rows, &mut self.features);
            rows = &self.features;
        }
        // SAFETY: `x` and everything computed from it without a copy are gone before `rows` is.
        let x = unsafe { memory::borrow_f32s(rows, &[n as i64, width as i64]) };
        let x = x.to_device(params.device());
        let (out, after) = match states {
            None => (self.net.forward(params, &x)?, None),
            Some(states) => {
                let (out, after) = self.net.step(params, &x, states)?;
                (out, Some(after))
            }
        };
        copy_to_host(&out.head, &mut self.head)?;
        copy_to_host(&out.value, &mut self.values)?;
        if let Some(log_std) = &out.log_std {
            copy_to_host(log_std, &mut self.log_std)?;
        }
        Ok(after)
    }

    /// Chooses the actions of the rows evaluated last. `acts(row)` says which rows matter; `draw(row)`
    /// names their random numbers: lane and decision.
    fn choose(
        &mut self,
        choice: Choice,
        philox: &Philox,
        masks: &[u8],
        acts: impl Fn(usize) -> bool,
        draw: impl Fn(usize) -> (u64, u64),
        chosen: Chosen<'_>,
    ) -> Result<(), Unusable> {
        let head = &self.net.spec().head;
        let (width, mask_len) = (head.outputs(), self.action.mask_bytes());
        let record = self.action.record_bytes();
        let rows = self
            .head
            .chunks_exact(width)
            .zip(chosen.actions.chunks_exact_mut(record));
        for (row, (logits, action)) in rows.enumerate() {
            if !acts(row) {
                continue;
            }
            let (lane, decision) = draw(row);
            let mut words = [0; 4];
            let mut used = 0;
            let uniform = || {
                if used % 4 == 0 {
                    words = philox.block(lane, decision * self.blocks + used / 4);
                }
                used += 1;
                (words[(used - 1) as usize % 4] >> 8) as f32 * (1.0 / (1u32 << 24) as f32)
            };
            let mask = (mask_len > 0).then(|| &masks[row * mask_len..(row + 1) * mask_len]);
            let action = bytemuck::cast_slice_mut(action);
            chosen.log_probs[row] = head
                .choose(choice, logits, &self.log_std, mask, uniform, action)
                .map_err(|error| Unusable {
                    row,
                    reason: error.to_string(),
                })?;
        }
        Ok(())
    }

    fn finite_values(&self) -> Result<(), Unusable> {
        match self.values.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(row) => Err(Unusable {
                row,
                reason: format!(
                    "its value is {}; look for NaN or infinite observations, or a learning rate that is \
                     too high",
                    self.values[row]
                ),
            }),
        }
    }

    /// Chooses actions for `masks.len() / mask bytes` observation records as an evaluation does.
    /// `starts` is 1 where an observation is the first of an episode: what was remembered of that environment is
    /// forgotten. `draw(row)` names the row's random numbers (episode, decision) if the choice is sampled.
    /// The chosen records are written into `actions`.
    ///
    /// # Errors
    /// If libtorch fails or an action cannot be chosen: the message names the row.
    #[expect(clippy::too_many_arguments, reason = "one batch of inputs and outputs")]
    pub fn play(
        &mut self,
        params: &Params,
        standardizer: Option<&Standardizer>,
        choice: Choice,
        philox: &Philox,
        observations: &[u8],
        masks: &[u8],
        starts: &[u8],
        draw: impl Fn(usize) -> (u64, u64),
        actions: &mut [u8],
    ) -> Result<(), LearnError> {
        let n = actions.len() / self.action.record_bytes();
        let (every, width) = (Lanes::Run(0..n), self.net.state());
        let store = match self.played.take() {
            Some(store) if store.lanes() == n => Some(store),
            _ if width == 0 => None,
            _ => Some(StateStore::new(n, width, params.device())?),
        };
        let before = match &store {
            Some(store) => Some(store.gather(&every, starts)?),
            None => None,
        };
        let after = self.evaluate(params, standardizer, observations, before.as_ref(), n)?;
        if let (Some(store), Some(after)) = (&store, after) {
            store.scatter(&every, &vec![1; n], &after)?;
        }
        self.played = store;
        // Nobody asks for them here, but they come with the choice.
        let mut log_probs = std::mem::take(&mut self.log_probs);
        log_probs.resize(n, 0.0);
        let chosen = Chosen {
            actions,
            log_probs: &mut log_probs,
        };
        let outcome = self.choose(choice, philox, masks, |_| true, draw, chosen);
        self.log_probs = log_probs;
        outcome.map_err(|unusable| LearnError::Spec {
            what: "evaluation",
            reason: format!("env {}: {}", unusable.row, unusable.reason),
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

fn copy_to_host(tensor: &Tensor, out: &mut Vec<f32>) -> Result<(), LearnError> {
    out.resize(tensor.numel(), 0.0);
    copy_into(tensor, out)
}

fn copy_into(tensor: &Tensor, out: &mut [f32]) -> Result<(), LearnError> {
    let n = out.len();
    if memory::is_dense_host_f32(tensor) {
        // SAFETY: the tensor is the network's fresh output; nobody else has it.
        out.copy_from_slice(unsafe { memory::f32s(tensor) });
    } else {
        let host = tensor
            .f_to_device(Device::Cpu)?
            .f_to_kind(Kind::Float)?
            .f_contiguous()?;
        host.f_copy_data(out, n)?;
    }
    Ok(())
}

/// The policy that inference workers run: the network with the weights of the version that each batch
/// asks for.
pub struct ActorPolicy {
    actor: Actor,
    store: Arc<PolicyStore>,
    lease: Option<(u64, Lease)>,
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
            lease: None,
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
}

impl ActorPolicy {
    /// Leases version `number`, if it is not at hand. False if it is not in the store.
    fn take(&mut self, number: u64) -> bool {
        if self.lease.as_ref().is_none_or(|(held, _)| *held != number) {
            let found = self.store.lease(number).map(|lease| (number, lease));
            self.lease = found.or(self.lease.take());
        }
        self.lease.as_ref().is_some_and(|(held, _)| *held == number)
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
        // The worker's thread was started by a crate that knows nothing of libtorch.
        device::set_threads_once();
        let failed = |error: LearnError| PolicyError::new(error.to_string());
        let wanted = batch.version();
        self.take(wanted);
        let Some((_, lease)) = self.lease.as_ref().filter(|(held, _)| *held == wanted) else {
            return Err(PolicyError::new(format!(
                "policy version {wanted} is not published"
            )));
        };
        let (n, bootstrap) = (batch.len(), batch.bootstrap());
        let (masks, valid, places) = (batch.masks(), batch.valid(), batch.places());
        let lanes = lanes_of(places, n, &mut self.lanes);
        let before = match &self.states {
            Some(states) => Some(states.gather(&lanes, batch.starts()).map_err(failed)?),
            None => None,
        };
        let after = self
            .actor
            .evaluate(
                &lease.params,
                lease.standardizer.as_ref(),
                batch.observations(),
                before.as_ref(),
                n,
            )
            .map_err(failed)?;
        if let (Some(states), Some(after)) = (&self.states, after) {
            // Nothing of a row that is only evaluated is remembered: it comes again, or another episode does.
            if !bootstrap {
                states.scatter(&lanes, valid, &after).map_err(failed)?;
            }
        }
        if let (Some(before), false) = (&before, batch.states_mut().is_empty()) {
            let kept = bytemuck::cast_slice_mut(batch.states_mut());
            copy_into(before, kept).map_err(failed)?;
        }
        let outcome = self.actor.finite_values().and_then(|()| {
            let outputs = batch.outputs();
            outputs.values.copy_from_slice(&self.actor.values);
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

#[cfg(test)]
mod tests;
