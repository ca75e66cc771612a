//! The actor-critic network: a body that makes a hidden vector of an observation's features, a recurrent cell if it is
//! to remember, one of both for actor and critic together or one each, and the heads on top.
//!
//! Two implementations of the same function: `plain` runs any body through autograd, on any device; `fast` is
//! [`crate::kernels`] on host memory with a hand-written backward pass, for fully connected layers and recurrent cells.
//! They agree to rounding, which the tests assert.

#[cfg(test)]
mod bodies_tests;
mod body;
mod encoder;
mod fast;
mod images;
mod mlp;
mod plain;
mod recurrent;
#[cfg(test)]
mod tests;
mod towers;

pub use body::{Body, Init, ParamBuilder, Views};
pub use encoder::Encoder;
pub use images::{ImageNet, ImageShape};
pub use mlp::{Activation, Mlp, MlpSpec};
pub use recurrent::{CellKind, RecurrentSpec};

use crate::{
    algo::Sequences,
    dist::HeadSpec,
    error::LearnError,
    memory,
    objective::Objective,
    params::{ParamLayout, Params},
};
use hotloop_env::FeatureSpec;
use std::sync::Arc;
use tch::{Device, Kind, Tensor};
use towers::{Linear, Tower};

/// Elements of the largest weight that the kernels take: half a megabyte, what a second cache
/// holds. libtorch's blocked products are better beyond.
const LARGEST_WEIGHT: usize = 1 << 17;

/// What a network is made of.
#[derive(Clone, Debug)]
pub struct NetworkSpec {
    /// Features of one observation.
    pub inputs: FeatureSpec,
    /// What comes before the heads.
    pub body: Arc<dyn Body>,
    /// The cell between body and heads, if the network remembers; like the body one for policy and value, or one
    /// each.
    pub recurrent: Option<RecurrentSpec>,
    /// Whether policy and value share their body.
    pub shared: bool,
    /// Action distribution, which fixes the policy's outputs.
    pub head: HeadSpec,
    /// Whether to use the hand-written kernels where they apply (perceptrons, dense f32 in host memory).
    pub fast: bool,
}

/// What the network says about `n` rows.
#[derive(Debug)]
pub struct Outputs {
    /// Logits, means and log deviations, `[n, outputs]`.
    pub head: Tensor,
    /// State values, `[n]`.
    pub value: Tensor,
    /// Log standard deviations `[dims]` of Gaussians that do not depend on the state.
    pub log_std: Option<Tensor>,
}

/// The network: knows where its parameters lie, holds none itself.
#[derive(Clone, Debug)]
pub struct ActorCritic {
    spec: NetworkSpec,
    layout: Arc<ParamLayout>,
    inits: Vec<Init>,
    towers: Vec<Tower>,
    log_std: Option<usize>,
    perceptron: Option<fast::Perceptron>,
}

impl ActorCritic {
    /// Lays out the parameters of a [`NetworkSpec`] or [`MlpSpec`]: those of the body under `trunk`, or under `actor`
    /// and `critic`, `policy`, `value`, and `log_std`.
    ///
    /// # Errors
    /// If the body does not fit the features, declares a name twice or an empty parameter, or the head has no outputs.
    pub fn new(spec: impl Into<NetworkSpec>) -> Result<Self, LearnError> {
        let spec = spec.into();
        let refuse = |reason: String| LearnError::Spec {
            what: "network",
            reason,
        };
        if spec.head.outputs() == 0 {
            return Err(refuse("the policy has no outputs; one is needed".into()));
        }
        let (mut layout, mut inits) = (ParamLayout::default(), vec![]);
        let towers = if spec.shared {
            vec![Tower::lay_out(
                &mut layout,
                &mut inits,
                &spec,
                "trunk",
                true,
                true,
            )?]
        } else {
            vec![
                Tower::lay_out(&mut layout, &mut inits, &spec, "actor", true, false)?,
                Tower::lay_out(&mut layout, &mut inits, &spec, "critic", false, true)?,
            ]
        };
        let log_std = spec.head.log_std_dim().map(|dim| {
            inits.push(Init::Constant(0.0));
            layout.push("log_std", &[dim as i64])
        });
        let mut names: Vec<&str> = layout.entries().iter().map(|e| e.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(refuse(format!(
                "parameter {:?} is declared twice",
                twice[0]
            )));
        }
        if let Some(empty) = layout.entries().iter().find(|e| e.is_empty()) {
            return Err(refuse(format!(
                "parameter {:?} has shape {:?}; every width must be at least 1",
                empty.name, empty.shape
            )));
        }
        let perceptron = match spec.body.perceptron() {
            Some(mlp) if spec.fast => Some(fast::Perceptron {
                inputs: spec.inputs.len(),
                activation: mlp.activation,
                towers: towers
                    .iter()
                    .map(|tower| tower.dense(&layout, mlp.hidden.len()))
                    .collect(),
                width: spec.head.outputs(),
                log_std,
            }),
            _ => None,
        };
        Ok(Self {
            spec,
            layout: Arc::new(layout),
            inits,
            towers,
            log_std,
            perceptron,
        })
    }

