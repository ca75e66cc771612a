//! The actor-critic multilayer perceptron: its parameters, its forward pass and its gradient.
//!
//! Two implementations of the same function: `plain` runs everything through autograd, on any
//! device; `fast` is [`crate::kernels`] on host memory with a hand-written backward pass. They agree to rounding, which the tests assert.

mod fast;
mod plain;
#[expect(dead_code, reason = "networks get recurrent cores next")]
mod recurrent;
#[cfg(test)]
mod tests;

use crate::{
    dist::HeadSpec,
    error::LearnError,
    init, memory,
    objective::Objective,
    params::{ParamLayout, Params},
};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

pub use recurrent::{CellKind, RecurrentSpec};

/// Elements of the largest weight that the kernels take: half a megabyte, what a second cache
/// holds. libtorch's blocked products are better beyond.
const LARGEST_WEIGHT: usize = 1 << 17;

/// Nonlinearity of the hidden layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Hyperbolic tangent.
    Tanh,
    /// Rectifier.
    Relu,
}

/// Shape of an actor-critic perceptron.
#[derive(Clone, Debug, PartialEq)]
pub struct MlpSpec {
    /// Features of one observation.
    pub inputs: usize,
    /// Width of each hidden layer.
    pub hidden: Vec<usize>,
    /// Nonlinearity after each hidden layer.
    pub activation: Activation,
    /// Whether policy and value share their hidden layers.
    pub shared: bool,
    /// Action distribution, which fixes the policy's outputs.
    pub head: HeadSpec,
    /// Whether to use the hand-written kernels where they apply (dense f32 in host memory).
    pub fast: bool,
}

/// What the network says about `n` rows.
#[derive(Debug)]
pub struct Outputs {
    /// Logits or means, `[n, outputs]`.
    pub head: Tensor,
    /// State values, `[n]`.
    pub value: Tensor,
    /// Log standard deviations `[dim]` of a Gaussian head; they do not depend on the state.
    pub log_std: Option<Tensor>,
}

/// Weight and bias of one linear layer, as indices into the layout.
#[derive(Clone, Copy, Debug)]
struct Linear {
    weight: usize,
    bias: usize,
}

/// One linear layer as a range of the arena; several heads on one trunk are one of them.
#[derive(Clone, Copy, Debug)]
struct Dense {
    /// Offset of the weight, `[outputs, inputs]`.
    weight: usize,
    /// Offset of the bias, `[outputs]`.
    bias: usize,
    inputs: usize,
    outputs: usize,
}

/// A stack of hidden layers and the heads on top of it.
#[derive(Clone, Debug)]
struct Tower {
    layers: Vec<Linear>,
    /// The hidden layers and, last, the heads together.
    dense: Vec<Dense>,
    policy: Option<Linear>,
    value: Option<Linear>,
}

/// The network: knows where its parameters lie, holds none itself.
#[derive(Clone, Debug)]
pub struct ActorCritic {
    spec: MlpSpec,
    layout: Arc<ParamLayout>,
    towers: Vec<Tower>,
    log_std: Option<usize>,
}

impl ActorCritic {
    /// Lays out the parameters of `spec`.
    ///
    /// # Errors
    /// If a width is zero or the head has no outputs.
    pub fn new(spec: MlpSpec) -> Result<Self, LearnError> {
        let outputs = spec.head.outputs();
        if spec.inputs == 0 || spec.hidden.contains(&0) || outputs == 0 {
            return Err(LearnError::Spec {
                what: "network",
                reason: format!(
                    "{} inputs, hidden layers {:?} and {outputs} policy outputs; every width must \
                     be at least 1",
                    spec.inputs, spec.hidden
                ),
            });
        }
        let mut layout = ParamLayout::default();
        let towers = if spec.shared {
            vec![tower(&mut layout, &spec, "trunk", true, true)]
        } else {
            vec![
                tower(&mut layout, &spec, "actor", true, false),
                tower(&mut layout, &spec, "critic", false, true),
            ]
        };
        let log_std = spec
            .head
            .log_std_dim()
            .map(|dim| layout.push("log_std", &[dim as i64]));
        Ok(Self {
            spec,
            layout: Arc::new(layout),
            towers,
            log_std,
        })
    }

    /// The shape this network was built from.
    pub fn spec(&self) -> &MlpSpec {
        &self.spec
    }

    /// Names, shapes and places of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Fresh weights: orthogonal with gain √2 for hidden layers, 0.01 for the policy head and 1 for
    /// the value head, zero biases, log standard deviations 0 (the values of CleanRL's PPO; Huang et
    /// al. 2022, "The 37 Implementation Details of PPO").
    ///
    /// # Errors
    /// If the device fails.
    pub fn init(&self, seed: u64, device: Device) -> Result<Params, LearnError> {
        let mut elements = vec![0.0f32; self.layout.total()];
        let mut fill = |linear: &Linear, gain: f64| {
            let entry = &self.layout.entries()[linear.weight];
            let (rows, cols) = (entry.shape[0] as usize, entry.shape[1] as usize);
            let matrix = init::orthogonal(rows, cols, gain, seed, linear.weight as u64);
            elements[entry.offset..entry.offset + entry.len()].copy_from_slice(&matrix);
        };
        for tower in &self.towers {
            tower
                .layers
                .iter()
                .for_each(|l| fill(l, std::f64::consts::SQRT_2));
            tower.policy.iter().for_each(|l| fill(l, 0.01));
            tower.value.iter().for_each(|l| fill(l, 1.0));
        }
        Params::from_slice(Arc::clone(&self.layout), &elements, device)
    }

