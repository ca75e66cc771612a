//! What the weights that are about to be trained say of the rows that older ones chose.
//!
//! All rows are evaluated once per update, final observations and bootstrap rows too: their values are
//! the successors of others. The work is cut into pieces by rows and not by threads, as in
//! [`crate::shards`], so that the number of threads changes no bit.

use crate::{
    error::LearnError,
    incoming::{Features, Incoming},
    net::ActorCritic,
    normalize::Normalizer,
    params::Params,
    pool::Pool,
};
use hotloop_rollout::Segment;
use std::sync::Arc;
use tch::{Kind, Tensor};

/// Rows that are evaluated together: enough to keep the threads busy, and few enough to need little
/// memory beside the batch.
const TOGETHER: usize = 1 << 14;

/// The network with the weights that judge.
pub(crate) struct Judge<'a> {
    pub(crate) pool: &'a Pool,
    /// Pieces that rows are cut into.
    pub(crate) shards: usize,
    pub(crate) net: &'a Arc<ActorCritic>,
    pub(crate) params: &'a Params,
    pub(crate) normalizer: &'a Normalizer,
}

/// Values and log-probabilities of all rows of some segments, one segment after the other, in the order
/// of the segments' own rows, `[R + 1][L]` each.
#[derive(Default)]
pub(crate) struct Reevaluation {
    /// In the unit of rewards.
    values: Vec<f32>,
    /// Of the stored actions; of rows without one, any number.
    log_probs: Vec<f32>,
    observations: Vec<f32>,
    actions: Vec<u8>,
    masks: Vec<u8>,
}

impl Reevaluation {
    /// Evaluates `incoming`.
    pub(crate) fn run(
        &mut self,
        incoming: &Incoming<'_>,
        features: &mut Features,
        judge: &Judge<'_>,
    ) -> Result<(), LearnError> {
        self.values.clear();
        self.log_probs.clear();
        let mut waiting = 0;
        for segment in incoming.segments {
            self.take(segment, incoming, features, judge.normalizer);
            waiting += (segment.rows() + 1) * segment.lanes();
            if waiting >= TOGETHER {
                self.evaluate(waiting, judge)?;
                waiting = 0;
            }
        }
        if waiting > 0 {
            self.evaluate(waiting, judge)?;
        }
        if let Some(unit) = judge.normalizer.value_unit() {
            unit.denormalize(&mut self.values);
        }
        Ok(())
    }

    /// Values and log-probabilities of the `n` rows from place `at` on, counted over all segments.
    pub(crate) fn rows(&self, at: usize, n: usize) -> (&[f32], &[f32]) {
        (&self.values[at..at + n], &self.log_probs[at..at + n])
    }

    /// Puts a segment's rows behind those that wait.
    fn take(
        &mut self,
        segment: &Segment,
        incoming: &Incoming<'_>,
        features: &mut Features,
        normalizer: &Normalizer,
    ) {
        let rows = segment.rows() + 1;
        let seen = features.of(segment, rows, incoming, normalizer);
        self.observations.extend_from_slice(seen);
        let decided = segment.rows() * segment.lanes();
        let spaces = segment.spaces();
        let (action, mask) = (spaces.action.record_bytes(), spaces.action.mask_bytes());
        for (row, &valid) in segment.valid().iter().enumerate() {
            // Rows whose action was not taken, or not chosen, hold none, and their masks may allow none.
            let acted = valid != 0 && row < decided;
            let stored = |bytes: usize, all: &[u8], out: &mut Vec<u8>, else_: u8| {
                if acted {
                    out.extend_from_slice(&all[row * bytes..(row + 1) * bytes]);
                } else {
                    out.resize(out.len() + bytes, else_);
                }
            };
            stored(action, segment.actions(), &mut self.actions, 0);
            stored(mask, segment.masks(), &mut self.masks, 1);
        }
    }

    /// Evaluates the `n` rows that wait.
    fn evaluate(&mut self, n: usize, judge: &Judge<'_>) -> Result<(), LearnError> {
        let device = judge.params.device();
        let column = |bytes: &[u8], kind: Kind, start: usize, end: usize| {
            let width = bytes.len() / n;
            let items = (width / kind.elt_size_in_bytes()) as i64;
            let part = &bytes[start * width..end * width];
            Tensor::from_data_size(part, &[(end - start) as i64, items], kind).to_device(device)
        };
        let observations: &[u8] = bytemuck::cast_slice(&self.observations);
        let work = (0..judge.shards)
            .map(|i| (i * n / judge.shards, (i + 1) * n / judge.shards))
            .filter(|(start, end)| start < end)
            .map(|(start, end)| {
                let x = column(observations, Kind::Float, start, end);
                let actions = column(&self.actions, Kind::Int, start, end);
                let masks =
                    (!self.masks.is_empty()).then(|| column(&self.masks, Kind::Uint8, start, end));
                let (net, params) = (Arc::clone(judge.net), judge.params.share());
                move || {
                    let _guard = tch::no_grad_guard();
                    let outputs = net.forward(&params, &x)?;
                    let (log_probs, _) =
                        net.spec()
                            .head
                            .log_prob_entropy(&outputs, &actions, masks.as_ref())?;
                    Ok((
                        Vec::<f32>::try_from(&outputs.value)?,
                        Vec::<f32>::try_from(log_probs)?,
                    ))
                }
            })
            .collect();
        for done in judge.pool.run(work) {
            let (values, log_probs) = done?;
            self.values.extend(values);
            self.log_probs.extend(log_probs);
        }
        self.observations.clear();
        self.actions.clear();
        self.masks.clear();
        Ok(())
    }
}
