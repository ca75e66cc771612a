//! The network through autograd: any device, any body, any objective.

use super::{ActorCritic, Outputs, Tower, Views};
use crate::{
    algo::Sequences, dist::tensor::shaped, error::LearnError, objective::Objective, params::Params,
};
use tch::Tensor;

/// The parameters as they are, for evaluation.
pub(super) fn views(net: &ActorCritic, params: &Params) -> Vec<Tensor> {
    (0..net.layout.entries().len())
        .map(|i| params.view(i).shallow_clone())
        .collect()
}

/// What the network says of rows `x`, and what it remembers after the last row of each sequence: `[sequences, state]`.
pub(super) fn forward(
    net: &ActorCritic,
    params: &[Tensor],
    x: &Tensor,
    sequences: Option<&Sequences>,
) -> Result<(Outputs, Option<Tensor>), LearnError> {
    let (mut head, mut value) = (None, None);
    let (mut at, mut after) = (0, vec![]);
    for tower in &net.towers {
        let mut h = hidden(net, tower, params, x)?;
        if let (Some(core), Some(s)) = (&tower.core, sequences) {
            let width = core.state() as i64;
            let before = s.states.f_narrow(1, at, width)?;
            let state;
            (h, state) = core.unroll(params, &h, s.length, &s.starts, &before)?;
            after.push(state);
            at += width;
        }
        let (policy, v) = heads(tower, params, &h)?;
        head = head.or(policy);
        value = value.or(v);
    }
    let outputs = Outputs {
        head: head.expect("one tower has the policy head by construction"),
        value: value.expect("one tower has the value head by construction"),
        log_std: net.log_std.map(|i| params[i].shallow_clone()),
    };
    let states = match after.is_empty() {
        true => None,
        false => Some(Tensor::f_cat(&after, 1)?),
    };
    Ok((outputs, states))
}

/// What the tower's body makes of rows `x`: `[n, width]`.
fn hidden(
    net: &ActorCritic,
    tower: &Tower,
    params: &[Tensor],
    x: &Tensor,
) -> Result<Tensor, LearnError> {
    let views = Views::new(&net.layout, params, tower.name);
    let h = net.spec.body.forward(&net.spec.inputs, &views, x)?;
    let expected = [x.size()[0], tower.width as i64];
    shaped("what the network's body returned", &h, &expected, x.kind())?;
    Ok(h)
}

/// Policy outputs `[n, outputs]` and values `[n]`, where the tower has them.
fn heads(
    tower: &Tower,
    params: &[Tensor],
    h: &Tensor,
) -> Result<(Option<Tensor>, Option<Tensor>), LearnError> {
    let linear = |l: &super::Linear| h.f_linear(&params[l.weight], Some(&params[l.bias]));
    let policy = tower.policy.as_ref().map(linear).transpose()?;
    let value = match &tower.value {
        Some(value) => Some(linear(value)?.f_squeeze_dim(1)?),
        None => None,
    };
    Ok((policy, value))
}

pub(super) fn gradient(
    net: &ActorCritic,
    params: &Params,
    x: &Tensor,
    sequences: Option<&Sequences>,
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
        let (outputs, _) = forward(net, &leaves, x, sequences)?;
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
