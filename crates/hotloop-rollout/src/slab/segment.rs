//! The token that owns a segment.

use super::columns::Columns;
use super::memory::{BlockRows, FirstRow, Slab};
use hotloop_env::{Stacks, end_flags::TERMINATED};
use std::sync::Arc;

/// A row as inference sees it.
#[derive(Debug)]
pub(crate) struct DecisionRow<'a> {
    /// With those of the rows before that are seen at once, `[stack][lanes][record]`.
    pub(crate) observations: &'a [u8],
    /// Empty without a stack.
    pub(crate) depths: &'a [u16],
    pub(crate) masks: &'a [u8],
    pub(crate) valid: &'a [u8],
    pub(crate) starts: &'a [u8],
    pub(crate) actions: &'a mut [u8],
    pub(crate) log_probs: &'a mut [f32],
    pub(crate) values: &'a mut [f32],
    /// Empty but in rows whose states are kept.
    pub(crate) states: &'a mut [u8],
}

/// Owns the memory of one segment: whoever has it may read and write all of it.
#[derive(Debug)]
pub(crate) struct SegmentBuf {
    pub(super) slab: Arc<Slab>,
    pub(super) index: u32,
}

/// Makes readers of a column's first rows: name, element, rows there are, elements of a lane.
macro_rules! columns {
    ($($name:ident: $t:ty, $rows:expr, $width:expr;)*) => {
        impl SegmentBuf {$(
            pub(crate) fn $name(&self, rows: usize) -> &[$t] {
                let c = self.slab.columns();
                let (most, width): (fn(&Columns) -> usize, fn(&Columns) -> usize) = ($rows, $width);
                assert!(rows <= most(c), "{rows} rows of a column of {}", most(c));
                let len = rows * c.lanes * width(c);
                // SAFETY: inside the column by the assertion; writing needs `&mut self`, or the token
                // locked away in a `Lender`, while no borrow of it exists.
                unsafe { self.slab.read(self.index, c.$name, 0, len) }
            }
        )*}
    };
}
columns! {
    observations: u8, |c| c.steps + c.stack, |c| c.observation;
    depths: u16, |c| c.steps + 1, |c| c.depth;
    masks: u8, |c| c.steps + 1, |c| c.mask;
    actions: u8, |c| c.steps, |c| c.action;
    rewards: f32, |c| c.steps, |_| 1;
    log_probs: f32, |c| c.steps, |_| 1;
    values: f32, |c| c.steps + 1, |_| 1;
    episode_returns: f32, |c| c.steps, |_| 1;
    episode_lengths: u32, |c| c.steps, |_| 1;
    ends: u8, |c| c.steps, |_| 1;
    valid: u8, |c| c.steps + 1, |_| 1;
    starts: u8, |c| c.steps + 1, |_| 1;
    states: u8, |c| c.steps.div_ceil(c.state_every), |c| c.state;
}

impl SegmentBuf {
    /// Sizes.
    pub(crate) fn shape(&self) -> &Columns {
        self.slab.columns()
    }

    /// The policy version of each row, of all lanes alike.
    pub(crate) fn versions(&self) -> &[u64] {
        let c = self.slab.columns();
        // SAFETY: this is the whole column, which no `BlockToken` reaches; writing needs `&mut self`.
        unsafe { self.slab.read(self.index, c.versions, 0, c.steps + 1) }
    }

    /// Says which version row `t` is decided with.
    pub(crate) fn set_version(&mut self, t: usize, version: u64) {
        let c = self.slab.columns();
        assert!(t <= c.steps, "row {t} of a segment of {} steps", c.steps);
        // SAFETY: inside the column; `&mut self` is the exclusive right to the segment.
        let place = unsafe { self.slab.write(self.index, c.versions, t, 1) };
        place[0] = version;
    }

    /// Where row 0 says which lanes' episodes start there.
    pub(crate) fn first_starts(&mut self) -> &mut [u8] {
        let c = self.slab.columns();
        // SAFETY: inside the column; `&mut self` is the exclusive right to the segment.
        unsafe { self.slab.write(self.index, c.starts, 0, c.lanes) }
    }

