//! From a network's outputs to the gradient of a loss at them.

use super::Perceptron;
use crate::{
    error::LearnError,
    memory,
    net::Outputs,
    objective::{HeadGrads, HeadRows, Objective},
    params::Params,
};
use tch::Tensor;

/// Gradients of the loss at the network's outputs.
pub(super) struct OutputGrads {
    pub(super) head: Tensor,
    pub(super) value: Tensor,
}

/// The gradients of `objective` at `outputs`, and its statistics; that at free log deviations goes into `grads`.
pub(super) fn gradient(
    net: &Perceptron,
    outputs: Outputs,
    objective: &dyn Objective,
    grads: &mut Params,
) -> Result<(OutputGrads, Vec<f64>), LearnError> {
    match by_hand(net, &outputs, objective, grads) {
        Some(done) => done,
        None => by_autograd(net, outputs, objective, grads),
    }
}

/// The objective's own gradients, if it has them.
fn by_hand(
    net: &Perceptron,
    outputs: &Outputs,
    objective: &dyn Objective,
    grads: &mut Params,
) -> Option<Result<(OutputGrads, Vec<f64>), LearnError>> {
    let (head, value) = (outputs.head.zeros_like(), outputs.value.zeros_like());
    let rows = HeadRows {
        // SAFETY: the outputs were made by this pass and are only read from here on.
        head: unsafe { memory::f32s(&outputs.head) },
        // SAFETY: as above.
        value: unsafe { memory::f32s(&outputs.value) },
        log_std: match &outputs.log_std {
            // SAFETY: weights are only written between passes, by the owner of the arena.
            Some(t) => unsafe { memory::f32s(t) },
            None => &[],
        },
        width: net.width,
    };
    let into = HeadGrads {
        // SAFETY: made just above, no other handle.
        head: unsafe { memory::f32s_mut(&head) },
        // SAFETY: made just above, no other handle.
        value: unsafe { memory::f32s_mut(&value) },
        log_std: match net.log_std {
            // SAFETY: `grads` is borrowed mutably by this call and written nowhere else.
            Some(i) => unsafe { memory::f32s_mut(grads.view(i)) },
            None => &mut [],
        },
    };
    let stats = objective.host_gradient(rows, into)?;
    Some(stats.map(|stats| (OutputGrads { head, value }, stats)))
}

/// The objective differentiated by autograd, down to the outputs and no further.
fn by_autograd(
    net: &Perceptron,
    outputs: Outputs,
    objective: &dyn Objective,
    grads: &mut Params,
) -> Result<(OutputGrads, Vec<f64>), LearnError> {
    let leaf = |t: &Tensor| t.detach().set_requires_grad(true);
    let outputs = Outputs {
        head: leaf(&outputs.head),
        value: leaf(&outputs.value),
        log_std: outputs.log_std.as_ref().map(leaf),
    };
    let loss = tch::with_grad(|| objective.loss(&outputs))?;
    let mut leaves = vec![&outputs.head, &outputs.value];
    leaves.extend(outputs.log_std.as_ref());
    let found = Tensor::f_run_backward(&[&loss.total], &leaves, false, false)?;
    // An output that the loss does not depend on has no gradient at all.
    let dense = |i: usize| {
        if found[i].defined() {
            found[i].contiguous()
        } else {
            leaves[i].zeros_like()
        }
    };
    if let Some(i) = net.log_std {
        grads.view(i).shallow_clone().f_copy_(&dense(2))?;
    }
    let at_outputs = OutputGrads {
        head: dense(0),
        value: dense(1),
    };
    Ok((at_outputs, loss.stat_values()?))
}
