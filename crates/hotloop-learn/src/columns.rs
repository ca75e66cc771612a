//! The rows of a batch of segments, as the columns that minibatches are drawn from.

use crate::{
    algo::{Algorithm, Minibatch, Sequences},
    dist::HeadSpec,
    error::LearnError,
    incoming::{Features, Incoming},
    memory,
    normalize::{Normalizer, ValueUnit},
    reevaluate::Reevaluation,
    transfer,
};
use hotloop_env::{Layout, end_flags};
use hotloop_math::Rows;
use hotloop_rollout::Segment;
use tch::{Device, Kind, Tensor};

/// How rows are kept for a network that remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Rows of a sequence; the segments keep states as far apart.
    pub length: usize,
    /// Elements of a state, f32.
    pub state: usize,
}

/// Columns with room for the rows of a batch. They grow where a batch is larger than those before.
///
/// Rows that are not valid or stale are left out. With [`Recall`] they stay in their sequences, marked as
/// not valid, and sequences without any row to be trained on are left out.
pub(crate) struct Columns {
    room: Minibatch,
    device: Device,
    /// Whether a batch is copied on the CPU, too.
    pub(crate) staged: bool,
    recall: Option<Recall>,
    /// Rows taken in, and how many of them are valid.
    rows: usize,
    valid_rows: usize,
    /// The sequences taken of a segment: first row and lane.
    taken: Vec<(usize, usize)>,
    rewards: Vec<f32>,
    terminated: Vec<u8>,
    log_ratios: Vec<f32>,
    advantages: Vec<f32>,
    targets: Vec<f32>,
    trained: Vec<u8>,
}

impl Columns {
    pub(crate) fn new(
        features: usize,
        head: &HeadSpec,
        action: &Layout,
        capacity: usize,
        recall: Option<Recall>,
        device: Device,
    ) -> Result<Self, LearnError> {
        let length = recall.map_or(1, |r| r.length as i64);
        let n = (capacity as i64 + length - 1) / length * length;
        let column = |shape: &[i64], kind| {
            transfer::pinned(Tensor::f_zeros(shape, (kind, Device::Cpu))?, device)
        };
        let mut valid = column(&[n], Kind::Uint8)?;
        let _ = valid.f_fill_(1)?;
        let room = Minibatch {
            observations: column(&[n, features as i64], Kind::Float)?,
            actions: column(&[n, head.action_len() as i64], Kind::Int)?,
            old_log_probs: column(&[n], Kind::Float)?,
            old_values: column(&[n], Kind::Float)?,
            advantages: column(&[n], Kind::Float)?,
            targets: column(&[n], Kind::Float)?,
            valid,
            masks: match action.mask_bytes() {
                0 => None,
                width => Some(column(&[n, width as i64], Kind::Uint8)?),
            },
            valid_count: 1.0,
            sequences: match recall {
                None => None,
                Some(recall) => Some(Sequences {
                    length,
                    starts: column(&[n], Kind::Uint8)?,
                    states: column(&[n / length, recall.state as i64], Kind::Float)?,
                }),
            },
        };
        Ok(Self {
            room,
            device,
            staged: false,
            recall,
            rows: 0,
            valid_rows: 0,
            taken: vec![],
            rewards: vec![],
            terminated: vec![],
            log_ratios: vec![],
            advantages: vec![],
            targets: vec![],
            trained: vec![],
        })
    }

    /// Rows that stand for those of any batch, as many as there is room for; and the bytes of that room.
    pub(crate) fn rehearsal(&self) -> (Minibatch, usize) {
        (self.placed(self.room.share()), self.room.bytes())
    }

    /// Rows to be trained on.
    pub(crate) fn valid_rows(&self) -> usize {
        self.valid_rows
    }

    /// What minibatches are drawn by: sequences, or else rows.
    pub(crate) fn units(&self) -> usize {
        self.rows / self.unit()
    }

    /// Rows of a unit.
    pub(crate) fn unit(&self) -> usize {
        self.recall.map_or(1, |r| r.length)
    }

    /// The whole batch, on the device that is trained on. The copies need not be waited for: the columns are not
    /// written before the update is done with them.
    pub(crate) fn batch(&self) -> Minibatch {
        self.placed(self.room.slice(0, self.units() as i64))
    }

    fn placed(&self, rows: Minibatch) -> Minibatch {
        match self.staged || self.device != Device::Cpu {
            true => rows.copied_to(self.device),
            false => rows,
        }
    }

    /// 1 where a row is to be trained on, by row.
    pub(crate) fn valid(&self) -> &[u8] {
        // SAFETY: `&self` keeps those away that write the columns.
        let all = unsafe { memory::u8s(&self.room.valid) };
        &all[..self.rows]
    }

    /// The advantages, by row.
    pub(crate) fn advantages(&self) -> &[f32] {
        // SAFETY: `&self` keeps those away that write the columns.
        let all = unsafe { memory::f32s(&self.room.advantages) };
        &all[..self.rows]
    }