    /// What this network was built from.
    pub fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    /// Names, shapes and places of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Fresh weights: the body's as it declared them; orthogonal with gain 0.01 for the policy head and 1 for the
    /// value head, zero biases, log standard deviations 0 (the values of CleanRL's PPO; Huang et al. 2022, "The 37
    /// Implementation Details of PPO").
    ///
    /// # Errors
    /// If the device fails.
    pub fn init(&self, seed: u64, device: Device) -> Result<Params, LearnError> {
        let mut elements = vec![0.0f32; self.layout.total()];
        for (i, (entry, init)) in self.layout.entries().iter().zip(&self.inits).enumerate() {
            let place = &mut elements[entry.offset..entry.offset + entry.len()];
            init.fill(&entry.shape, seed, i, place);
        }
        Params::from_slice(Arc::clone(&self.layout), &elements, device)
    }

    /// Elements of what the network remembers of one lane; 0 if it remembers nothing.
    pub fn state(&self) -> usize {
        let cells = self.towers.iter().filter_map(|tower| tower.core.as_ref());
        cells.map(recurrent::Cell::state).sum()
    }

    /// Evaluates rows `x` `[n, features]` that stand for themselves, without gradients.
    ///
    /// # Errors
    /// If `x` has another shape, the network is recurrent, or libtorch fails.
    pub fn forward(&self, params: &Params, x: &Tensor) -> Result<Outputs, LearnError> {
        Ok(self.evaluate(params, x, None)?.0)
    }

    /// Evaluates one row of each of `n` lanes, `x` `[n, features]`, after what is remembered of them, `states` `[n,
    /// state]`. Returns what is remembered after, too.
    ///
    /// # Errors
    /// If a shape does not fit, or libtorch fails.
    pub fn step(
        &self,
        params: &Params,
        x: &Tensor,
        states: &Tensor,
    ) -> Result<(Outputs, Tensor), LearnError> {
        let rows = x.size().first().copied().unwrap_or(0);
        let each = Sequences {
            length: 1,
            starts: Tensor::zeros([rows], (Kind::Uint8, x.device())),
            states: states.shallow_clone(),
        };
        let (outputs, after) = self.evaluate(params, x, Some(&each))?;
        Ok((outputs, after.unwrap_or(each.states)))
    }

    /// Evaluates rows `x` `[n, features]` that are `sequences`, without gradients.
    ///
    /// # Errors
    /// If a shape does not fit, or libtorch fails.
    pub fn unroll(
        &self,
        params: &Params,
        x: &Tensor,
        sequences: &Sequences,
    ) -> Result<Outputs, LearnError> {
        Ok(self.evaluate(params, x, Some(sequences))?.0)
    }

    fn evaluate(
        &self,
        params: &Params,
        x: &Tensor,
        sequences: Option<&Sequences>,
    ) -> Result<(Outputs, Option<Tensor>), LearnError> {
        self.check(params, x, sequences)?;
        let _guard = tch::no_grad_guard();
        let Some(perceptron) = self.fast(params, x, sequences) else {
            return plain::forward(self, &plain::views(self, params), x, sequences);
        };
        let (n, on_host) = (x.size()[0], (Kind::Float, Device::Cpu));
        let outputs = Outputs {
            head: Tensor::empty([n, self.spec.head.outputs() as i64], on_host),
            value: Tensor::empty([n], on_host),
            log_std: self.log_std.map(|i| params.view(i).shallow_clone()),
        };
        let states = states_of(sequences);
        // SAFETY: the outputs and the copy of the states were made just now; weights and rows are lent for this
        // call, and weights are only written between passes, by the owner of their arena.
        unsafe {
            let (w, x) = (params.host(), memory::f32s(x));
            let (head, value) = (
                memory::f32s_mut(&outputs.head),
                memory::f32s_mut(&outputs.value),
            );
            fast::forward(
                perceptron,
                w,
                x,
                past(sequences, states.as_ref()),
                head,
                value,
            );
        }
        Ok((outputs, states))
    }

