//! Finds calls of environments that do not return. Nothing inside a process can stop such a call, but it
//! can be named, and the run can end.

use crate::hub::Hub;
use crate::timing::LOOKS;
use hotloop_env::{Beacons, Whereabouts};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stuck {
    pub(crate) block: usize,
    pub(crate) at: Whereabouts,
    /// For how long it was seen.
    pub(crate) time: Duration,
}

/// What was seen of every block so far.
pub(crate) struct Watch {
    /// The last word, and for how long it has been the same.
    seen: Vec<(u64, Duration)>,
    limit: Duration,
}

impl Watch {
    pub(crate) fn new(blocks: usize, limit: Duration) -> Self {
        Self {
            seen: vec![(0, Duration::ZERO); blocks],
            limit,
        }
    }

    /// The time from look to look.
    pub(crate) fn period(&self) -> Duration {
        self.limit / LOOKS
    }

    /// Looks at all blocks, `elapsed` after the last look. A time in which nobody looked is not evidence:
    /// the whole process may have been stopped, so that no look counts for more than its period.
    pub(crate) fn look(&mut self, beacons: &Beacons, elapsed: Duration) -> Option<Stuck> {
        let elapsed = elapsed.min(self.period());
        for (block, (before, time)) in self.seen.iter_mut().enumerate() {
            let word = beacons.word(block);
            if word != *before {
                (*before, *time) = (word, Duration::ZERO);
                continue;
            }
            let Some(at) = Whereabouts::read(word) else {
                continue;
            };
            *time += elapsed;
            if *time >= self.limit {
                let time = *time;
                return Some(Stuck { block, at, time });
            }
        }
        None
    }
}

/// The watchdog's thread: looks until the rollout closes, and ends it if a call is stuck.
pub(crate) fn run(hub: &Arc<Hub>, limit: Duration) {
    let mut watch = Watch::new(hub.beacons.blocks(), limit);
    loop {
        let before = Instant::now();
        let closed = hub.closing.wait_until(Some(before + watch.period()), || {
            hub.is_closed().then_some(())
        });
        if closed.is_some() {
            return;
        }
        if let Some(stuck) = watch.look(&hub.beacons, before.elapsed()) {
            return hub.end(hub.stuck(stuck));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop_env::{LaneStates, Stream};

    #[test]
    fn br_56_only_a_call_that_was_looked_at_often_enough_is_stuck() {
        let beacons = Arc::new(Beacons::new(2));
        let mut lanes = LaneStates::new(1, Stream::Env, 8, 4).watched(beacons.clone(), 1);
        let limit = Duration::from_secs(80);
        let period = limit / 8;
        let mut watch = Watch::new(2, limit);
        // Nobody is at work, for however long.
        for _ in 0..20 {
            assert_eq!(watch.look(&beacons, period), None);
        }
        // Always at work, but in another call each time.
        for _ in 0..20 {
            lanes.begin_call();
            assert_eq!(watch.look(&beacons, period), None);
        }
        // The process was stopped for an hour: that is one look.
        assert_eq!(watch.look(&beacons, Duration::from_secs(3600)), None);
        // No time has passed between looks.
        for _ in 0..20 {
            assert_eq!(watch.look(&beacons, Duration::ZERO), None);
        }
        for _ in 0..6 {
            assert_eq!(watch.look(&beacons, period), None);
        }
        let stuck = watch.look(&beacons, period).expect("the eighth look");
        assert_eq!((stuck.block, stuck.at.lane, stuck.time), (1, None, limit));
        lanes.end_call();
        assert_eq!(watch.look(&beacons, period), None);
    }
}
