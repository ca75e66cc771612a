//! A run at work: its parts, its checkpoints and evaluations, its end.

use super::tell::Flowed;
use super::{Ended, Progress, TrainReport};
use crate::account::{Account, LearnerTime};
use crate::checkpointing::{self, Acting, BEST, Contents, LAST};
use crate::config::{Config, Mode};
use crate::evaluate::{EvalPlan, Stage};
use crate::{Error, StopHandle, agent};
use hotloop_env::Spaces;
use hotloop_learn::{
    Algorithm, Choice, CopyCounters, CopyCounts, Learner, PolicyStore, StateStore, UpdateStats,
    device,
};
use hotloop_rollout::{Rollout, RolloutError, Segment, Statistics};
use hotloop_telemetry::{Evaluation, Reporter, RunDir};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run at work.
pub(super) struct Training {
    pub(super) config: Config,
    pub(super) run: RunDir,
    pub(super) env: String,
    pub(super) spaces: Spaces,
    pub(super) algorithm: Arc<dyn Algorithm>,
    pub(super) learner: Learner,
    pub(super) store: Arc<PolicyStore>,
    pub(super) rollout: Rollout,
    pub(super) states: Option<StateStore>,
    /// What inference copies between host and device, and how much that was at the last report.
    pub(super) copies: Arc<CopyCounters>,
    pub(super) copied: CopyCounts,
    pub(super) progress: Progress,
    pub(super) reporter: Reporter,
    pub(super) evaluator: Option<Stage>,
    pub(super) stop: StopHandle,
    pub(super) seen: Statistics,
    pub(super) account: Account,
    pub(super) time: LearnerTime,
    pub(super) flowed: Flowed,
}

/// What an update was and took.
pub(super) struct Update {
    pub(super) stats: UpdateStats,
    pub(super) trained: Duration,
}

/// How often a wait for a segment looks whether the run is to stop.
const LOOK: Duration = Duration::from_millis(100);

impl Training {
    pub(super) fn run(mut self) -> Result<TrainReport, Error> {
        match self.train() {
            Ok(ended) => self.report(ended),
            Err(error) => {
                // What has diverged does not take the place of what can be gone on with.
                let kept = spoils_the_weights(&error)
                    && checkpointing::exists(&self.run.checkpoints(), LAST);
                // The lanes are somewhere within a rollout: the checkpoint is of the learner alone.
                if !kept && let Err(lost) = self.save(LAST, None, false) {
                    tracing::error!("the last checkpoint could not be written: {lost}");
                }
                Err(error)
            }
        }
    }

    fn train(&mut self) -> Result<Ended, Error> {
        if let Some(ended) = self.over(None) {
            if self.learner.updates() == 0 {
                self.save(LAST, None, false)?;
            }
            return Ok(ended);
        }
        match self.config.rollout.mode {
            Mode::Async => self.train_freely(),
            _ => self.train_in_rounds(),
        }
    }

    /// Waits a moment for the next segment.
    pub(super) fn next_segment(&mut self) -> Result<Option<Segment>, Error> {
        let started = Instant::now();
        let segment = self.rollout.recv_timeout(LOOK)?;
        self.time.waiting += started.elapsed();
        Ok(segment)
    }

    /// Trains on these segments, publishes the new version, and counts what was trained on.
    pub(super) fn update(&mut self, segments: Vec<Segment>) -> Result<Update, Error> {
        let started = Instant::now();
        let stats = self.learner.update(&segments, self.config.updates())?;
        let publish = || self.learner.publish(&self.store);
        self.rollout.publish(self.learner.updates(), publish)??;
        let trained = started.elapsed();
        self.time.training += trained;
        self.progress.env_steps += stats.rows as u64;
        self.progress.take_episodes(&segments);
        Ok(Update { stats, trained })
    }

    /// Whether a checkpoint is due after so many updates, whatever else happens.
    pub(super) fn is_checkpoint_due(&self, updates: u64) -> bool {
        let every = self.config.checkpoint.every;
        every > 0 && updates.is_multiple_of(every)
    }