    /// The gradient of `objective` over rows `x` `[n, features]`, written (not added) into `grads`,
    /// an arena of this network's layout. A recurrent network needs to know which rows are `sequences`; no gradient
    /// flows from one to another (truncated backpropagation through time). Returns the objective's statistics.
    ///
    /// # Errors
    /// If shapes do not fit, the objective fails, or libtorch does.
    pub fn gradient(
        &self,
        params: &Params,
        x: &Tensor,
        sequences: Option<&Sequences>,
        objective: &dyn Objective,
        grads: &mut Params,
    ) -> Result<Vec<f64>, LearnError> {
        self.check(params, x, sequences)?;
        if grads.layout() != &self.layout || grads.device() != params.device() {
            return Err(LearnError::Shape {
                what: "gradient arena".into(),
                expected: format!("this network's layout on {:?}", params.device()),
                found: format!(
                    "{} elements on {:?}",
                    grads.layout().total(),
                    grads.device()
                ),
            });
        }
        match self.fast(params, x, sequences) {
            Some(perceptron) => {
                let states = states_of(sequences);
                // SAFETY: the copy of the states was made just now; the rows are lent for this call.
                let past = unsafe { past(sequences, states.as_ref()) };
                fast::gradient(perceptron, params, x, past, objective, grads)
            }
            None => plain::gradient(self, params, x, sequences, objective, grads),
        }
    }

    /// Whether dense rows in host memory are evaluated with these weights by the kernels, which keep none of them. A
    /// body is shown a tensor, which it may keep.
    pub(crate) fn is_fast(&self, params: &Params) -> bool {
        self.kernels(params).is_some()
    }

    /// The network as the kernels see it, if they apply to these weights.
    fn kernels(&self, params: &Params) -> Option<&fast::Perceptron> {
        self.perceptron.as_ref().filter(|p| {
            p.largest_weight() <= LARGEST_WEIGHT && memory::is_dense_host_f32(params.flat())
        })
    }

    /// The same, if they apply to these rows, too.
    fn fast(
        &self,
        params: &Params,
        x: &Tensor,
        sequences: Option<&Sequences>,
    ) -> Option<&fast::Perceptron> {
        self.kernels(params).filter(|_| {
            memory::is_dense_host_f32(x) && sequences.is_none_or(|s| s.starts.is_contiguous())
        })
    }

    fn check(
        &self,
        params: &Params,
        x: &Tensor,
        sequences: Option<&Sequences>,
    ) -> Result<(), LearnError> {
        if params.layout() != &self.layout {
            return Err(LearnError::Shape {
                what: "parameter arena".into(),
                expected: format!("this network's {} elements", self.layout.total()),
                found: format!("an arena of {} elements", params.layout().total()),
            });
        }
        let size = x.size();
        if size.len() != 2 || size[1] != self.spec.inputs.len() as i64 {
            return Err(LearnError::Shape {
                what: "observations handed to the network".into(),
                expected: format!("[n, {}]", self.spec.inputs.len()),
                found: format!("{size:?}"),
            });
        }
        match sequences {
            None if self.state() == 0 => Ok(()),
            None => Err(LearnError::Spec {
                what: "network",
                reason: "it is recurrent and was handed rows without a past; hand it states and sequences".into(),
            }),
            Some(sequences) => sequences.check(size[0], self.state() as i64),
        }
    }
}

/// A copy of the states before the first rows, for a pass to go on with.
fn states_of(sequences: Option<&Sequences>) -> Option<Tensor> {
    sequences.map(|s| tch::no_grad(|| s.states.copy().contiguous()))
}

/// Sequences on the host as the kernels see them.
///
/// # Safety
/// Nothing else may use `states` while the result lives, or write the starts.
unsafe fn past<'a>(sequences: Option<&'a Sequences>, states: Option<&'a Tensor>) -> fast::Past<'a> {
    let (Some(sequences), Some(states)) = (sequences, states) else {
        return fast::Past::none();
    };
    // SAFETY: the caller's promise is handed on.
    unsafe {
        fast::Past {
            steps: sequences.length as usize,
            starts: memory::u8s(&sequences.starts),
            states: memory::f32s_mut(states),
        }
    }
}
