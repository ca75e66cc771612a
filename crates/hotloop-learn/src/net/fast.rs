//! The network on host memory: products by libtorch, everything around them by our kernels.

use super::{Activation, ActorCritic, Linear, Outputs, Tower};
use crate::{
    error::LearnError,
    kernels, memory,
    objective::{HeadGrads, HeadRows, Objective},
    params::Params,
};
use tch::Tensor;

/// `x · weightᵀ`, before any bias.
fn product(params: &Params, linear: &Linear, x: &Tensor) -> Result<Tensor, LearnError> {
    Ok(x.f_mm(&params.view(linear.weight).tr())?)
}

/// The bias of `linear`.
fn bias<'a>(params: &'a Params, linear: &Linear) -> &'a [f32] {
    // SAFETY: weights are only written between passes, by the owner of the arena.
    unsafe { memory::f32s(params.view(linear.bias)) }
}

/// The hidden layers of one tower, first to last.
fn hidden(
    net: &ActorCritic,
    tower: &Tower,
    params: &Params,
    x: &Tensor,
) -> Result<Vec<Tensor>, LearnError> {
    let mut layers: Vec<Tensor> = Vec::with_capacity(tower.layers.len());
    for layer in &tower.layers {
        let h = product(params, layer, layers.last().unwrap_or(x))?;
        // SAFETY: `h` was made just now and has no other handle.
        let z = unsafe { memory::f32s_mut(&h) };
        match net.spec.activation {
            Activation::Tanh => kernels::bias_tanh(z, bias(params, layer)),
            Activation::Relu => kernels::bias_relu(z, bias(params, layer)),
        }
        layers.push(h);
    }
    Ok(layers)
}

fn linear(params: &Params, linear: &Linear, h: &Tensor) -> Result<Tensor, LearnError> {
    let out = product(params, linear, h)?;
    // SAFETY: `out` was made just now and has no other handle.
    kernels::bias_add(unsafe { memory::f32s_mut(&out) }, bias(params, linear));
    Ok(out)
}

/// The outputs, and what the backward pass needs: the hidden layers of each tower.
fn run(
    net: &ActorCritic,
    params: &Params,
    x: &Tensor,
) -> Result<(Outputs, Vec<Vec<Tensor>>), LearnError> {
    let (mut head, mut value) = (None, None);
    let mut activations = Vec::with_capacity(net.towers.len());
    for tower in &net.towers {
        let layers = hidden(net, tower, params, x)?;
        let top = layers.last().unwrap_or(x);
        if let Some(policy) = &tower.policy {
            head = Some(linear(params, policy, top)?);
        }
        if let Some(v) = &tower.value {
            value = Some(linear(params, v, top)?.squeeze_dim(1));
        }
        activations.push(layers);
    }
    let outputs = Outputs {
        head: head.expect("one tower has the policy head by construction"),
        value: value.expect("one tower has the value head by construction"),
        log_std: net.log_std.map(|i| params.view(i).shallow_clone()),
    };
    Ok((outputs, activations))
}

pub(super) fn forward(
    net: &ActorCritic,
    params: &Params,
    x: &Tensor,
) -> Result<Outputs, LearnError> {
    Ok(run(net, params, x)?.0)
}

/// Gradients of the loss at the network's outputs.
struct OutputGrads {
    head: Tensor,
    value: Tensor,
}

pub(super) fn gradient(
    net: &ActorCritic,
    params: &Params,
    x: &Tensor,
    objective: &dyn Objective,
    grads: &mut Params,
) -> Result<Vec<f64>, LearnError> {
    let _guard = tch::no_grad_guard();
    let (outputs, activations) = run(net, params, x)?;
    let (at_outputs, stats) = match by_hand(net, &outputs, objective, grads) {
        Some(done) => done?,
        None => by_autograd(net, outputs, objective, grads)?,
    };
    for (tower, layers) in net.towers.iter().zip(&activations) {
        backward(net, tower, params, x, layers, &at_outputs, grads)?;
    }
    Ok(stats)
}

/// The objective's own gradients, if it has them.
fn by_hand(
    net: &ActorCritic,
    outputs: &Outputs,
    objective: &dyn Objective,
    grads: &mut Params,
) -> Option<Result<(OutputGrads, Vec<f64>), LearnError>> {
    let (head, value) = (outputs.head.zeros_like(), outputs.value.zeros_like());
    let mut none: [f32; 0] = [];
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
        width: net.spec.head.outputs(),
    };
    let into = HeadGrads {
        // SAFETY: made just above, no other handle.
        head: unsafe { memory::f32s_mut(&head) },
        // SAFETY: made just above, no other handle.
        value: unsafe { memory::f32s_mut(&value) },
        log_std: match net.log_std {
            Some(i) => {
                // SAFETY: `grads` is borrowed mutably by this call and written nowhere else.
                let slot = unsafe { memory::f32s_mut(grads.view(i)) };
                slot.fill(0.0);
                slot
            }
            None => &mut none,
        },
    };
    let stats = objective.host_gradient(rows, into)?;
    Some(stats.map(|stats| (OutputGrads { head, value }, stats)))
}

/// The objective differentiated by autograd, down to the outputs and no further.
fn by_autograd(
    net: &ActorCritic,
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
    Ok((
        OutputGrads {
            head: dense(0),
            value: dense(1),
        },
        loss.stat_values()?,
    ))
}

/// Writes the gradients of one tower's parameters.
fn backward(
    net: &ActorCritic,
    tower: &Tower,
    params: &Params,
    x: &Tensor,
    layers: &[Tensor],
    at_outputs: &OutputGrads,
    grads: &mut Params,
) -> Result<(), LearnError> {
    let top = layers.last().unwrap_or(x);
    let value = at_outputs.value.unsqueeze(1);
    let mut d: Option<Tensor> = None;
    for (linear, out) in [(&tower.policy, &at_outputs.head), (&tower.value, &value)] {
        let Some(linear) = linear else { continue };
        let _ = out.tr().f_mm_out(grads.view(linear.weight), top)?;
        // SAFETY: gradients at the outputs are read only; the bias slot is written here alone.
        unsafe {
            kernels::column_sums(memory::f32s(out), memory::f32s_mut(grads.view(linear.bias)));
        }
        let back = params.view(linear.weight);
        d = Some(match d {
            None => out.f_mm(back)?,
            Some(d) => d.f_addmm(out, back)?,
        });
    }
    let Some(mut d) = d else { return Ok(()) };
    for (i, layer) in tower.layers.iter().enumerate().rev() {
        // SAFETY: `d` was made by this pass and has no other handle; the activations are read
        // only; the bias slot is written here alone.
        unsafe {
            let (dz, y) = (memory::f32s_mut(&d), memory::f32s(&layers[i]));
            let bias_grad = memory::f32s_mut(grads.view(layer.bias));
            match net.spec.activation {
                Activation::Tanh => kernels::tanh_backward(dz, y, bias_grad),
                Activation::Relu => kernels::relu_backward(dz, y, bias_grad),
            }
        }
        let below = if i == 0 { x } else { &layers[i - 1] };
        let _ = d.tr().f_mm_out(grads.view(layer.weight), below)?;
        if i > 0 {
            d = d.f_mm(params.view(layer.weight))?;
        }
    }
    Ok(())
}