    /// Evaluates rows `x` `[n, inputs]`, without gradients.
    ///
    /// # Errors
    /// If `x` has another shape, or libtorch fails.
    pub fn forward(&self, params: &Params, x: &Tensor) -> Result<Outputs, LearnError> {
        self.check(params, x)?;
        let _guard = tch::no_grad_guard();
        if !self.fast_applies(params, x) {
            return plain::forward(self, &plain::views(self, params), x);
        }
        let (n, on_host) = (x.size()[0], (Kind::Float, Device::Cpu));
        let outputs = Outputs {
            head: Tensor::empty([n, self.spec.head.outputs() as i64], on_host),
            value: Tensor::empty([n], on_host),
            log_std: self.log_std.map(|i| params.view(i).shallow_clone()),
        };
        // SAFETY: the outputs were made just now; weights and rows are lent for this call, and
        // weights are only written between passes, by the owner of their arena.
        unsafe {
            let (w, x) = (params.host(), memory::f32s(x));
            let (head, value) = (
                memory::f32s_mut(&outputs.head),
                memory::f32s_mut(&outputs.value),
            );
            fast::forward(self, w, x, head, value);
        }
        Ok(outputs)
    }

    /// The gradient of `objective` over rows `x` `[n, inputs]`, written (not added) into `grads`,
    /// an arena of this network's layout. Returns the objective's statistics.
    ///
    /// # Errors
    /// If shapes do not fit, the objective fails, or libtorch does.
    pub fn gradient(
        &self,
        params: &Params,
        x: &Tensor,
        objective: &dyn Objective,
        grads: &mut Params,
    ) -> Result<Vec<f64>, LearnError> {
        self.check(params, x)?;
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
        if self.fast_applies(params, x) {
            fast::gradient(self, params, x, objective, grads)
        } else {
            plain::gradient(self, params, x, objective, grads)
        }
    }

    fn fast_applies(&self, params: &Params, x: &Tensor) -> bool {
        memory::is_dense_host_f32(x) && self.kernels_apply(params)
    }

    /// Whether the weights are on the host, and small enough for the kernels.
    fn kernels_apply(&self, params: &Params) -> bool {
        let largest = |t: &Tower| t.dense.iter().map(|d| d.inputs * d.outputs).max();
        self.spec.fast
            && memory::is_dense_host_f32(params.flat())
            && self
                .towers
                .iter()
                .filter_map(largest)
                .all(|n| n <= LARGEST_WEIGHT)
    }

    fn check(&self, params: &Params, x: &Tensor) -> Result<(), LearnError> {
        if params.layout() != &self.layout {
            return Err(LearnError::Shape {
                what: "parameter arena".into(),
                expected: format!("this network's {} elements", self.layout.total()),
                found: format!("an arena of {} elements", params.layout().total()),
            });
        }
        let size = x.size();
        if size.len() != 2 || size[1] != self.spec.inputs as i64 {
            return Err(LearnError::Shape {
                what: "observations handed to the network".into(),
                expected: format!("[n, {}]", self.spec.inputs),
                found: format!("{size:?}"),
            });
        }
        Ok(())
    }
}

/// Lays out one tower. The heads' weights are neighbours, and so are their biases, so that a shared
/// trunk can treat both heads as one matrix.
fn tower(layout: &mut ParamLayout, spec: &MlpSpec, name: &str, policy: bool, value: bool) -> Tower {
    let mut width = spec.inputs;
    let mut layers = Vec::with_capacity(spec.hidden.len());
    for (i, &next) in spec.hidden.iter().enumerate() {
        layers.push(Linear {
            weight: layout.push(format!("{name}.{i}.weight"), &[next as i64, width as i64]),
            bias: layout.push(format!("{name}.{i}.bias"), &[next as i64]),
        });
        width = next;
    }
    let heads = [(policy, "policy", spec.head.outputs()), (value, "value", 1)];
    let wanted = || heads.iter().filter(|h| h.0);
    let weights: Vec<usize> = wanted()
        .map(|(_, head, n)| layout.push(format!("{head}.weight"), &[*n as i64, width as i64]))
        .collect();
    let biases: Vec<usize> = wanted()
        .map(|(_, head, n)| layout.push(format!("{head}.bias"), &[*n as i64]))
        .collect();
    let at = |i: usize| layout.entries()[i].offset;
    let mut dense: Vec<Dense> = layers
        .iter()
        .map(|l: &Linear| {
            let shape = &layout.entries()[l.weight].shape;
            let (outputs, inputs) = (shape[0] as usize, shape[1] as usize);
            Dense {
                weight: at(l.weight),
                bias: at(l.bias),
                inputs,
                outputs,
            }
        })
        .collect();
    dense.push(Dense {
        weight: at(weights[0]),
        bias: at(biases[0]),
        inputs: width,
        outputs: wanted().map(|h| h.2).sum(),
    });
    let mut linears = weights
        .into_iter()
        .zip(biases)
        .map(|(weight, bias)| Linear { weight, bias });
    Tower {
        layers,
        dense,
        policy: if policy { linears.next() } else { None },
        value: if value { linears.next() } else { None },
    }
}
