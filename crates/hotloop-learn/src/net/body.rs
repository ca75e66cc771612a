//! What a network does before its heads: the trait to implement for a body of one's own, how it declares its
//! parameters, and how it finds them again.

use super::{Activation, Mlp};
use crate::{
    error::LearnError,
    init,
    params::{ParamEntry, ParamLayout},
};
use hotloop_env::FeatureSpec;
use tch::Tensor;

/// From the features of observations to a hidden vector, on which the policy's and the value's heads sit. Gradients
/// come from autograd.
///
/// ```
/// use hotloop_learn::{LearnError, net::{Body, ParamBuilder, Views}, tch::Tensor};
/// use hotloop_env::FeatureSpec;
///
/// /// One layer that sees the features and their squares.
/// #[derive(Debug)]
/// struct Squares;
///
/// impl Body for Squares {
///     fn build(&self, inputs: &FeatureSpec, params: &mut ParamBuilder<'_>) -> Result<usize, LearnError> {
///         params.linear("hidden", 2 * inputs.len(), 64, 2f64.sqrt());
///         Ok(64)
///     }
///
///     fn forward(&self, _: &FeatureSpec, params: &Views<'_>, x: &Tensor) -> Result<Tensor, LearnError> {
///         let both = Tensor::f_cat(&[x, &x.f_square()?], 1)?;
///         Ok(params.linear("hidden", &both)?.f_tanh()?)
///     }
/// }
/// ```
pub trait Body: std::fmt::Debug + Send + Sync {
    /// Declares the parameters for observations of these features, and returns the width of the hidden vector. Called
    /// once for each of actor and critic, or once for both if they share their body.
    ///
    /// # Errors
    /// If this body does not fit such observations; the message should say which would.
    fn build(
        &self,
        inputs: &FeatureSpec,
        params: &mut ParamBuilder<'_>,
    ) -> Result<usize, LearnError>;

    /// The hidden vectors `[n, width]` of rows `x`, `[n, features]` f32. Rows must not depend on each other.
    ///
    /// # Errors
    /// If libtorch fails.
    fn forward(
        &self,
        inputs: &FeatureSpec,
        params: &Views<'_>,
        x: &Tensor,
    ) -> Result<Tensor, LearnError>;

    /// This body as fully connected layers, if it is nothing else: then hotloop's own kernels compute it, and
    /// [`forward`](Self::forward) is used only where they do not apply.
    fn perceptron(&self) -> Option<&Mlp> {
        None
    }

    /// The nonlinearity that can be chosen, if one can: what the shapes of parameters do not tell. Checkpoints keep
    /// it, so that no policy is read back with another.
    fn activation(&self) -> Option<Activation> {
        None
    }
}

/// How a parameter starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// As a matrix `[outputs, everything else]` with orthonormal rows or columns, times a gain (Saxe et al. 2014).
    Orthogonal {
        /// The factor.
        gain: f64,
    },
    /// All the same.
    Constant(f32),
}

impl Init {
    /// The first elements of the parameter with index `stream` in its layout.
    pub(super) fn fill(self, shape: &[i64], seed: u64, stream: usize, out: &mut [f32]) {
        match self {
            Self::Constant(x) => out.fill(x),
            Self::Orthogonal { gain } => {
                let rows = shape.first().map_or(1, |d| *d as usize);
                let matrix = init::orthogonal(rows, out.len() / rows, gain, seed, stream as u64);
                out.copy_from_slice(&matrix);
            }
        }
    }
}

/// Takes down a network's parameters: names, shapes, and how they start.
#[derive(Debug)]
pub struct ParamBuilder<'a> {
    layout: &'a mut ParamLayout,
    inits: &'a mut Vec<Init>,
    prefix: String,
}

impl<'a> ParamBuilder<'a> {
    pub(super) fn new(layout: &'a mut ParamLayout, inits: &'a mut Vec<Init>, prefix: &str) -> Self {
        Self {
            layout,
            inits,
            prefix: prefix.into(),
        }
    }

    /// Declares a parameter. Its full name in checkpoints is `actor.NAME`, `critic.NAME` or, shared, `trunk.NAME`.
    /// Returns its index.
    pub fn push(&mut self, name: &str, shape: &[i64], init: Init) -> usize {
        self.inits.push(init);
        self.layout.push(join(&self.prefix, name), shape)
    }

