//! What the weights that are about to be trained say of the rows that older ones chose.
//!
//! All rows are evaluated once per update, final observations and bootstrap rows too: their values are
//! the successors of others. A network that remembers goes through each segment from its first row on,
//! from the state that the rollout had there. The work is cut into a configured number of pieces, as in
//! [`crate::shards`], so that the number of threads changes no bit.

use crate::{
    algo::Sequences,
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
    /// The segments that wait to be evaluated, with the bootstrap rows: rows and lanes.
    waiting: Vec<(usize, usize)>,
    /// Their rows: in order, or lane by lane for a network that remembers.
    observations: Vec<f32>,
    actions: Vec<u8>,
    masks: Vec<u8>,
    /// For a network that remembers: where episodes start, and each lane's state before its first row.
    starts: Vec<u8>,
    states: Vec<f32>,
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
        let state = judge.net.state();
        let mut waiting = 0;
        for segment in incoming.segments {
            let rows = segment.rows() + 1;
            // Sequences that are evaluated together are of one length.
            let fits = |(length, _): &(usize, usize)| state == 0 || *length == rows;
            if !self.waiting.last().is_none_or(fits) {
                self.evaluate(state, judge)?;
                waiting = 0;
            }
            self.take(segment, state, incoming, features, judge.normalizer);
            waiting += rows * segment.lanes();
            if waiting >= TOGETHER {
                self.evaluate(state, judge)?;
                waiting = 0;
            }
        }
        if waiting > 0 {
            self.evaluate(state, judge)?;
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
        state: usize,
        incoming: &Incoming<'_>,
        features: &mut Features,
        normalizer: &Normalizer,
    ) {
        let (rows, lanes) = (segment.rows() + 1, segment.lanes());
        self.waiting.push((rows, lanes));
        let seen = features.of(segment, rows, incoming, normalizer);
        let width = seen.len() / (rows * lanes);
        if state == 0 {
            self.observations.extend_from_slice(seen);
        }
        let (decided, valid) = (segment.rows() * lanes, segment.valid());
        let spaces = segment.spaces();
        let (action, mask) = (spaces.action.record_bytes(), spaces.action.mask_bytes());
        for i in 0..rows * lanes {
            let mut row = i;
            if state > 0 {
                row = (i % rows) * lanes + i / rows;
                self.observations
                    .extend_from_slice(&seen[row * width..(row + 1) * width]);
                self.starts.push(segment.starts()[row]);
            }
            // Rows whose action was not taken, or not chosen, hold none, and their masks may allow none.
            let acted = valid[row] != 0 && row < decided;
            let stored = |bytes: usize, all: &[u8], out: &mut Vec<u8>, blank: u8| {
                if acted {
                    out.extend_from_slice(&all[row * bytes..(row + 1) * bytes]);
                } else {
                    out.resize(out.len() + bytes, blank);
                }
            };
            stored(action, segment.actions(), &mut self.actions, 0);
            stored(mask, segment.masks(), &mut self.masks, 1);
        }
        if state > 0 {
            let states: &[f32] = bytemuck::cast_slice(segment.states());
            self.states.extend_from_slice(&states[..lanes * state]);
        }
    }

    /// Evaluates the segments that wait.
    fn evaluate(&mut self, state: usize, judge: &Judge<'_>) -> Result<(), LearnError> {
        let n: usize = self.waiting.iter().map(|(rows, lanes)| rows * lanes).sum();
        let length = match self.waiting.first() {
            Some((rows, _)) if state > 0 => *rows,
            _ => 1,
        };
        let units = n / length;
        let work = (0..judge.shards)
            .map(|i| (i * units / judge.shards, (i + 1) * units / judge.shards))
            .filter(|(start, end)| start < end)
            .map(|units| self.piece(units, length, state, judge))
            .collect();
        let at = self.values.len();
        for done in judge.pool.run(work) {
            let (values, log_probs) = done?;
            self.values.extend(values);
            self.log_probs.extend(log_probs);
        }
        if state > 0 {
            by_rows(&self.waiting, &mut self.values[at..]);
            by_rows(&self.waiting, &mut self.log_probs[at..]);
        }
        self.waiting.clear();
        self.observations.clear();
        self.actions.clear();
        self.masks.clear();
        self.starts.clear();
        self.states.clear();
        Ok(())
    }

    /// The work of one piece, units `start .. end` of `length` rows: values and log-probabilities.
    fn piece(
        &self,
        (start, end): (usize, usize),
        length: usize,
        state: usize,
        judge: &Judge<'_>,
    ) -> impl FnOnce() -> Result<(Vec<f32>, Vec<f32>), LearnError> + Send + 'static + use<> {
        let device = judge.params.device();
        let spec = judge.net.spec();
        let column = |bytes: &[u8], kind: Kind, items: usize, start: usize, end: usize| {
            let width = items * kind.elt_size_in_bytes();
            let part = &bytes[start * width..end * width];
            let shape = [(end - start) as i64, items as i64];
            Tensor::from_data_size(part, &shape, kind).to_device(device)
        };
        let (first, last) = (start * length, end * length);
        let observations: &[u8] = bytemuck::cast_slice(&self.observations);
        let features = spec.inputs.len();
        let x = column(observations, Kind::Float, features, first, last);
        let actions = spec.head.action_len();
        let actions = column(&self.actions, Kind::Int, actions, first, last);
        let masks = (!self.masks.is_empty())
            .then(|| column(&self.masks, Kind::Uint8, spec.head.mask_len(), first, last));
        let sequences = (state > 0).then(|| Sequences {
            length: length as i64,
            starts: column(&self.starts, Kind::Uint8, 1, first, last).flatten(0, 1),
            states: column(
                bytemuck::cast_slice(&self.states),
                Kind::Float,
                state,
                start,
                end,
            ),
        });
        let (net, params) = (Arc::clone(judge.net), judge.params.share());
        move || {
            let _guard = tch::no_grad_guard();
            let outputs = match &sequences {
                None => net.forward(&params, &x)?,
                Some(sequences) => net.unroll(&params, &x, sequences)?,
            };
            let (log_probs, _) =
                net.spec()
                    .head
                    .log_prob_entropy(&outputs, &actions, masks.as_ref())?;
            Ok((
                Vec::<f32>::try_from(&outputs.value)?,
                Vec::<f32>::try_from(log_probs)?,
            ))
        }
    }
}

/// Turns what is there lane by lane for each of `segments` (rows and lanes) into row by row.
fn by_rows(segments: &[(usize, usize)], mut all: &mut [f32]) {
    for &(rows, lanes) in segments {
        let (here, rest) = all.split_at_mut(rows * lanes);
        let by_lanes = here.to_vec();
        for (i, x) in by_lanes.into_iter().enumerate() {
            here[i % rows * lanes + i / rows] = x;
        }
        all = rest;
    }
}
