//! Where blocks are at work, told by those who step them to whoever watches from another thread: one
//! relaxed store for each turn of a lane.

use crate::FaultPhase;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A word for each of many blocks.
///
/// Bits 0–1 say what is being done (0: nothing), 2–21 which lane of the block is at it, 22–49 at which
/// step of its episode; 50–63 count the block's turns, so that a word that stays the same is one call
/// that has not returned.
#[derive(Debug)]
pub struct Beacons(Box<[AtomicU64]>);

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// The lane, counted in its block; unknown while the block has not said.
    pub lane: Option<usize>,
    /// The step of the lane's episode.
    pub step: u32,
    /// What it is doing.
    pub phase: FaultPhase,
}

const LANE: u32 = 2;
const STEP: u32 = 22;
const TURN: u32 = 50;
const NO_LANE: u64 = (1 << (STEP - LANE)) - 1;
const STEP_MASK: u64 = (1 << (TURN - STEP)) - 1;

impl Beacons {
    /// For so many blocks, none of which is at work.
    #[must_use]
    pub fn new(blocks: usize) -> Self {
        Self((0..blocks).map(|_| AtomicU64::new(0)).collect())
    }

    /// The number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.0.len()
    }

    /// The word of `block`: 0 while it is not at work, and never the same for two calls in succession.
    #[must_use]
    pub fn word(&self, block: usize) -> u64 {
        self.0[block].load(Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, block: usize, word: u64) {
        self.0[block].store(word, Relaxed);
    }
}

impl Whereabouts {
    /// Reads a [word](Beacons::word); none if the block is not at work.
    #[must_use]
    pub fn read(word: u64) -> Option<Self> {
        let phase = match word & 3 {
            0 => return None,
            1 => FaultPhase::Build,
            2 => FaultPhase::Reset,
            _ => FaultPhase::Step,
        };
        let lane = word >> LANE & NO_LANE;
        Some(Self {
            lane: (lane != NO_LANE).then_some(lane as usize),
            step: (word >> STEP & STEP_MASK) as u32,
            phase,
        })
    }

    /// The word of a lane at work.
    #[inline]
    pub(crate) fn word(turn: u64, lane: usize, step: u32, phase: FaultPhase) -> u64 {
        turn << TURN
            | (u64::from(step) & STEP_MASK) << STEP
            | (lane as u64).min(NO_LANE) << LANE
            | match phase {
                FaultPhase::Build => 1,
                FaultPhase::Reset => 2,
                FaultPhase::Step => 3,
            }
    }

    /// The word of a block that does not say which lane is at work.
    pub(crate) fn whole_block(turn: u64) -> u64 {
        Self::word(turn, usize::MAX, 0, FaultPhase::Step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_was_put_into_it() {
        for (lane, step) in [(0, 0), (7, 1), ((1 << 20) - 2, (1 << 28) - 1)] {
            for phase in [FaultPhase::Build, FaultPhase::Reset, FaultPhase::Step] {
                let word = Whereabouts::word(5, lane, step, phase);
                let lane = Some(lane);
                let read = Whereabouts::read(word);
                assert_eq!(read, Some(Whereabouts { lane, step, phase }));
                assert_ne!(word, Whereabouts::word(6, 0, step, phase));
            }
        }
        assert_eq!(Whereabouts::read(0), None);
        let block = Whereabouts::read(Whereabouts::whole_block(1)).unwrap();
        assert_eq!((block.lane, block.step), (None, 0));
    }
}
