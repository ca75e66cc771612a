//! What is done otherwise while a recorded schedule is replayed: batches wait for exactly their blocks, and
//! the consumer receives and publishes in the recorded order.

use crate::RolloutError;
use crate::first_ready::Baton;
use crate::hub::{Full, Hub};
use crate::protocol::{
    inbox::{Inbox, Received},
    sync::{Mutex, lock},
};
use crate::schedule::{LOOK, Player};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Blocks that came before their turn, of all first-ready workers.
pub(crate) struct Reunion {
    /// By block.
    early: Mutex<Vec<Option<Box<Baton>>>>,
}

impl Reunion {
    pub(crate) fn new(blocks: usize) -> Self {
        Self {
            early: Mutex::new((0..blocks).map(|_| None).collect()),
        }
    }

    /// Waits for the blocks of the next batch, which `batons` has then, in its order, and returns its
    /// number; none when the rollout closes. Meanwhile other workers wait here: the batch after this one is
    /// theirs.
    #[allow(
        clippy::vec_box,
        reason = "batons are boxed to move from queue to queue"
    )]
    pub(crate) fn take(
        &self,
        player: &Player,
        ready: &Inbox<Box<Baton>>,
        batons: &mut Vec<Box<Baton>>,
    ) -> Option<Result<u64, RolloutError>> {
        let mut early = lock(&self.early);
        let next = player.wait(0)?;
        for &group in next.groups {
            let mut baton = loop {
                if let Some(baton) = early[group].take() {
                    break baton;
                }
                let Received::Item(baton) = ready.pop(None) else {
                    return None;
                };
                let block = baton.block;
                early[block] = Some(baton);
            };
            if let Err(reason) = baton.follow(next.call) {
                return Some(Err(next.differs(group, reason)));
            }
            batons.push(baton);
        }
        player.take(0);
        Some(Ok(next.number))
    }
}

impl Hub {
    /// As [`Hub::take_full`], but of the group that is next. A consumer that only looks in waits as well, if
    /// it found something then, and finds nothing if not.
    pub(crate) fn take_recorded(
        &self,
        player: &Player,
        deadline: Option<Instant>,
    ) -> Result<Option<Full>, RolloutError> {
        let looks_in = deadline.is_some_and(|deadline| deadline <= Instant::now());
        let Some(group) = player.receives() else {
            if looks_in {
                return Ok(None);
            }
            return self.stray(player.strayed("waits for a segment"));
        };
        loop {
            let early = &mut *lock(&self.early);
            if let Some(place) = early.iter().position(|full| full.group == group) {
                player.consume();
                let full = early.remove(place);
                self.counters.queued(full.since.elapsed());
                return Ok(Some(full));
            }
            let now = Instant::now();
            if !looks_in && deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(None);
            }
            self.collect(early, player, now + LOOK)?;
        }
    }

    /// Waits until `version` may be published.
    pub(crate) fn wait_to_publish(
        &self,
        player: &Player,
        version: u64,
    ) -> Result<(), RolloutError> {
        let stalled = || self.collect(&mut lock(&self.early), player, Instant::now());
        match player.wait_to_publish(version, stalled) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.end_reason()),
            Err(error) => self.stray(error),
        }
    }

    /// Waits for one full segment, at most until `until`, and puts it to the early ones. An error if
    /// nothing can come any more while the consumer waits.
    fn collect(
        &self,
        early: &mut Vec<Full>,
        player: &Player,
        until: Instant,
    ) -> Result<(), RolloutError> {
        match self.full.pop(Some(until)) {
            Received::Item(full) => early.push(full),
            Received::Closed => return Err(self.end_reason()),
            Received::TimedOut => {
                let fills = |group: usize| {
                    let granted = self.desks[group].outstanding.load(Ordering::Acquire);
                    granted > early.iter().filter(|full| full.group == group).count()
                };
                let stalled = player.check_stalled(fills);
                // What was handed over after the wait, but before that look, can go on.
                match (stalled, self.full.try_pop()) {
                    (_, Some(full)) => early.push(full),
                    (Err(error), None) => return self.stray(error),
                    (Ok(()), None) => {}
                }
            }
        }
        Ok(())
    }

    /// Ends the replay.
    fn stray<T>(&self, error: RolloutError) -> Result<T, RolloutError> {
        self.end(error);
        Err(self.end_reason())
    }
}
