//! Where each column of a segment lies in its memory.

use crate::StateColumn;
use hotloop_env::Spaces;

/// Columns begin at multiples of this, so that vector loads and threads do not meet in a cache line.
pub(crate) const ALIGNMENT: usize = 64;

/// Sizes and offsets, in bytes, of the columns of a segment of `steps` rows and one bootstrap row.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    pub(crate) steps: usize,
    pub(crate) lanes: usize,
    /// Bytes of one observation, action and mask.
    pub(crate) observation: usize,
    pub(crate) action: usize,
    pub(crate) mask: usize,
    /// How many observations a policy sees at once: those of so many rows, less one, lie before row 0.
    pub(crate) stack: usize,
    /// How many depths are kept of each lane in each row: none without a stack.
    pub(crate) depth: usize,
    /// Bytes of one recurrent state, and how many rows apart they are kept; (0, 1) if none are.
    pub(crate) state: usize,
    pub(crate) state_every: usize,
    pub(super) observations: usize,
    pub(super) masks: usize,
    pub(super) actions: usize,
    pub(super) rewards: usize,
    pub(super) log_probs: usize,
    pub(super) values: usize,
    pub(super) episode_returns: usize,
    pub(super) episode_lengths: usize,
    pub(super) ends: usize,
    pub(super) valid: usize,
    pub(super) starts: usize,
    pub(super) depths: usize,
    pub(super) states: usize,
    pub(super) versions: usize,
    bytes: usize,
}

impl Columns {
    /// `None` if the size does not fit into a `usize`.
    pub(crate) fn new(
        spaces: &Spaces,
        steps: usize,
        lanes: usize,
        state: Option<StateColumn>,
    ) -> Option<Self> {
        let (observation, action, mask) = (
            spaces.observation.record_bytes(),
            spaces.action.record_bytes(),
            spaces.action.mask_bytes(),
        );
        let (stack, depth) = (spaces.stack, usize::from(spaces.stack > 1));
        let state = state.unwrap_or(StateColumn { bytes: 0, every: 1 });
        let mut end = 0usize;
        let mut array = |rows: usize, row: usize| -> Option<usize> {
            let start = end;
            let size = rows.checked_mul(row)?;
            end = end
                .checked_add(size)?
                .checked_next_multiple_of(ALIGNMENT)
                .filter(|&end| end <= isize::MAX as usize)?;
            Some(start)
        };
        let rows = steps.checked_add(1)?;
        let versions = array(rows, size_of::<u64>())?;
        let mut column = |rows: usize, element: usize| array(rows, lanes.checked_mul(element)?);
        Some(Self {
            steps,
            lanes,
            observation,
            action,
            mask,
            stack,
            depth,
            state: state.bytes,
            state_every: state.every,
            versions,
            observations: column(rows.checked_add(stack - 1)?, observation)?,
            masks: column(rows, mask)?,
            actions: column(steps, action)?,
            rewards: column(steps, 4)?,
            log_probs: column(steps, 4)?,
            values: column(rows, 4)?,
            episode_returns: column(steps, 4)?,
            episode_lengths: column(steps, 4)?,
            ends: column(steps, 1)?,
            valid: column(rows, 1)?,
            starts: column(rows, 1)?,
            depths: column(rows, depth * size_of::<u16>())?,
            states: column(steps.div_ceil(state.every), state.bytes)?,
            // An odd number of cache lines: were it a multiple of a large power of two, the same rows of all
            // segments would share few places of a cache.
            bytes: end | ALIGNMENT,
        })
    }

    /// Where the observations of row `t` begin, in bytes from the column's start.
    #[inline]
    pub(super) fn frame(&self, t: usize) -> usize {
        (t + self.stack - 1) * self.lanes * self.observation
    }

    /// Whether a segment keeps the states before row `t`.
    pub(crate) fn keeps_states(&self, t: usize) -> bool {
        self.state > 0 && t < self.steps && t.is_multiple_of(self.state_every)
    }

    /// Bytes of the whole segment.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop_env::{ImageLayout, Space};

    #[test]
    fn columns_are_aligned_and_do_not_overlap() {
        let spaces = Spaces::new(Space::unbounded(&[3]), Space::masked_discrete(2)).unwrap();
        let state = StateColumn { bytes: 8, every: 2 };
        let spaces = spaces.stacked(4).unwrap();
        let c = Columns::new(&spaces, 5, 7, Some(state)).unwrap();
        let spans = [
            (c.versions, 6 * 8),
            (c.observations, (3 + 6) * 7 * 12),
            (c.masks, 6 * 7 * 2),
            (c.actions, 5 * 7 * 4),
            (c.rewards, 5 * 7 * 4),
            (c.log_probs, 5 * 7 * 4),
            (c.values, 6 * 7 * 4),
            (c.episode_returns, 5 * 7 * 4),
            (c.episode_lengths, 5 * 7 * 4),
            (c.ends, 5 * 7),
            (c.valid, 6 * 7),
            (c.starts, 6 * 7),
            (c.depths, 6 * 7 * 2),
            (c.states, 3 * 7 * 8),
        ];
        for pair in spans.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{spans:?}");
            assert_eq!(pair[1].0 % ALIGNMENT, 0);
        }
        let (start, len) = spans[13];
        assert!(start + len <= c.bytes());
    }

    #[test]
    fn a_stack_of_four_takes_the_memory_of_one_frame_for_each_row_and_three_more() {
        let frame = Space::image([84, 84, 1], ImageLayout::Hwc);
        let frame = Spaces::new(frame, Space::discrete(6)).unwrap();
        let bytes = |spaces: &Spaces| Columns::new(spaces, 128, 8, None).unwrap().bytes();
        let (one, stacked) = (bytes(&frame), bytes(&frame.clone().stacked(4).unwrap()));
        // Three rows before the first, and 16 bits for each lane in each of 129 rows.
        let (pixels, depths) = (3 * 8 * 84 * 84, (129 * 8 * 2usize).next_multiple_of(64));
        // Each column and the whole are rounded up to cache lines.
        assert!((stacked - one).abs_diff(pixels + depths) <= 2 * ALIGNMENT);
        let four = Spaces::new(
            Space::image([4, 84, 84], ImageLayout::Chw),
            Space::discrete(6),
        );
        let ratio = bytes(&four.unwrap()) as f64 / stacked as f64;
        assert!((3.8..4.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_size_that_overflows_is_none() {
        let spaces = Spaces::new(Space::unbounded(&[3]), Space::discrete(2)).unwrap();
        assert!(Columns::new(&spaces, usize::MAX / 8, 7, None).is_none());
        let state = Some(StateColumn {
            bytes: usize::MAX / 8,
            every: 1,
        });
        assert!(Columns::new(&spaces, 5, 7, state).is_none());
    }
}