    /// The observations of row 0 with those of the rows before it, `[stack][lanes][record]`.
    pub(crate) fn first_frames(&mut self) -> &mut [u8] {
        let c = self.slab.columns();
        let len = c.stack * c.lanes * c.observation;
        // SAFETY: inside the column, which has `stack + T` rows; `&mut self` is the exclusive right to the
        // segment.
        unsafe { self.slab.write(self.index, c.observations, 0, len) }
    }

    /// Says of all lanes how many of the observations before row 0 are of the same episode.
    pub(crate) fn set_first_depths(&mut self, depth: usize) {
        let c = self.slab.columns();
        // SAFETY: inside the column; `&mut self` is the exclusive right to the segment.
        let depths = unsafe { self.slab.write(self.index, c.depths, 0, c.lanes * c.depth) };
        // Never more than fit: a stack has at most 2^16 frames.
        depths.fill(depth as u16);
    }

    /// Says in row `t + 1` which lanes' episodes start there: where row `t` terminated, or is not valid
    /// and so was a reset. Depths follow from that.
    pub(crate) fn mark_starts(&mut self, t: usize) {
        let c = self.slab.columns();
        assert!(t < c.steps, "step {t} of a segment of {} steps", c.steps);
        let (s, n, at) = (&*self.slab, c.lanes, t * c.lanes);
        // SAFETY: inside the columns because `t < steps`; the slices do not overlap; `&mut self` is the
        // exclusive right to the segment.
        let (ends, valid, starts): (&[u8], &[u8], &mut [u8]) = unsafe {
            (
                s.read(self.index, c.ends, at, n),
                s.read(self.index, c.valid, at, n),
                s.write(self.index, c.starts, at + n, n),
            )
        };
        for ((start, end), valid) in starts.iter_mut().zip(ends).zip(valid) {
            *start = (end & TERMINATED) | (valid ^ 1);
        }
        if c.depth > 0 {
            // SAFETY: as above; rows `t` and `t + 1` do not overlap.
            let (before, depths): (&[u16], &mut [u16]) = unsafe {
                (
                    s.read(self.index, c.depths, at, n),
                    s.write(self.index, c.depths, at + n, n),
                )
            };
            for ((depth, before), start) in depths.iter_mut().zip(before).zip(starts) {
                *depth = Stacks::depth(c.stack, *before, *start);
            }
        }
    }

    /// Valid rows among the first `rows`.
    pub(crate) fn env_steps(&self, rows: usize) -> u64 {
        let trainable = self.valid(rows);
        trainable.iter().map(|&valid| u64::from(valid)).sum()
    }

