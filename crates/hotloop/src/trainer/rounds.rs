//! Rounds: one rollout of all lanes for each update, by turns (sync) or overlapped by one.

use super::{Ended, training::Training};
use crate::Error;
use crate::checkpointing::{Acting, LAST};
use crate::config::Mode;
use crate::stop::Patience;
use hotloop_rollout::Segment;
use std::time::{Duration, Instant};

/// How often a wait for a segment looks whether the run is to stop.
const LOOK: Duration = Duration::from_millis(100);

impl Training {
    pub(super) fn train(&mut self) -> Result<Ended, Error> {
        if let Some(ended) = self.over(None) {
            if self.learner.updates() == 0 {
                self.save(LAST, None, false)?;
            }
            return Ok(ended);
        }
        self.grant()?;
        loop {
            let Some(segments) = self.receive()? else {
                // Stopped while environments were still stepping: nothing of this round is kept.
                self.save(LAST, None, false)?;
                return Ok(Ended::Interrupted);
            };
            let collected = self.granted_at.elapsed();
            let rows = segments.iter().map(Segment::env_steps).sum::<u64>();
            let updates = self.learner.updates() + 1;
            let every = self.config.checkpoint.every;
            let saving = self.stop.is_stopped()
                || self.progress.env_steps + rows >= self.config.steps
                || (every > 0 && updates.is_multiple_of(every));
            // In overlap mode the next rollout runs during the update, unless a checkpoint is due: then
            // all lanes rest until it is written. The next rollout acts with the same version either way.
            let overlap = self.config.rollout.mode == Mode::Overlap;
            let mut acting = None;
            if overlap && !saving {
                self.grant()?;
            } else if overlap {
                acting = Some(Acting::of(&self.learner));
            }
            let started = Instant::now();
            let stats = self.learner.update(&segments, self.config.updates())?;
            self.learner.publish(&self.store)?;
            let trained = started.elapsed();
            self.progress.env_steps += rows;
            self.progress.take_episodes(&segments);
            drop(segments);

            let evaluation = self.evaluate()?;
            self.tell(stats, evaluation, collected, trained);
            // A stop that came too late for a round that steps already waits for the next update.
            let stepping = overlap && !saving;
            let ended = self
                .over(evaluation)
                .filter(|e| !stepping || *e != Ended::Interrupted);
            if saving || ended.is_some() {
                self.finish_round(stepping)?;
                self.save(LAST, acting.as_ref(), true)?;
            }
            if let Some(ended) = ended {
                return Ok(ended);
            }
            if !stepping {
                self.grant()?;
            }
        }
    }

    /// Lets every group fill one more segment, with the version of the mode: the newest in sync mode,
    /// and in overlap mode the one before it.
    fn grant(&mut self) -> Result<(), Error> {
        let version = match self.config.rollout.mode {
            Mode::Overlap => self.round.saturating_sub(1),
            _ => self.round,
        };
        for group in 0..self.rollout.groups() {
            self.rollout
                .grant(group, hotloop_rollout::Acting::At(version))?;
        }
        self.round += 1;
        self.granted_at = Instant::now();
        Ok(())
    }

    /// The segments of a whole round, in the order of groups; none if the run was stopped first.
    fn receive(&mut self) -> Result<Option<Vec<Segment>>, Error> {
        let mut segments = Vec::with_capacity(self.rollout.groups());
        let mut patience = Patience::new(&self.stop);
        while segments.len() < self.rollout.groups() {
            match self.rollout.recv_timeout(LOOK)? {
                Some(segment) => segments.push(segment),
                // A rollout that is nearly done is waited for: then the checkpoint is complete.
                None if patience.is_over() => return Ok(None),
                None => {}
            }
        }
        segments.sort_by_key(Segment::group);
        Ok(Some(segments))
    }

    /// Waits for a round that is still stepping, and drops it: a return was reached during overlap.
    fn finish_round(&mut self, stepping: bool) -> Result<(), Error> {
        if stepping {
            self.receive()?;
        }
        Ok(())
    }
}
