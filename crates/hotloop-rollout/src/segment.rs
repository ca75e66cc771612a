//! A full segment in the hands of the consumer.

use crate::hub::{Full, Hub};
use crate::slab::SegmentBuf;
use hotloop_env::Spaces;
use std::fmt;
use std::sync::Arc;

/// Consecutive rows of a group's lanes. Dropping it returns its memory to the group's free segments.
///
/// All columns are row-major, `[row][lane]`, with T rows of what follows from a decision and T + 1 rows
/// of observations, masks, values and `valid`: the last is the bootstrap row. Row `t` is
/// the observation, the decision on it, and the reward and end of that action; the value of the state
/// that followed is in row `t + 1` unless row `t` terminated.
pub struct Segment {
    /// Taken only by `drop`.
    buf: Option<SegmentBuf>,
    group: usize,
    version: u64,
    hub: Arc<Hub>,
}

impl Segment {
    pub(crate) fn new(full: Full, hub: Arc<Hub>) -> Self {
        Self {
            buf: Some(full.buf),
            group: full.group,
            version: full.version,
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

    /// The number of trainable rows, T.
    pub fn rows(&self) -> usize {
        self.buf().shape().steps
    }

    /// The policy version that all rows were decided with.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How observations and actions are stored.
    pub fn spaces(&self) -> &Spaces {
        &self.hub.spaces
    }

    /// Observation records, `[T + 1][L][record]`.
    pub fn observations(&self) -> &[u8] {
        self.buf().observations()
    }

    /// Action masks, `[T + 1][L][mask]`; empty if the action space has none.
    pub fn masks(&self) -> &[u8] {
        self.buf().masks()
    }

    /// Action records as the policy sampled them, `[T][L][record]`.
    pub fn actions(&self) -> &[u8] {
        self.buf().actions()
    }

    /// Rewards as the learner sees them, `[T][L]`; 0 in rows that are not valid.
    pub fn rewards(&self) -> &[f32] {
        self.buf().rewards()
    }

    /// Log-probabilities of the actions when they were chosen, `[T][L]`.
    pub fn log_probs(&self) -> &[f32] {
        self.buf().log_probs()
    }

    /// Values of the observations, `[T + 1][L]`.
    pub fn values(&self) -> &[f32] {
        self.buf().values()
    }

    /// [`end_flags`](hotloop_env::end_flags) of each row, `[T][L]`.
    pub fn ends(&self) -> &[u8] {
        self.buf().ends()
    }

    /// 1 for rows to be trained on, 0 for final observations and rows lost to a failure, `[T + 1][L]`.
    pub fn valid(&self) -> &[u8] {
        self.buf().valid()
    }

    /// Rows to be trained on: the env steps of this segment.
    pub fn env_steps(&self) -> u64 {
        self.buf().env_steps()
    }

    /// Raw returns, `[T][L]`, where [`EPISODE`](hotloop_env::end_flags::EPISODE) is set in `ends`;
    /// unspecified elsewhere.
    pub fn episode_returns(&self) -> &[f32] {
        self.buf().episode_returns()
    }

    /// Lengths of episodes in steps, as [`Segment::episode_returns`].
    pub fn episode_lengths(&self) -> &[u32] {
        self.buf().episode_lengths()
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
            .field("version", &self.version)
            .field("lanes", &self.lanes())
            .field("rows", &self.rows())
            .finish()
    }
}