    /// Value targets and the values when the actions were chosen, by row.
    pub(crate) fn targets_and_values(&self) -> (&[f32], &[f32]) {
        // SAFETY: as for the advantages.
        let (targets, values) = unsafe {
            (
                memory::f32s(&self.room.targets),
                memory::f32s(&self.room.old_values),
            )
        };
        (&targets[..self.rows], &values[..self.rows])
    }

    /// Turns value targets and values, which are in the unit of rewards, into that of a network.
    pub(crate) fn normalize_values(&mut self, unit: ValueUnit) {
        // SAFETY: `&mut self` makes this the only access; minibatches are drawn afterwards.
        unsafe {
            unit.normalize(&mut memory::f32s_mut(&self.room.targets)[..self.rows]);
            unit.normalize(&mut memory::f32s_mut(&self.room.old_values)[..self.rows]);
        }
    }

    /// Takes in the rows of `incoming` that are to be trained on, in order, with the advantages and
    /// targets of `algorithm`; `normalizer` is of `incoming`'s version. With `anew` the rows are
    /// estimated by its values, and have log-ratios.
    pub(crate) fn fill(
        &mut self,
        incoming: &Incoming<'_>,
        features: &mut Features,
        algorithm: &dyn Algorithm,
        normalizer: &Normalizer,
        anew: Option<&Reevaluation>,
    ) {
        (self.rows, self.valid_rows) = (0, 0);
        let mut evaluated = 0;
        for segment in incoming.segments {
            let (lanes, rows) = (segment.lanes(), segment.rows() * segment.lanes());
            let anew = anew.map(|all| all.rows(evaluated, rows + lanes));
            evaluated += rows + lanes;
            self.estimate(segment, algorithm, normalizer, anew);
            let stale = incoming.stale_rows(segment) * lanes;
            self.trained.clear();
            self.trained.extend_from_slice(&segment.valid()[..rows]);
            self.trained[..stale].fill(0);
            let seen = features.of(segment, segment.rows(), incoming, normalizer);
            self.valid_rows += self.trained.iter().map(|&v| usize::from(v)).sum::<usize>();
            match self.recall {
                None => self.pack(segment, seen),
                Some(recall) => self.lay(segment, seen, recall),
            }
        }
    }

    /// Advantages and targets of one segment's rows.
    fn estimate(
        &mut self,
        segment: &Segment,
        algorithm: &dyn Algorithm,
        normalizer: &Normalizer,
        anew: Option<(&[f32], &[f32])>,
    ) {
        let rows = segment.rows() * segment.lanes();
        normalizer.scale_rewards(segment.rewards(), &mut self.rewards);
        self.terminated.clear();
        self.terminated.extend(
            segment
                .ends()
                .iter()
                .map(|flags| flags & end_flags::TERMINATED),
        );
        self.advantages.resize(rows, 0.0);
        self.targets.resize(rows, 0.0);
        let values = anew.map_or(segment.values(), |(values, _)| values);
        let mut view = Rows::new(
            segment.lanes(),
            &self.rewards,
            values,
            &self.terminated,
            segment.valid(),
        );
        if let Some((_, log_probs)) = anew {
            self.log_ratios.clear();
            let chosen = segment.log_probs().iter().zip(log_probs);
            self.log_ratios.extend(chosen.map(|(old, new)| new - old));
            view = view.with_log_ratios(&self.log_ratios);
        }
        algorithm.estimate(&view, &mut self.advantages, &mut self.targets);
    }

    /// Puts the trained rows of one segment, whose features are `seen`, behind those taken in.
    fn pack(&mut self, segment: &Segment, seen: &[f32]) {
        let taken = self.trained.iter().map(|&v| usize::from(v)).sum::<usize>();
        self.reserve(self.rows + taken);
        let (valid, at) = (&self.trained[..], self.rows);
        let spaces = segment.spaces();
        let (action, mask) = (spaces.action.record_bytes(), spaces.action.mask_bytes());
        let width = seen.len() / valid.len();
        let room = &self.room;
        // SAFETY: the columns are this struct's own, and `&mut self` makes this the only access; minibatches
        // drawn from them before are gone (an update begins with filling).
        unsafe {
            let column = |t| memory::f32s_mut(t);
            pack(seen, valid, width, at, column(&room.observations));
            let (actions, log_probs) = (segment.actions(), segment.log_probs());
            pack(actions, valid, action, at, memory::bytes_mut(&room.actions));
            pack(log_probs, valid, 1, at, column(&room.old_log_probs));
            let values = &segment.values()[..valid.len()];
            pack(values, valid, 1, at, column(&room.old_values));
            pack(&self.advantages, valid, 1, at, column(&room.advantages));
            pack(&self.targets, valid, 1, at, column(&room.targets));
            if let Some(masks) = &room.masks {
                pack(segment.masks(), valid, mask, at, memory::bytes_mut(masks));
            }
        }
        self.rows += taken;
    }

