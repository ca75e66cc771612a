//! Evaluating a batch of observation records with some weights: in place, or through one copy to the device and one back.

use crate::{
    error::LearnError,
    memory,
    net::ActorCritic,
    params::Params,
    state::{Lanes, StateStore},
    transfer::Transfer,
};
use hotloop_env::{FeaturePlan, Stacks};
use hotloop_math::Standardizer;
use tch::{Device, Kind, Tensor};

/// What is remembered of the lanes of a batch.
pub(crate) struct Past<'a> {
    pub(crate) store: &'a StateStore,
    pub(crate) lanes: Lanes<'a>,
    /// 1 where an episode starts, of which nothing is remembered yet.
    pub(crate) starts: &'a [u8],
    /// 1 where what is remembered after the row is kept; `None` keeps nothing.
    pub(crate) keep: Option<&'a [u8]>,
    /// Where the states before the rows go, if anybody wants them: `[n · state]`.
    pub(crate) before: &'a mut [f32],
}

/// A row whose action cannot be chosen.
pub(crate) struct Unusable {
    pub(crate) row: usize,
    pub(crate) reason: String,
}

/// A network with room for what it is shown and says; the results are kept until the next batch.
pub(crate) struct Evaluator {
    pub(crate) net: ActorCritic,
    plan: FeaturePlan,
    pub(crate) transfer: Transfer,
    encoded: Vec<f32>,
    features: Vec<f32>,
    /// Logits, means and log deviations, `[n · outputs]`.
    pub(crate) head: Vec<f32>,
    /// `[n]`.
    pub(crate) values: Vec<f32>,
    /// Log deviations that do not depend on the state.
    pub(crate) log_std: Vec<f32>,
}

impl Evaluator {
    pub(crate) fn new(net: ActorCritic, plan: FeaturePlan) -> Self {
        Self {
            net,
            plan,
            transfer: Transfer::default(),
            encoded: vec![],
            features: vec![],
            head: vec![],
            values: vec![],
            log_std: vec![],
        }
    }

    /// Evaluates `n` observations after their `past`, if the network remembers. Head and values are kept until
    /// the next call; of a batch that is only to be `valued`, the values are.
    pub(crate) fn evaluate(
        &mut self,
        params: &Params,
        standardizer: Option<&Standardizer>,
        observations: Stacks<'_>,
        past: Option<Past<'_>>,
        n: usize,
        valued: bool,
    ) -> Result<(), LearnError> {
        if self.transfer.is_needed(params.device()) {
            self.evaluate_there(params, standardizer, observations, past, n, valued)
        } else {
            self.evaluate_here(params, standardizer, observations, past, n)
        }
    }

    /// Evaluates in place: for the kernels without a copy of rows that need no encoding.
    fn evaluate_here(
        &mut self,
        params: &Params,
        standardizer: Option<&Standardizer>,
        observations: Stacks<'_>,
        past: Option<Past<'_>>,
        n: usize,
    ) -> Result<(), LearnError> {
        let width = self.plan.features();
        let shape = [n as i64, width as i64];
        let (plan, encoded) = (&self.plan, &mut self.encoded);
        let x = if self.net.is_fast(params) {
            let rows: &[f32] = if plan.is_plain() && standardizer.is_none() {
                bytemuck::cast_slice(observations.last())
            } else {
                self.features.resize(n * width, 0.0);
                encode(
                    plan,
                    standardizer,
                    observations,
                    encoded,
                    &mut self.features,
                );
                &self.features
            };
            // SAFETY: the kernels read `x` and keep nothing of it; it is gone before `rows` is.
            unsafe { memory::borrow_f32s(rows, &shape) }
        } else {
            // A body may keep what it is shown, so it is shown memory of its own.
            let x = Tensor::f_empty(shape, (Kind::Float, Device::Cpu))?;
            // SAFETY: the tensor was made just now; nobody else has it.
            let room = unsafe { memory::f32s_mut(&x) };
            encode(plan, standardizer, observations, encoded, room);
            x
        };
        let x = x.f_to_kind(params.kind())?;
        let out = match past {
            None => self.net.forward(params, &x)?,
            Some(past) => {
                let before = past.store.gather(&past.lanes, past.starts)?;
                let (out, after) = self.net.step(params, &x, &before)?;
                if let Some(keep) = past.keep {
                    past.store.scatter(&past.lanes, keep, &after)?;
                }
                if !past.before.is_empty() {
                    copy_into(&before, past.before)?;
                }
                out
            }
        };
        copy_to_host(&out.head, &mut self.head)?;
        copy_to_host(&out.value, &mut self.values)?;
        if let Some(log_std) = &out.log_std {
            copy_to_host(log_std, &mut self.log_std)?;
        }
        Ok(())
    }

