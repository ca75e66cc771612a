//! Rounds: one rollout of all lanes for each update, by turns (sync) or overlapped by one.

use super::tell::Round;
use super::training::{Training, Update};
use super::{Ended, tell};
use crate::Error;
use crate::checkpointing::{self, LAST};
use crate::config::Mode;
use crate::stop::Patience;
use hotloop_rollout::{Acting, Segment};
use std::time::Instant;

/// The next round.
struct Next {
    /// Its number: rounds granted so far.
    number: u64,
    /// The groups that fill a segment of the round before it: all but those whose lanes are all set aside.
    granted: usize,
    /// When the round before it was granted.
    granted_at: Instant,
    /// What had been [inferred](tell::inferred) by then.
    inferred: f64,
}

impl Training {
    /// Trains in rounds until the run ends.
    pub(super) fn train_in_rounds(&mut self) -> Result<Ended, Error> {
        let mut next = Next {
            number: self.learner.updates(),
            granted: 0,
            granted_at: Instant::now(),
            inferred: 0.0,
        };
        self.grant(&mut next)?;
        loop {
            let Some(segments) = self.receive(next.granted)? else {
                // Stopped while environments were still stepping: nothing of this round is kept.
                self.save(LAST, None, false)?;
                return Ok(Ended::Interrupted);
            };
            let round = Round {
                collected: next.granted_at.elapsed(),
                inference: tell::inferred(&self.rollout.statistics()) - next.inferred,
            };
            let rows = segments.iter().map(Segment::env_steps).sum::<u64>();
            let saving = self.stop.is_stopped()
                || self.progress.env_steps + rows >= self.config.steps
                || self.is_checkpoint_due(self.learner.updates() + 1);
            // In overlap mode the next rollout runs during the update, unless a checkpoint is due: then
            // all lanes rest until it is written. The next rollout acts with the same version either way.
            let overlap = self.config.rollout.mode == Mode::Overlap;
            let mut acting = None;
            if overlap && !saving {
                self.grant(&mut next)?;
            } else if overlap {
                acting = Some(checkpointing::Acting::of(&self.learner));
            }
            let Update { stats, trained } = self.update(segments)?;
            let evaluation = self.evaluate()?;
            self.tell(stats, evaluation, |_| {
                tell::shares_of_round(&round, trained, overlap)
            });
            // A stop that came too late for a round that steps already waits for the next update.
            let stepping = overlap && !saving;
            let ended = self
                .over(evaluation)
                .filter(|e| !stepping || *e != Ended::Interrupted);
            if saving || ended.is_some() {
                let at_rest = !stepping || self.finish_round(&next)?;
                self.save(LAST, acting.as_ref(), at_rest)?;
            }
            if let Some(ended) = ended {
                return Ok(ended);
            }
            if !stepping {
                self.grant(&mut next)?;
            }
        }
    }

    /// Lets every group fill one more segment, with the version of the mode: the newest in sync mode,
    /// and in overlap mode the one before it.
    fn grant(&mut self, next: &mut Next) -> Result<(), Error> {
        let version = match self.config.rollout.mode {
            Mode::Overlap => next.number.saturating_sub(1),
            _ => next.number,
        };
        // Before any of them steps.
        next.granted_at = Instant::now();
        next.inferred = tell::inferred(&self.rollout.statistics());
        next.granted = 0;
        for group in 0..self.rollout.groups() {
            next.granted += usize::from(self.rollout.grant(group, Acting::At(version))?);
        }
        next.number += 1;
        Ok(())
    }

    /// The segments of a whole round, in the order of groups; none if the run was stopped first.
    fn receive(&mut self, groups: usize) -> Result<Option<Vec<Segment>>, Error> {
        let mut segments = Vec::with_capacity(groups);
        let mut patience = Patience::new(&self.stop);
        while segments.len() < groups {
            match self.next_segment()? {
                Some(segment) => segments.push(segment),
                // A rollout that is nearly done is waited for: then the checkpoint is complete.
                None if patience.is_over() => return Ok(None),
                None => {}
            }
        }
        segments.sort_by_key(Segment::group);
        Ok(Some(segments))
    }

    /// Waits for a round that is still stepping, and drops it: a return was reached during overlap. False
    /// if the run was stopped first, so that lanes are still at work.
    fn finish_round(&mut self, next: &Next) -> Result<bool, Error> {
        Ok(self.receive(next.granted)?.is_some())
    }
}