    /// Where the parameter with this index begins in the arena.
    pub(super) fn offset(&self, index: usize) -> usize {
        self.layout.entries()[index].offset
    }

    /// Declares `NAME.weight` `[outputs, inputs]`, orthogonal with this gain, and `NAME.bias` `[outputs]`, zero.
    /// Returns their indices.
    pub fn linear(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
        gain: f64,
    ) -> (usize, usize) {
        self.layer(name, &[outputs as i64, inputs as i64], gain)
    }

    /// Declares `NAME.weight` `[outputs, inputs, kernel, kernel]` and `NAME.bias` `[outputs]` likewise.
    pub fn conv(&mut self, name: &str, inputs: usize, outputs: usize, kernel: usize, gain: f64) {
        let [o, i, k] = [outputs, inputs, kernel].map(|n| n as i64);
        self.layer(name, &[o, i, k, k], gain);
    }

    fn layer(&mut self, name: &str, shape: &[i64], gain: f64) -> (usize, usize) {
        (
            self.push(&join(name, "weight"), shape, Init::Orthogonal { gain }),
            self.push(&join(name, "bias"), &shape[..1], Init::Constant(0.0)),
        )
    }

    /// The same builder for names that begin with `NAME.`.
    pub fn within(&mut self, name: &str) -> ParamBuilder<'_> {
        ParamBuilder {
            prefix: join(&self.prefix, name),
            layout: self.layout,
            inits: self.inits,
        }
    }
}

/// A body's parameters by the names that it declared them under.
#[derive(Clone, Debug)]
pub struct Views<'a> {
    entries: &'a [ParamEntry],
    tensors: &'a [Tensor],
    prefix: String,
}

impl<'a> Views<'a> {
    pub(super) fn new(layout: &'a ParamLayout, tensors: &'a [Tensor], prefix: &str) -> Self {
        Self {
            entries: layout.entries(),
            tensors,
            prefix: prefix.into(),
        }
    }

    /// The parameter.
    ///
    /// # Errors
    /// If it was not declared.
    pub fn get(&self, name: &str) -> Result<&'a Tensor, LearnError> {
        let is = |entry: &ParamEntry| {
            let rest = entry.name.strip_prefix(self.prefix.as_str());
            rest.and_then(|rest| rest.strip_prefix('.')) == Some(name)
        };
        let index = self.entries.iter().position(is);
        index
            .map(|i| &self.tensors[i])
            .ok_or_else(|| LearnError::Spec {
                what: "network body",
                reason: format!(
                    "it uses parameter {:?}, which it did not declare",
                    join(&self.prefix, name)
                ),
            })
    }

    /// `x` `[n, inputs]` times `NAME.weight`, plus `NAME.bias`.
    ///
    /// # Errors
    /// If they were not declared or do not fit.
    pub fn linear(&self, name: &str, x: &Tensor) -> Result<Tensor, LearnError> {
        let (weight, bias) = self.layer(name)?;
        Ok(x.f_linear(weight, Some(bias))?)
    }

    /// The convolution of `x` `[n, channels, height, width]` with `NAME.weight`, plus `NAME.bias`; `padding` zeros
    /// on each side.
    ///
    /// # Errors
    /// If they were not declared or do not fit.
    pub fn conv(
        &self,
        name: &str,
        x: &Tensor,
        stride: i64,
        padding: i64,
    ) -> Result<Tensor, LearnError> {
        let (weight, bias) = self.layer(name)?;
        Ok(x.f_conv2d(weight, Some(bias), [stride; 2], [padding; 2], [1; 2], 1)?)
    }

    fn layer(&self, name: &str) -> Result<(&'a Tensor, &'a Tensor), LearnError> {
        Ok((
            self.get(&join(name, "weight"))?,
            self.get(&join(name, "bias"))?,
        ))
    }

    /// The parameters whose names begin with `NAME.`, by the rest of their names.
    #[must_use]
    pub fn within(&self, name: &str) -> Views<'a> {
        Views {
            prefix: join(&self.prefix, name),
            ..self.clone()
        }
    }
}

fn join(prefix: &str, name: &str) -> String {
    format!("{prefix}.{name}")
}