    pub(super) fn over(&self, evaluation: Option<Evaluation>) -> Option<Ended> {
        let reached = |wanted: f64| evaluation.is_some_and(|e| e.return_mean >= wanted);
        if self.config.until_return.is_some_and(reached) {
            Some(Ended::ReturnReached)
        } else if self.progress.env_steps >= self.config.steps {
            Some(Ended::Finished)
        } else if self.stop.is_stopped() {
            Some(Ended::Interrupted)
        } else {
            None
        }
    }

    /// Evaluates on environments of its own if it is time to, and keeps the best policy.
    pub(super) fn evaluate(&mut self) -> Result<Option<Evaluation>, Error> {
        let Some(stage) = &mut self.evaluator else {
            return Ok(None);
        };
        if !self
            .learner
            .updates()
            .is_multiple_of(self.config.eval.every)
        {
            return Ok(None);
        }
        let plan = EvalPlan {
            episodes: self.config.eval.episodes,
            seed: self.config.seed,
            choice: Choice::Greedy,
        };
        let report = agent::evaluate_on(stage, &self.learner, plan, &self.stop)?;
        let Some(report) = report else {
            // Its environments are still within a turn, and the run ends soon.
            self.evaluator = None;
            return Ok(None);
        };
        self.progress.faults += report.faults;
        self.progress.lost += report.lost;
        let best = self
            .progress
            .best_return
            .is_none_or(|best| report.return_mean > best);
        if best {
            self.progress.best_return = Some(report.return_mean);
            self.save(BEST, None, false)?;
        }
        Ok(Some(Evaluation {
            episodes: report.episodes as u64,
            return_mean: report.return_mean,
            return_std: report.return_std,
            faults: report.faults,
            lost: report.lost,
            best,
        }))
    }

    pub(super) fn save(
        &self,
        name: &str,
        acting: Option<&Acting>,
        lanes: bool,
    ) -> Result<(), Error> {
        let rollout = match lanes {
            true => Some((self.rollout.snapshot()?, self.states.as_ref())),
            false => None,
        };
        let contents = Contents {
            spaces: &self.spaces,
            learner: &self.learner,
            progress: &self.progress,
            wall_s: self.reporter.totals().wall_s,
            acting,
            rollout: rollout.as_ref(),
        };
        checkpointing::save(&self.run.checkpoints(), name, &contents)
    }

    fn report(&self, ended: Ended) -> Result<TrainReport, Error> {
        let totals = self.reporter.totals();
        let (staleness_mean, staleness_max) = self.flowed.staleness();
        let rollout = self.rollout.statistics();
        Ok(TrainReport {
            run_dir: self.run.path().to_path_buf(),
            env: self.env.clone(),
            algo: self.algorithm.name().into(),
            seed: self.config.seed,
            device: device::name(self.learner.params().device()),
            env_steps: self.progress.env_steps,
            updates: self.learner.updates(),
            episodes: self.progress.episodes,
            faults: self.progress.faults,
            lost: self.progress.lost,
            wall_s: totals.wall_s,
            steps_per_s: totals.steps_per_s,
            return_mean_100: self.progress.returns.mean(),
            best_return: self.progress.best_return,
            weights_hash: self.learner.params().weights_hash()?,
            staleness_mean,
            staleness_max,
            stale_rows: self.flowed.stale_rows(),
            short_segments: rollout.short_segments as f64 / rollout.segments.max(1) as f64,
            lanes_set_aside: rollout.lanes_set_aside,
            threads: self.account.close(self.time, &rollout.workers),
            ended,
        })
    }
}

/// Whether the weights are to blame, or what they were trained with.
fn spoils_the_weights(error: &Error) -> bool {
    matches!(
        error,
        Error::Learn(_) | Error::Rollout(RolloutError::Policy { .. })
    )
}