    /// Row `t` for a decision. A bootstrap row, as row T is, has no place for actions, log-probabilities
    /// and states.
    pub(crate) fn decision_row(&mut self, t: usize, bootstrap: bool) -> DecisionRow<'_> {
        let c = self.slab.columns();
        assert!(t <= c.steps, "row {t} of a segment of {} steps", c.steps);
        let (s, n, at) = (&*self.slab, c.lanes, t * c.lanes);
        let bootstrap = bootstrap || t == c.steps;
        let decided = if bootstrap { 0 } else { n };
        // An empty slice at the end of a column is inside it as well, so `at` needs no other start.
        let start = at.min(c.steps * c.lanes);
        let (states, kept) = if !bootstrap && c.keeps_states(t) {
            (t / c.state_every * n * c.state, n * c.state)
        } else {
            (0, 0)
        };
        // SAFETY: inside the columns because `t <= steps`, `start + decided <= steps * lanes`, and states
        // are kept of a row in `every` below T; the slices do not overlap; `&mut self` is the exclusive right to the segment.
        unsafe {
            DecisionRow {
                // Those of row `t` are the last of them.
                observations: s.read(
                    self.index,
                    c.observations,
                    at * c.observation,
                    c.stack * n * c.observation,
                ),
                depths: s.read(self.index, c.depths, at * c.depth, n * c.depth),
                masks: s.read(self.index, c.masks, at * c.mask, n * c.mask),
                valid: s.read(self.index, c.valid, at, n),
                starts: s.read(self.index, c.starts, at, n),
                actions: s.write(self.index, c.actions, start * c.action, decided * c.action),
                log_probs: s.write(self.index, c.log_probs, start, decided),
                values: s.write(self.index, c.values, at, n),
                states: s.write(self.index, c.states, states, kept),
            }
        }
    }

    /// Rows `t` and `t + 1` for a step of all lanes.
    pub(crate) fn step_rows(&mut self, t: usize) -> BlockRows<'_> {
        let c = self.slab.columns();
        assert!(t < c.steps, "step {t} of a segment of {} steps", c.steps);
        // SAFETY: `t < steps`, all lanes; `&mut self` is the exclusive right to the segment.
        unsafe { self.slab.block_rows(self.index, t, &(0..c.lanes)) }
    }

    /// Row 0, before its decision.
    pub(crate) fn first_row(&mut self) -> FirstRow<'_> {
        let lanes = 0..self.slab.columns().lanes;
        // SAFETY: all lanes; `&mut self` is the exclusive right to the segment.
        unsafe { self.slab.first_row(self.index, &lanes) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::ALIGNMENT;
    use super::*;
    use crate::StateColumn;
    use hotloop_env::{Space, Spaces};

    fn bufs(steps: usize, lanes: usize) -> Vec<SegmentBuf> {
        let spaces = Spaces::new(Space::unbounded(&[2]), Space::discrete(3)).unwrap();
        let state = StateColumn { bytes: 4, every: 2 };
        Slab::new(Columns::new(&spaces, steps, lanes, Some(state)).unwrap(), 2)
            .unwrap()
            .1
    }

    #[test]
    fn what_is_written_in_rows_is_read_in_columns() {
        let mut buf = bufs(3, 2).remove(0);
        for t in 0..3 {
            let row = buf.decision_row(t, false);
            row.values.fill(t as f32);
            row.log_probs.fill(-(t as f32));
            row.actions.fill(t as u8);
            let rows = buf.step_rows(t);
            rows.rewards[1] = 10.0 + t as f32;
            rows.next.valid.fill(1);
            rows.next.observations.fill(t as u8 + 1);
        }
        assert_eq!(buf.decision_row(2, true).actions.len(), 0);
        buf.decision_row(3, false).values.fill(9.0);
        assert_eq!(buf.values(4), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 9.0, 9.0]);
        assert_eq!(buf.rewards(3), [0.0, 10.0, 0.0, 11.0, 0.0, 12.0]);
        assert_eq!(buf.valid(4), [0, 0, 1, 1, 1, 1, 1, 1]);
        assert_eq!(buf.observations(4)[16 * 3], 3);
        assert_eq!(buf.actions(3).len(), 3 * 2 * 4);
    }

    #[test]
    fn episodes_start_after_a_termination_and_after_a_row_that_is_not_valid() {
        let mut buf = bufs(3, 2).remove(0);
        buf.first_starts().fill(1);
        buf.first_row().valid.fill(1);
        for (t, (end, valid)) in [(TERMINATED, 1), (2, 0), (4, 1)].into_iter().enumerate() {
            let rows = buf.step_rows(t);
            rows.ends.copy_from_slice(&[0, end]);
            rows.next.valid.copy_from_slice(&[1, valid]);
            buf.mark_starts(t);
        }
        assert_eq!(buf.starts(4), [1, 1, 0, 1, 0, 0, 0, 1]);
        let mut cut = bufs(3, 2).remove(0);
        cut.first_row().valid.copy_from_slice(&[0, 1]);
        cut.mark_starts(0);
        assert_eq!(cut.starts(4)[2..4], [1, 0]);
    }

    #[test]
    fn versions_are_kept_by_row_and_states_by_every_other_row() {
        let mut buf = bufs(3, 2).remove(0);
        for t in 0..4 {
            buf.set_version(t, 10 + t as u64);
            let states = buf.decision_row(t, false).states;
            assert_eq!(states.len(), if t % 2 == 0 && t < 3 { 2 * 4 } else { 0 });
            states.fill(t as u8 + 1);
            assert!(buf.decision_row(t, true).states.is_empty());
        }
        assert_eq!(buf.versions(), [10, 11, 12, 13]);
        assert_eq!(buf.states(2), [[1; 8], [3; 8]].concat());
    }

    #[test]
    fn columns_are_aligned_in_memory_and_segments_are_apart() {
        let bufs = bufs(5, 3);
        for buf in &bufs {
            assert_eq!(buf.observations(6).as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(buf.rewards(5).as_ptr() as usize % ALIGNMENT, 0);
        }
        assert_ne!(bufs[0].values(6).as_ptr(), bufs[1].values(6).as_ptr());
    }
}
