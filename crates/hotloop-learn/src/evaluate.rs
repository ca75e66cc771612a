//! Evaluating a batch of observation records with some weights: in place, or through one copy to the device and one back.

use crate::{
    error::LearnError,
    memory,
    net::ActorCritic,
    params::Params,
    state::{Lanes, StateStore},
    transfer::Transfer,
};
use hotloop_env::FeaturePlan;
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

    /// Evaluates `n` observation records after their `past`, if the network remembers. Head and values are kept until
    /// the next call; of a batch that is only to be `valued`, the values are.
    pub(crate) fn evaluate(
        &mut self,
        params: &Params,
        standardizer: Option<&Standardizer>,
        records: &[u8],
        past: Option<Past<'_>>,
        n: usize,
        valued: bool,
    ) -> Result<(), LearnError> {
        if self.transfer.is_needed(params.device()) {
            self.evaluate_there(params, standardizer, records, past, n, valued)
        } else {
            self.evaluate_here(params, standardizer, records, past, n)
        }
    }

    /// Evaluates in place, without a copy of rows that need no encoding.
    fn evaluate_here(
        &mut self,
        params: &Params,
        standardizer: Option<&Standardizer>,
        records: &[u8],
        past: Option<Past<'_>>,
        n: usize,
    ) -> Result<(), LearnError> {
        let width = self.plan.features();
        let rows: &[f32] = if self.plan.is_plain() && standardizer.is_none() {
            bytemuck::cast_slice(records)
        } else {
            self.features.resize(n * width, 0.0);
            let out = &mut self.features;
            encode(&self.plan, standardizer, records, &mut self.encoded, out);
            out
        };
        // SAFETY: `x` and everything computed from it without a copy are gone before `rows` is.
        let x = unsafe { memory::borrow_f32s(rows, &[n as i64, width as i64]) };
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
        records: &[u8],
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
                    records,
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

/// The features of `records`, as the network is to see them; `encoded` is room in between.
fn encode(
    plan: &FeaturePlan,
    standardizer: Option<&Standardizer>,
    records: &[u8],
    encoded: &mut Vec<f32>,
    out: &mut [f32],
) {
    let each = |out: &mut [f32]| {
        let bytes = records.len() * plan.features() / out.len().max(1);
        let out = out.chunks_exact_mut(plan.features());
        let rows = records.chunks_exact(bytes.max(1)).zip(out);
        rows.for_each(|(record, out)| plan.encode(record, out));
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
mod tests {
    use super::*;
    use crate::{
        dist::{Deviation, HeadPart, HeadSpec},
        net::{Activation, CellKind, Encoder, ImageNet, Mlp, NetworkSpec, RecurrentSpec},
    };
    use hotloop_env::{FeatureSpec, ImageLayout, Layout, Space};
    use hotloop_math::RunningMoments;
    use std::sync::Arc;

    const LANES: usize = 5;

    fn network(observation: &Layout, recurrent: Option<CellKind>, fast: bool) -> ActorCritic {
        let top = Mlp {
            hidden: vec![16],
            activation: Activation::Tanh,
        };
        let image = observation.leaves().len() > 1;
        ActorCritic::new(NetworkSpec {
            inputs: FeatureSpec::new(observation),
            body: match image {
                true => Arc::new(Encoder {
                    image: Some(ImageNet::Small),
                    top,
                }),
                false => Arc::new(top),
            },
            recurrent: recurrent.map(|kind| RecurrentSpec { kind, hidden: 8 }),
            shared: false,
            head: HeadSpec::from_iter([
                HeadPart::Categorical {
                    sizes: vec![3],
                    masked: false,
                },
                HeadPart::Gaussian {
                    dim: 2,
                    deviation: Deviation::Free,
                    squash: false,
                },
            ]),
            fast,
        })
        .unwrap()
    }

    /// A plain vector, and a vector with an image.
    fn layouts() -> [Layout; 2] {
        let vector = Space::unbounded(&[3]);
        let image = Space::image([6, 6, 2], ImageLayout::Hwc);
        [
            Layout::new(&vector).unwrap(),
            Layout::new(&Space::dict([("a", image), ("b", vector)])).unwrap(),
        ]
    }

    /// Records whose numbers are all between −1 and 1, or bytes.
    fn records(layout: &Layout, n: usize, turn: usize) -> Vec<f32> {
        // Words of three bytes and an exponent of about 1 serve as both.
        let words = n * layout.record_bytes() / 4;
        (0..words)
            .map(|i| ((i * 7 + turn * 13) as f32 * 0.61).sin())
            .collect()
    }

    /// All that `turns` batches are told, with standardization in every other, and the states that are left.
    fn said(
        mut evaluator: Evaluator,
        layout: &Layout,
        params: &Params,
        lanes: &Lanes<'_>,
    ) -> Vec<f32> {
        let width = evaluator.net.state();
        let store = (width > 0).then(|| StateStore::new(LANES + 2, width, Device::Cpu).unwrap());
        let features = FeaturePlan::new(layout).features();
        let means = (0..features).map(|i| (i as f64).sin() * 0.1).collect();
        let moments = RunningMoments::from_parts(9, means, vec![3.0; features]).unwrap();
        let standardizer = Standardizer::new(&moments, 1e-8, 5.0);
        let mut all = vec![];
        for turn in 0..6 {
            let n = lanes.iter().count();
            let rows = records(layout, n, turn);
            let flags = |k: usize| (0..n).map(|i| u8::from((turn + i) % k == 0)).collect();
            let (starts, keep): (Vec<u8>, Vec<u8>) = (flags(3), flags(2));
            let valued = turn == 4;
            let mut before = vec![0.0; if turn % 2 == 0 { n * width } else { 0 }];
            let past = store.as_ref().map(|store| Past {
                store,
                lanes: lanes.clone(),
                starts: &starts,
                keep: (!valued).then_some(&keep[..]),
                before: &mut before,
            });
            let standardizer = (turn % 2 == 1).then_some(&standardizer);
            let records = bytemuck::cast_slice(&rows);
            evaluator
                .evaluate(params, standardizer, records, past, n, valued)
                .unwrap();
            all.extend_from_slice(&evaluator.values);
            if !valued {
                all.extend_from_slice(&evaluator.head);
                all.extend_from_slice(&evaluator.log_std);
            }
            all.extend(before);
        }
        all.extend(store.iter().flat_map(|store| store.save().unwrap()));
        all
    }

    fn evaluator(net: &ActorCritic, layout: &Layout, staged: bool) -> Evaluator {
        let mut evaluator = Evaluator::new(net.clone(), FeaturePlan::new(layout));
        evaluator.transfer = Transfer::new(staged, Arc::default());
        evaluator
    }

    #[test]
    fn staged_batches_are_told_the_same() {
        for layout in &layouts() {
            for recurrent in [None, Some(CellKind::Gru), Some(CellKind::Lstm)] {
                for fast in [true, false] {
                    let net = network(layout, recurrent, fast);
                    let params = net.init(3, Device::Cpu).unwrap();
                    for lanes in [Lanes::Run(1..LANES), Lanes::Each(&[6, 0, 3])] {
                        let here = said(evaluator(&net, layout, false), layout, &params, &lanes);
                        let there = said(evaluator(&net, layout, true), layout, &params, &lanes);
                        assert_eq!(here, there, "{recurrent:?} {fast} {lanes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn bf16_is_told_nearly_the_same() {
        for layout in &layouts() {
            let net = network(layout, None, true);
            let params = net.init(3, Device::Cpu).unwrap();
            let rounded = params.rounded(Kind::BFloat16);
            let lanes = Lanes::Run(0..LANES);
            let exact = said(evaluator(&net, layout, false), layout, &params, &lanes);
            for staged in [false, true] {
                let near = said(evaluator(&net, layout, staged), layout, &rounded, &lanes);
                let differences = near.iter().zip(&exact).map(|(a, b)| (a - b).abs());
                let largest = differences.fold(0.0, f32::max);
                // 8 bits of mantissa, through a few layers of numbers of about 1.
                assert!(largest > 0.0 && largest < 0.04, "{largest}");
            }
        }
    }
}
