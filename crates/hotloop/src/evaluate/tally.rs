//! Who plays which episode of an evaluation, and how those that are over ended.

use super::failures::Failures;
use super::row::Row;
use hotloop_env::{LaneStates, end_flags};
use std::ops::Range;

/// Lane `l` of `n` plays episodes `l`, `l + n`, … of those asked for.
pub(super) struct Tally {
    /// The episode of each lane.
    pub(super) playing: Vec<usize>,
    /// Decisions in it so far.
    pub(super) steps: Vec<u64>,
    /// 1 where the present observation is its first.
    pub(super) starts: Vec<u8>,
    /// Return and length of those that are over.
    finished: Vec<Option<(f64, u32)>>,
    first: usize,
    left: usize,
}

impl Tally {
    /// Gives every lane its first episode.
    pub(super) fn new(episodes: Range<usize>, states: &mut LaneStates, lanes: usize) -> Self {
        let playing: Vec<usize> = (episodes.start..episodes.start + lanes).collect();
        for (lane, &episode) in playing.iter().enumerate() {
            states.restart(lane, episode as u64);
        }
        Self {
            playing,
            steps: vec![0; lanes],
            starts: vec![1; lanes],
            finished: vec![None; episodes.len()],
            first: episodes.start,
            left: episodes.len(),
        }
    }

    /// Counts the turn that is in `row`, and gives lanes that ended an episode their next one.
    pub(super) fn count(
        &mut self,
        row: &mut Row,
        states: &mut LaneStates,
        failures: &mut Failures,
    ) {
        let lanes = self.playing.len();
        for lane in 0..lanes {
            // A turn that only started an episode used no decision.
            self.steps[lane] += u64::from(row.valid[lane]);
            let goes_on = row.valid[lane] != 0 && row.ends[lane] & end_flags::TERMINATED == 0;
            self.starts[lane] = u8::from(!goes_on);
            if row.ends[lane] & end_flags::EPISODE == 0 {
                continue;
            }
            if let Some(slot) = self.finished.get_mut(self.playing[lane] - self.first) {
                *slot = Some((f64::from(row.returns[lane]), row.lengths[lane]));
                self.left -= 1;
            }
            self.playing[lane] += lanes;
            self.steps[lane] = 0;
            failures.forget(lane);
            states.restart(lane, self.playing[lane] as u64);
            // The next episode starts with its own numbers, also where the block has reset already.
            row.next_valid[lane] = 0;
        }
        row.valid.copy_from_slice(&row.next_valid);
    }

    /// Return and length of every episode, once all are over.
    pub(super) fn all_finished(&mut self) -> Option<Vec<(f64, u32)>> {
        (self.left == 0).then(|| self.finished.drain(..).flatten().collect())
    }
}
