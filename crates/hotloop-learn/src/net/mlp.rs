//! The multilayer perceptron: a body of fully connected layers.

use super::{Body, NetworkSpec, ParamBuilder, Views};
use crate::{dist::HeadSpec, error::LearnError};
use hotloop_env::FeatureSpec;
use std::sync::Arc;
use tch::Tensor;

/// Nonlinearity of the hidden layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Hyperbolic tangent.
    Tanh,
    /// Rectifier.
    Relu,
}

impl Activation {
    pub(super) fn apply(self, x: &Tensor) -> Result<Tensor, LearnError> {
        Ok(match self {
            Self::Tanh => x.f_tanh()?,
            Self::Relu => x.f_relu()?,
        })
    }
}

/// Fully connected layers on all features alike: `0.weight`, `0.bias`, `1.weight`, ….
///
/// Weights start orthogonal with gain √2 and zero biases (the values of CleanRL's PPO; Huang et al. 2022, "The 37
/// Implementation Details of PPO").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mlp {
    /// Width of each layer; without any the features themselves are the hidden vector.
    pub hidden: Vec<usize>,
    /// Nonlinearity after each layer.
    pub activation: Activation,
}

impl Mlp {
    /// Declares the layers on `width` inputs; returns the width of the last.
    pub(super) fn layers(
        &self,
        mut width: usize,
        params: &mut ParamBuilder<'_>,
    ) -> Result<usize, LearnError> {
        if width == 0 || self.hidden.contains(&0) {
            return Err(LearnError::Spec {
                what: "network",
                reason: format!(
                    "{width} inputs and hidden layers {:?}; every width must be at least 1",
                    self.hidden
                ),
            });
        }
        for (i, &next) in self.hidden.iter().enumerate() {
            params.linear(&i.to_string(), width, next, std::f64::consts::SQRT_2);
            width = next;
        }
        Ok(width)
    }

    /// The layers on any input.
    pub(super) fn apply(&self, params: &Views<'_>, x: &Tensor) -> Result<Tensor, LearnError> {
        let mut h = x.shallow_clone();
        for i in 0..self.hidden.len() {
            h = self.activation.apply(&params.linear(&i.to_string(), &h)?)?;
        }
        Ok(h)
    }
}

impl Body for Mlp {
    fn build(
        &self,
        inputs: &FeatureSpec,
        params: &mut ParamBuilder<'_>,
    ) -> Result<usize, LearnError> {
        self.layers(inputs.len(), params)
    }

    fn forward(
        &self,
        _: &FeatureSpec,
        params: &Views<'_>,
        x: &Tensor,
    ) -> Result<Tensor, LearnError> {
        self.apply(params, x)
    }

    fn perceptron(&self) -> Option<&Mlp> {
        Some(self)
    }

    fn activation(&self) -> Option<Activation> {
        Some(self.activation)
    }
}

/// Shape of an actor-critic perceptron on a plain vector.
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

impl From<MlpSpec> for NetworkSpec {
    fn from(spec: MlpSpec) -> Self {
        Self {
            inputs: FeatureSpec::vector(spec.inputs),
            body: Arc::new(Mlp {
                hidden: spec.hidden,
                activation: spec.activation,
            }),
            recurrent: None,
            shared: spec.shared,
            head: spec.head,
            fast: spec.fast,
        }
    }
}
