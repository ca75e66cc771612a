//! What a loss is to a network: a function of its outputs, with or without gradients of its own.

use crate::{error::LearnError, net::Outputs};
use tch::{Kind, Tensor};

/// A loss over some rows, ready to be differentiated.
#[derive(Debug)]
pub struct Loss {
    /// Scalar with the autograd graph attached.
    pub total: Tensor,
    /// One number per statistic, `[k]` f64, detached.
    pub stats: Tensor,
}

impl Loss {
    /// A loss and its statistics, each a scalar tensor; the statistics are detached here.
    pub fn new(total: Tensor, stats: &[&Tensor]) -> Self {
        let stats = if stats.is_empty() {
            Tensor::zeros([0], (Kind::Double, total.device()))
        } else {
            let scalars: Vec<Tensor> = stats
                .iter()
                .map(|s| s.detach().to_kind(Kind::Double).reshape([]))
                .collect();
            Tensor::stack(&scalars, 0)
        };
        Self { total, stats }
    }

    /// The statistics on the host.
    pub(crate) fn stat_values(&self) -> Result<Vec<f64>, LearnError> {
        Ok(Vec::<f64>::try_from(&self.stats)?)
    }
}

/// The outputs of a network as host memory, for losses that differentiate themselves.
#[derive(Clone, Copy, Debug)]
pub struct HeadRows<'a> {
    /// Logits or means, `[rows, width]` row-major.
    pub head: &'a [f32],
    /// Values, `[rows]`.
    pub value: &'a [f32],
    /// State-independent log standard deviations, `[width]`, or empty.
    pub log_std: &'a [f32],
    /// Outputs per row.
    pub width: usize,
}

/// Where such a loss writes its gradients: the shapes of [`HeadRows`], zeroed before the call.
#[derive(Debug)]
pub struct HeadGrads<'a> {
    /// d loss / d head.
    pub head: &'a mut [f32],
    /// d loss / d value.
    pub value: &'a mut [f32],
    /// d loss / d log_std.
    pub log_std: &'a mut [f32],
}

/// A differentiable function of a network's outputs.
///
/// Any `Fn(&Outputs) -> Result<Loss, LearnError>` is one.
pub trait Objective {
    /// The loss on tensors; autograd does the rest.
    ///
    /// # Errors
    /// If the rows do not fit the outputs.
    fn loss(&self, outputs: &Outputs) -> Result<Loss, LearnError>;

    /// The same loss on host memory with hand-written gradients: writes them and returns the
    /// statistics, or `None` to have [`Objective::loss`] differentiated.
    fn host_gradient(
        &self,
        _rows: HeadRows<'_>,
        _grads: HeadGrads<'_>,
    ) -> Option<Result<Vec<f64>, LearnError>> {
        None
    }
}

impl<F> Objective for F
where
    F: Fn(&Outputs) -> Result<Loss, LearnError>,
{
    fn loss(&self, outputs: &Outputs) -> Result<Loss, LearnError> {
        self(outputs)
    }
}