    /// Puts the sequences of one segment, whose features are `seen`, behind those taken in: stretch by
    /// stretch of time, and lane by lane in each.
    fn lay(&mut self, segment: &Segment, seen: &[f32], recall: Recall) {
        let (lanes, rows) = (segment.lanes(), segment.rows());
        self.taken.clear();
        for first in (0..rows).step_by(recall.length) {
            let last = rows.min(first + recall.length);
            for lane in 0..lanes {
                if (first..last).any(|row| self.trained[row * lanes + lane] != 0) {
                    self.taken.push((first, lane));
                }
            }
        }
        let more = self.taken.len() * recall.length;
        self.reserve(self.rows + more);
        let at = Stretches {
            taken: &self.taken,
            length: recall.length,
            lanes,
            rows,
            at: self.rows,
        };
        let spaces = segment.spaces();
        let action = spaces.action.record_bytes();
        let room = &self.room;
        // SAFETY: as for `pack`.
        unsafe {
            let column = |t| memory::f32s_mut(t);
            at.copy(
                seen,
                seen.len() / (rows * lanes),
                0.0,
                column(&room.observations),
            );
            let actions = memory::bytes_mut(&room.actions);
            at.copy(segment.actions(), action, 0, actions);
            at.copy(segment.log_probs(), 1, 0.0, column(&room.old_log_probs));
            at.copy(segment.values(), 1, 0.0, column(&room.old_values));
            at.copy(&self.advantages, 1, 0.0, column(&room.advantages));
            at.copy(&self.targets, 1, 0.0, column(&room.targets));
            let valid = memory::bytes_mut(&room.valid);
            at.copy(&self.trained, 1, 0, valid);
            // What is not trained on may never have been chosen, and its mask may allow nothing.
            let new = self.rows..self.rows + more;
            let untrained = || new.clone().filter(|row| valid[*row] == 0);
            for row in untrained() {
                actions[row * action..(row + 1) * action].fill(0);
            }
            if let Some(masks) = &room.masks {
                let (masks, width) = (memory::bytes_mut(masks), spaces.action.mask_bytes());
                at.copy(segment.masks(), width, 1, masks);
                for row in untrained() {
                    masks[row * width..(row + 1) * width].fill(1);
                }
            }
            if let Some(sequences) = &room.sequences {
                let starts = memory::bytes_mut(&sequences.starts);
                at.copy(segment.starts(), 1, 0, starts);
                let (states, width) = (column(&sequences.states), recall.state);
                let kept: &[f32] = bytemuck::cast_slice(segment.states());
                let to = states[self.rows / recall.length * width..].chunks_exact_mut(width);
                for ((first, lane), to) in self.taken.iter().zip(to) {
                    let from = (first / recall.length * lanes + lane) * width;
                    to.copy_from_slice(&kept[from..from + width]);
                }
            }
        }
        self.rows += more;
    }

    /// Makes room for `rows` rows, keeping those taken in. It is not pinned: copies of it are waited for.
    fn reserve(&mut self, rows: usize) {
        let (room, unit) = (self.room.rows() as usize, self.unit());
        if rows > room {
            let wanted = rows.max(room + room / 4);
            self.room = self.room.grown(((wanted - room).div_ceil(unit)) as i64);
        }
    }
}

/// Where the sequences of a segment come from and go to.
struct Stretches<'a> {
    /// First row and lane of each.
    taken: &'a [(usize, usize)],
    length: usize,
    lanes: usize,
    rows: usize,
    /// The first one's first row among the rows taken in.
    at: usize,
}

impl Stretches<'_> {
    /// Copies the items of their rows (`width` elements each), and `blank` behind the end of the segment.
    fn copy<T: Copy>(&self, items: &[T], width: usize, blank: T, out: &mut [T]) {
        let out = out[self.at * width..].chunks_exact_mut(self.length * width);
        for (&(first, lane), out) in self.taken.iter().zip(out) {
            let (filled, rest) = out.split_at_mut((self.rows - first).min(self.length) * width);
            for (row, out) in (first..).zip(filled.chunks_exact_mut(width)) {
                let from = (row * self.lanes + lane) * width;
                out.copy_from_slice(&items[from..from + width]);
            }
            rest.fill(blank);
        }
    }
}

/// Copies the items of valid rows (`width` elements each) behind each other, from row `at` of `out` on.
fn pack<T: Copy>(items: &[T], valid: &[u8], width: usize, at: usize, out: &mut [T]) {
    let mut to = at * width;
    let mut from = 0;
    // Runs of valid rows are copied at once: most batches have few that are not.
    while from < valid.len() {
        let run = valid[from..].iter().take_while(|&&v| v != 0).count();
        let items = &items[from * width..(from + run) * width];
        out[to..to + items.len()].copy_from_slice(items);
        to += items.len();
        from += run;
        from += valid[from..].iter().take_while(|&&v| v == 0).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_08_rows_that_are_not_valid_are_left_out() {
        let mut out = [0; 8];
        pack(&[1, 2, 3, 4, 5, 6, 7, 8], &[1, 0, 1, 1], 2, 1, &mut out);
        assert_eq!(out, [0, 0, 1, 2, 5, 6, 7, 8]);
        pack(&[9, 9], &[0, 0], 1, 0, &mut out);
        assert_eq!(out, [0, 0, 1, 2, 5, 6, 7, 8]);
    }
}
