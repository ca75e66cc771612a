//! A full segment in the hands of the consumer.

use crate::hub::{Full, Hub};
use crate::slab::SegmentBuf;
use hotloop_env::{Spaces, Stacks};
use std::fmt;
use std::sync::Arc;

/// Consecutive rows of a group's lanes. Dropping it returns its memory to the group's free segments.
///
/// All columns are row-major, `[row][lane]`, with R rows of what follows from a decision and R + 1 rows
/// of observations, masks, values, `valid` and `starts`: the last is the bootstrap row. R is T, or less
/// where the segment was cut short because its first rows grew old. Row `t` is
/// the observation, the decision on it, and the reward and end of that action; the value of the state
/// that followed is in row `t + 1` unless row `t` terminated.
pub struct Segment {
    /// Taken only by `drop`.
    buf: Option<SegmentBuf>,
    group: usize,
    rows: usize,
    hub: Arc<Hub>,
}

impl Segment {
    pub(crate) fn new(full: Full, hub: Arc<Hub>) -> Self {
        drop(full.right);
        Self {
            buf: Some(full.buf),
            group: full.group,
            rows: full.rows,
            hub,
        }
    }

    fn buf(&self) -> &SegmentBuf {
        self.buf
            .as_ref()
            .expect("the memory is taken away only by drop")
    }

    /// The group whose lanes these are.
    pub fn group(&self) -> usize {
        self.group
    }

    /// The first lane's number over the whole run.
    pub fn first_lane(&self) -> usize {
        self.hub.desks[self.group].first_lane
    }

    /// The number of lanes, L.
    pub fn lanes(&self) -> usize {
        self.buf().shape().lanes
    }

    /// The number of rows but for the bootstrap row, R: at least 1, at most T.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The policy version that the first row was decided with.
    pub fn version(&self) -> u64 {
        self.versions()[0]
    }

    /// The policy version that each row was decided with, all of its lanes at once, `[R + 1]`. They
    /// never decrease.
    pub fn versions(&self) -> &[u64] {
        &self.buf().versions()[..=self.rows]
    }

    /// How many rows, from the first on, were decided with versions before `oldest`.
    pub fn rows_before(&self, oldest: u64) -> usize {
        self.versions()[..self.rows].partition_point(|version| *version < oldest)
    }

    /// How observations and actions are stored.
    pub fn spaces(&self) -> &Spaces {
        &self.hub.spaces
    }

    /// Observation records, `[R + 1][L][record]`: one frame of each, if
    /// [frames are stacked](Spaces::stacked).
    pub fn observations(&self) -> &[u8] {
        self.stacks().last()
    }

    /// The observations as a policy sees them, with all of their frames, `[R + 1][L]`.
    pub fn stacks(&self) -> Stacks<'_> {
        let (buf, rows) = (self.buf(), self.rows + 1);
        let records = buf.observations(rows + buf.shape().stack - 1);
        Stacks::new(self.spaces(), self.lanes(), records, buf.depths(rows))
    }

    /// Action masks, `[R + 1][L][mask]`; empty if the action space has none.
    pub fn masks(&self) -> &[u8] {
        self.buf().masks(self.rows + 1)
    }

    /// Action records as the policy sampled them, `[R][L][record]`.
    pub fn actions(&self) -> &[u8] {
        self.buf().actions(self.rows)
    }

    /// Rewards as the learner sees them, `[R][L]`; 0 in rows that are not valid.
    pub fn rewards(&self) -> &[f32] {
        self.buf().rewards(self.rows)
    }

    /// Log-probabilities of the actions when they were chosen, `[R][L]`.
    pub fn log_probs(&self) -> &[f32] {
        self.buf().log_probs(self.rows)
    }

    /// Values of the observations, `[R + 1][L]`.
    pub fn values(&self) -> &[f32] {
        self.buf().values(self.rows + 1)
    }

    /// [`end_flags`](hotloop_env::end_flags) of each row, `[R][L]`.
    pub fn ends(&self) -> &[u8] {
        self.buf().ends(self.rows)
    }

    /// 1 for rows to be trained on, 0 for final observations and rows lost to a failure, `[R + 1][L]`.
    pub fn valid(&self) -> &[u8] {
        self.buf().valid(self.rows + 1)
    }

    /// 1 for rows that are the first of an episode, before which a recurrent state begins anew,
    /// `[R + 1][L]`.
    pub fn starts(&self) -> &[u8] {
        self.buf().starts(self.rows + 1)
    }

    /// The recurrent states before rows 0, K, 2 K, …, `[ceil(R / K)][L][bytes]`, with K and bytes of the
    /// rollout's [`StateColumn`](crate::StateColumn); empty if it has none. Where such a row is the first
    /// of an episode, the state is zero.
    pub fn states(&self) -> &[u8] {
        let kept = self.rows.div_ceil(self.buf().shape().state_every);
        self.buf().states(kept)
    }

    /// Rows to be trained on: the env steps of this segment.
    pub fn env_steps(&self) -> u64 {
        self.buf().env_steps(self.rows)
    }

    /// Raw returns, `[R][L]`, where [`EPISODE`](hotloop_env::end_flags::EPISODE) is set in `ends`;
    /// unspecified elsewhere.
    pub fn episode_returns(&self) -> &[f32] {
        self.buf().episode_returns(self.rows)
    }

    /// Lengths of episodes in steps, as [`Segment::episode_returns`].
    pub fn episode_lengths(&self) -> &[u32] {
        self.buf().episode_lengths(self.rows)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Some(buf) = self.buf.take() {
            // There are as many places as segments.
            let _ = self.hub.desks[self.group].free.push(buf);
        }
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("group", &self.group)
            .field("version", &self.version())
            .field("lanes", &self.lanes())
            .field("rows", &self.rows())
            .finish()
    }
}