    /// Evaluates where the weights are: with one copy of everything that is needed there, and one back.
    fn evaluate_there(
        &mut self,
        params: &Params,
        standardizer: Option<&Standardizer>,
        observations: Stacks<'_>,
        past: Option<Past<'_>>,
        n: usize,
        valued: bool,
    ) -> Result<(), LearnError> {
        let width = self.plan.features();
        // Lane numbers come first, since they are the widest, and flags last.
        let lanes = past.as_ref().map_or(0, |_| n);
        let (at_x, at_starts) = (8 * lanes, 8 * lanes + 4 * n * width);
        let at_keep = at_starts + lanes;
        let (plan, encoded) = (&self.plan, &mut self.encoded);
        let sent = self
            .transfer
            .upload(params.device(), at_keep + lanes, |room| {
                let (numbers, room) = room.split_at_mut(at_x);
                let (x, flags) = room.split_at_mut(at_starts - at_x);
                encode(
                    plan,
                    standardizer,
                    observations,
                    encoded,
                    bytemuck::cast_slice_mut(x),
                );
                if let Some(past) = &past {
                    let numbers = numbers.chunks_exact_mut(8).zip(past.lanes.iter());
                    numbers.for_each(|(to, lane)| to.copy_from_slice(&lane.to_ne_bytes()));
                    let (starts, keep) = flags.split_at_mut(lanes);
                    starts.copy_from_slice(past.starts);
                    if let Some(kept) = past.keep {
                        keep.copy_from_slice(kept);
                    }
                }
            })?;
        let part = |from: usize, to: usize, kind: Kind| -> Result<Tensor, LearnError> {
            let part = sent.f_narrow(0, from as i64, (to - from) as i64)?;
            Ok(part.f_view_dtype(kind)?.f_view([n as i64, -1])?)
        };
        let x = part(at_x, at_starts, Kind::Float)?.f_to_kind(params.kind())?;
        let (out, before, wanted) = match past {
            None => (self.net.forward(params, &x)?, None, &mut [][..]),
            Some(past) => {
                let index = part(0, at_x, Kind::Int64)?.f_view([-1])?;
                let starts = part(at_starts, at_keep, Kind::Uint8)?.f_ne(0)?;
                let stored = past.store.select(&index)?;
                let before = stored.f_masked_fill(&starts, 0.0)?;
                let (out, after) = self.net.step(params, &x, &before)?;
                if past.keep.is_some() {
                    let keep = part(at_keep, at_keep + lanes, Kind::Uint8)?.f_ne(0)?;
                    past.store
                        .replace(&index, &after.f_where_self(&keep, &stored)?)?;
                }
                (out, Some(before), past.before)
            }
        };
        let mut parts = vec![&out.value];
        if !valued {
            parts.push(&out.head);
            parts.extend(&out.log_std);
        }
        parts.extend(before.as_ref().filter(|_| !wanted.is_empty()));
        let back = self.transfer.download(&parts)?;
        let (values, back) = back.split_at(n);
        self.values.clear();
        self.values.extend_from_slice(values);
        if !valued {
            let (head, back) = back.split_at(n * self.net.spec().head.outputs());
            self.head.clear();
            self.head.extend_from_slice(head);
            self.log_std.clear();
            self.log_std
                .extend_from_slice(&back[..back.len() - wanted.len()]);
        }
        wanted.copy_from_slice(&back[back.len() - wanted.len()..]);
        Ok(())
    }

    pub(crate) fn finite_values(&self) -> Result<(), Unusable> {
        match self.values.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(row) => Err(Unusable {
                row,
                reason: format!(
                    "its value is {}; look for NaN or infinite observations, or a learning rate that is \
                     too high",
                    self.values[row]
                ),
            }),
        }
    }
}

/// The features of `observations`, as the network is to see them; `encoded` is room in between.
fn encode(
    plan: &FeaturePlan,
    standardizer: Option<&Standardizer>,
    observations: Stacks<'_>,
    encoded: &mut Vec<f32>,
    out: &mut [f32],
) {
    let records = observations.last();
    let each = |out: &mut [f32]| {
        let n = out.len() / plan.features().max(1);
        plan.encode_stacks(&observations, 0..n, out);
    };
    match (standardizer, plan.is_plain()) {
        (None, true) => out.copy_from_slice(bytemuck::cast_slice(records)),
        (None, false) => each(out),
        (Some(standardizer), true) => standardizer.apply(bytemuck::cast_slice(records), out),
        (Some(standardizer), false) => {
            encoded.resize(out.len(), 0.0);
            each(encoded);
            standardizer.apply(encoded, out);
        }
    }
}

fn copy_to_host(tensor: &Tensor, out: &mut Vec<f32>) -> Result<(), LearnError> {
    out.resize(tensor.numel(), 0.0);
    copy_into(tensor, out)
}

fn copy_into(tensor: &Tensor, out: &mut [f32]) -> Result<(), LearnError> {
    let n = out.len();
    if memory::is_dense_host_f32(tensor) {
        // SAFETY: the tensor is the network's fresh output; nobody else has it.
        out.copy_from_slice(unsafe { memory::f32s(tensor) });
    } else {
        let host = tensor
            .f_to_device(Device::Cpu)?
            .f_to_kind(Kind::Float)?
            .f_contiguous()?;
        host.f_copy_data(out, n)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
