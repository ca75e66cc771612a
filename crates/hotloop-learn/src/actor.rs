//! Acting: from observation records to actions, in the rollout and in evaluation alike.
//!
//! Inference works for whole batches; the choice itself is made row by row from the lane's own
//! random numbers, so that it does not depend on who else is in the batch.

use crate::{
    dist::{Choice, Deviation, HeadPart, HeadSpec},
    error::LearnError,
    evaluate::{Evaluator, Past, Unusable},
    net::ActorCritic,
    params::Params,
    state::{Lanes, StateStore},
    transfer::Transfer,
};
use hotloop_env::{FeaturePlan, Layout, LeafKind, Philox, Spaces, Stacks};
use hotloop_math::Standardizer;
use hotloop_rollout::Bounding;

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
pub(crate) struct Chosen<'a> {
    pub(crate) actions: &'a mut [u8],
    pub(crate) log_probs: &'a mut [f32],
}

/// A network with what it takes to act with it: features in, choices out. It holds no weights.
pub struct Actor {
    pub(crate) evaluator: Evaluator,
    action: Layout,
    /// Philox blocks of four numbers that one decision may use.
    blocks: u64,
    log_probs: Vec<f32>,
    /// What is remembered of the environments of an evaluation.
    played: Option<StateStore>,
}

impl Actor {
    /// An actor for environments of these spaces.
    pub fn new(net: ActorCritic, spaces: &Spaces) -> Self {
        Self {
            action: spaces.action.clone(),
            blocks: net.spec().head.uniforms().div_ceil(4) as u64,
            evaluator: Evaluator::new(net, FeaturePlan::of(spaces)),
            log_probs: vec![],
            played: None,
        }
    }

    /// The same actor with copies between host and device as `transfer` makes and counts them.
    #[must_use]
    pub fn with_transfer(mut self, transfer: Transfer) -> Self {
        self.evaluator.transfer = transfer;
        self
    }

    /// How environments must be sent this actor's box actions.
    pub fn bounding(&self) -> Bounding {
        if self.evaluator.net.spec().head.squashes() {
            Bounding::Tanh
        } else {
            Bounding::Clip
        }
    }

    /// Chooses the actions of the rows evaluated last. `acts(row)` says which rows matter; `draw(row)`
    /// names their random numbers: lane and decision.
    pub(crate) fn choose(
        &mut self,
        choice: Choice,
        philox: &Philox,
        masks: &[u8],
        acts: impl Fn(usize) -> bool,
        draw: impl Fn(usize) -> (u64, u64),
        chosen: Chosen<'_>,
    ) -> Result<(), Unusable> {
        let head = &self.evaluator.net.spec().head;
        let (width, mask_len) = (head.outputs(), self.action.mask_bytes());
        let record = self.action.record_bytes();
        let rows = self
            .evaluator
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
                .choose(
                    choice,
                    logits,
                    &self.evaluator.log_std,
                    mask,
                    uniform,
                    action,
                )
                .map_err(|error| Unusable {
                    row,
                    reason: error.to_string(),
                })?;
        }
        Ok(())
    }

    /// Chooses actions for a row of `observations` as an evaluation does.
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
        observations: Stacks<'_>,
        masks: &[u8],
        starts: &[u8],
        draw: impl Fn(usize) -> (u64, u64),
        actions: &mut [u8],
    ) -> Result<(), LearnError> {
        let n = actions.len() / self.action.record_bytes();
        let width = self.evaluator.net.state();
        let store = match self.played.take() {
            Some(store) if store.lanes() == n => Some(store),
            _ if width == 0 => None,
            _ => Some(StateStore::new(n, width, params.device())?),
        };
        let keep = vec![1; n];
        let past = store.as_ref().map(|store| Past {
            store,
            lanes: Lanes::Run(0..n),
            starts,
            keep: Some(&keep),
            before: &mut [],
        });
        self.evaluator
            .evaluate(params, standardizer, observations, past, n, false)?;
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

#[cfg(test)]
mod tests;
