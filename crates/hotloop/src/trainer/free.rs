//! Asynchronous training: environments, inference and learner each at their own pace.
//!
//! Groups are granted segments as [`Admission`] allows, and act with whatever version is newest before
//! each batch. The learner takes segments in the order in which they come, trains as soon as the rows
//! that are not too old make a batch, and publishes. Whoever is ahead sleeps: actors without a ticket, the
//! learner in the queue of segments.

use super::admission::Admission;
use super::training::{Training, Update};
use super::{Ended, tell};
use crate::Error;
use crate::checkpointing::LAST;
use hotloop_rollout::{Acting, Segment};
use std::time::Instant;

/// Segments on their way to the next update.
struct Batch {
    segments: Vec<Segment>,
    /// Rows among them that are not too old.
    fresh: usize,
}

impl Training {
    /// Trains as segments come until the run ends.
    ///
    /// All lanes are never at rest together, so checkpoints hold the learner alone: a run that goes on
    /// from one starts new episodes, and the steps in flight are lost.
    pub(super) fn train_freely(&mut self) -> Result<Ended, Error> {
        let rollout = &self.config.rollout;
        let segment = self.config.batch() / self.rollout.groups();
        let room = self
            .config
            .batch()
            .saturating_mul(rollout.max_staleness as usize + 1);
        let mut admission = Admission::new(
            self.rollout.groups(),
            rollout.segments_per_group(),
            segment,
            room.max(segment),
        );
        loop {
            let started = Instant::now();
            let Some(batch) = self.gather(&mut admission)? else {
                self.save(LAST, None, false)?;
                return Ok(Ended::Interrupted);
            };
            let memory: Vec<_> = batch.segments.iter().map(size_of).collect();
            let Update { stats, trained } = self.update(batch.segments)?;
            memory
                .into_iter()
                .for_each(|(group, rows)| admission.returned(group, rows));
            self.admit(&mut admission)?;

            let evaluation = self.evaluate()?;
            let whole = started.elapsed();
            self.tell(stats, evaluation, |spent| {
                tell::shares_of_flow(whole, trained, spent)
            });
            let ended = self.over(evaluation);
            if ended.is_some() || self.is_checkpoint_due(self.learner.updates()) {
                self.save(LAST, None, false)?;
            }
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    /// Segments whose rows make a batch, in the order in which they came; none if the run was stopped.
    fn gather(&mut self, admission: &mut Admission) -> Result<Option<Batch>, Error> {
        let oldest = self
            .learner
            .updates()
            .saturating_sub(self.config.rollout.max_staleness);
        let mut batch = Batch {
            segments: vec![],
            fresh: 0,
        };
        while batch.fresh < self.config.batch() {
            self.admit(admission)?;
            if self.stop.is_stopped() {
                return Ok(None);
            }
            // Short and old segments may take all of the memory before they make a batch.
            if self.rollout.outstanding() == 0 {
                break;
            }
            let Some(segment) = self.next_segment()? else {
                continue;
            };
            let (group, rows) = size_of(&segment);
            admission.received(group, rows);
            batch.fresh += rows - segment.rows_before(oldest) * segment.lanes();
            batch.segments.push(segment);
        }
        Ok(Some(batch))
    }

    /// Grants what there is room for.
    fn admit(&mut self, admission: &mut Admission) -> Result<(), Error> {
        while let Some(group) = admission.next(self.rollout.outstanding()) {
            if !self.rollout.grant(group, Acting::Newest)? {
                admission.refused(group);
            }
        }
        Ok(())
    }
}

/// The group of a segment and its rows, each of all lanes.
fn size_of(segment: &Segment) -> (usize, usize) {
    (segment.group(), segment.rows() * segment.lanes())
}
