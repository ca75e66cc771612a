//! The network through autograd: any device, any objective.

use super::{Activation, ActorCritic, Linear, Outputs};
use crate::{error::LearnError, objective::Objective, params::Params};
use tch::Tensor;

/// The parameters as they are, for evaluation.
pub(super) fn views(net: &ActorCritic, params: &Params) -> Vec<Tensor> {
    (0..net.layout.entries().len())
        .map(|i| params.view(i).shallow_clone())
        .collect()
}

pub(super) fn forward(
    net: &ActorCritic,
    params: &[Tensor],
    x: &Tensor,
) -> Result<Outputs, LearnError> {
    let linear = |x: &Tensor, l: &Linear| x.f_linear(&params[l.weight], Some(&params[l.bias]));
    let (mut head, mut value) = (None, None);
    for tower in &net.towers {
        let mut h = x.shallow_clone();
        for layer in &tower.layers {
            let z = linear(&h, layer)?;
            h = match net.spec.activation {
                Activation::Tanh => z.f_tanh()?,
                Activation::Relu => z.f_relu()?,
            };
        }
        if let Some(policy) = &tower.policy {
            head = Some(linear(&h, policy)?);
        }
        if let Some(v) = &tower.value {
            value = Some(linear(&h, v)?.f_squeeze_dim(1)?);
        }
    }
    Ok(Outputs {
        head: head.expect("one tower has the policy head by construction"),
        value: value.expect("one tower has the value head by construction"),
        log_std: net.log_std.map(|i| params[i].shallow_clone()),
    })
}

pub(super) fn gradient(
    net: &ActorCritic,
    params: &Params,
    x: &Tensor,
    objective: &dyn Objective,
    grads: &mut Params,
) -> Result<Vec<f64>, LearnError> {
    // Leaves of this call's own graph over the shared memory: no `.grad` is touched, so shards may
    // differentiate the same arena at the same time.
    let leaves: Vec<Tensor> = views(net, params)
        .iter()
        .map(|v| v.detach().set_requires_grad(true))
        .collect();
    let loss = tch::with_grad(|| {
        let outputs = forward(net, &leaves, x)?;
        objective.loss(&outputs)
    })?;
    let found = Tensor::f_run_backward(&[&loss.total], &leaves, false, false)?;
    tch::no_grad(|| -> Result<(), LearnError> {
        for (i, grad) in found.iter().enumerate() {
            let mut target = grads.view(i).shallow_clone();
            // A parameter that the loss does not depend on has no gradient at all.
            if grad.defined() {
                target.f_copy_(grad)?;
            } else {
                let _ = target.f_zero_()?;
            }
        }
        Ok(())
    })?;
    loss.stat_values()
}
