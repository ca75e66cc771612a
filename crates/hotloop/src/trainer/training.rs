//! A run at work: its parts, its checkpoints and evaluations, its end.

use super::{Ended, Progress, TrainReport, Trainer, write_config};
use crate::checkpointing::{self, Acting, BEST, Contents, LAST};
use crate::config::Config;
use crate::evaluate::EvalPlan;
use crate::{Error, StopHandle, agent, assemble};
use hotloop_env::{Block, Spaces};
use hotloop_learn::{Actor, ActorPolicy, Algorithm, Choice, Learner, PolicyStore, device};
use hotloop_math::SystemClock;
use hotloop_rollout::{Policy, Rollout, RolloutError, Statistics};
use hotloop_telemetry::{Evaluation, MetricsFile, Reporter, Run, RunDir};
use std::sync::Arc;
use std::time::Instant;

/// A run at work.
pub(super) struct Training {
    pub(super) config: Config,
    pub(super) run: RunDir,
    pub(super) env: String,
    pub(super) algorithm: Arc<dyn Algorithm>,
    pub(super) learner: Learner,
    pub(super) store: Arc<PolicyStore>,
    pub(super) rollout: Rollout,
    pub(super) progress: Progress,
    pub(super) reporter: Reporter,
    pub(super) evaluator: Option<(Block, Spaces)>,
    pub(super) stop: StopHandle,
    /// Rounds granted so far: the number of the next one.
    pub(super) round: u64,
    pub(super) granted_at: Instant,
    pub(super) seen: Statistics,
}

impl Training {
    pub(super) fn start(trainer: Trainer) -> Result<Self, Error> {
        let Trainer {
            config,
            spec,
            options,
            spaces,
            run,
            algorithm,
            mut learner,
            loaded,
            stop,
            mut sinks,
        } = trainer;
        let store = Arc::new(PolicyStore::new());
        let resumed = loaded.is_some();
        let (progress, wall_s, from) = match loaded {
            Some(loaded) => {
                loaded.publish(&run.checkpoints(), &mut learner, &store)?;
                (loaded.progress, loaded.wall_s, loaded.rollout)
            }
            None => {
                learner.publish(&store)?;
                (Progress::default(), 0.0, None)
            }
        };
        let settings = assemble::rollout(&config);
        let workers = settings.effective_groups().min(config.threads());
        let policies = (0..workers).map(|_| {
            let actor = Actor::new(learner.net().clone(), &spaces);
            Box::new(ActorPolicy::new(actor, Arc::clone(&store), config.seed)) as Box<dyn Policy>
        });
        let make = |_first, lanes| spec.make(&options, lanes);
        let rollout = Rollout::start(settings, spaces.clone(), make, policies.collect(), from)
            .map_err(|error| misfit(&run, error))?;
        if resumed {
            // Not before everything is known to fit: a run keeps the configuration that it works with.
            write_config(&run, &config)?;
        }
        let evaluator = if config.eval.every > 0 {
            let envs = config.eval.envs.min(config.eval.episodes);
            Some((spec.make(&options, envs)?, spaces))
        } else {
            None
        };
        let metrics = match learner.updates() {
            0 => MetricsFile::create(run.metrics())?,
            done => MetricsFile::resume(run.metrics(), done)?,
        };
        sinks.insert(0, Box::new(metrics));
        let reporter = Reporter::start(
            Arc::new(SystemClock::new()),
            &Run {
                dir: run.path().to_path_buf(),
                env: config.env.id.clone(),
                algo: algorithm.name().into(),
                seed: config.seed,
                target_steps: config.steps,
                done_steps: progress.env_steps,
                done_wall_s: wall_s,
            },
            sinks,
        )?;
        Ok(Self {
            env: config.env.id.clone(),
            round: learner.updates(),
            seen: rollout.statistics(),
            granted_at: Instant::now(),
            config,
            run,
            algorithm,
            learner,
            store,
            rollout,
            progress,
            reporter,
            evaluator,
            stop,
        })
    }

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
        let Some((block, spaces)) = &mut self.evaluator else {
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
        let report = agent::evaluate_on(block, spaces, &self.learner, plan, &self.stop)?;
        let Some(report) = report else {
            return Ok(None);
        };
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
            best,
        }))
    }

    pub(super) fn save(
        &self,
        name: &str,
        acting: Option<&Acting>,
        lanes: bool,
    ) -> Result<(), Error> {
        let rollout = if lanes {
            Some(self.rollout.snapshot()?)
        } else {
            None
        };
        let contents = Contents {
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
            wall_s: totals.wall_s,
            steps_per_s: totals.steps_per_s,
            return_mean_100: self.progress.returns.mean(),
            best_return: self.progress.best_return,
            weights_hash: self.learner.params().weights_hash()?,
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

/// Says which settings have to stay if the lanes of a checkpoint do not fit.
fn misfit(run: &RunDir, error: RolloutError) -> Error {
    match error {
        RolloutError::Snapshot(_) => Error::Run {
            path: run.path().to_path_buf(),
            reason: format!(
                "{error}; leave rollout.envs, rollout.groups and rollout.scheduler as they were, or \
                 start a new run"
            ),
        },
        other => other.into(),
    }
}
