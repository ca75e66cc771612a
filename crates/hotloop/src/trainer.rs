//! A training run: rollouts and updates by turns or overlapped, with checkpoints between them.

use crate::checkpointing::{self, Acting, BEST, Contents, LAST, Loaded};
use crate::config::{Config, Mode, Origins};
use crate::evaluate::EvalPlan;
use crate::stop::Patience;
use crate::{Error, StopHandle, agent, assemble, system, threads};
use hotloop_env::{Block, EnvOptions, EnvSpec, Registry, Spaces, end_flags};
use hotloop_learn::{
    Actor, ActorPolicy, Algorithm, Choice, Learner, PolicyStore, UpdateStats, device,
};
use hotloop_math::{SystemClock, Window};
use hotloop_rollout::{Policy, Rollout, RolloutError, Segment, Statistics};
use hotloop_telemetry::{
    Evaluation, Manifest, MetricsFile, Reporter, Run, RunDir, Shares, Sink, Update,
};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How far a run has come: what is counted and remembered of its episodes.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) env_steps: u64,
    pub(crate) episodes: u64,
    pub(crate) faults: u64,
    pub(crate) best_return: Option<f64>,
    pub(crate) returns: Window,
    pub(crate) lengths: Window,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            env_steps: 0,
            episodes: 0,
            faults: 0,
            best_return: None,
            returns: Window::new(100),
            lengths: Window::new(100),
        }
    }
}

impl Progress {
    /// Takes in the episodes that ended in a batch, in the order of segments, rows and lanes.
    fn take_episodes(&mut self, segments: &[Segment]) {
        for segment in segments {
            for (i, flags) in segment.ends().iter().enumerate() {
                if flags & end_flags::EPISODE != 0 {
                    self.episodes += 1;
                    self.returns.push(f64::from(segment.episode_returns()[i]));
                    self.lengths.push(f64::from(segment.episode_lengths()[i]));
                }
            }
        }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All steps were made.
    Finished,
    /// An evaluation reached `until_return`.
    ReturnReached,
    /// It was asked to stop; the checkpoint goes on from there.
    Interrupted,
}

/// What a run amounted to.
#[derive(Clone, Debug, Serialize)]
pub struct TrainReport {
    /// The run's directory.
    pub run_dir: PathBuf,
    /// The environment's id.
    pub env: String,
    /// The algorithm's name.
    pub algo: String,
    /// The seed.
    pub seed: u64,
    /// The device of the networks.
    pub device: String,
    /// Valid env steps trained on, in the whole run.
    pub env_steps: u64,
    /// Updates made, in the whole run.
    pub updates: u64,
    /// Episodes that ended, in the whole run.
    pub episodes: u64,
    /// Environment failures, in the whole run.
    pub faults: u64,
    /// Seconds of training, in the whole run.
    pub wall_s: f64,
    /// Env steps per second since this process began the run.
    pub steps_per_s: f64,
    /// Mean raw return of the last 100 episodes of training; `None` if none ended.
    pub return_mean_100: Option<f64>,
    /// The best evaluation during training, if there was one.
    pub best_return: Option<f64>,
    /// SHA-256 of the final weights: equal hashes, equal policies.
    pub weights_hash: String,
    /// Why it ended.
    pub ended: Ended,
}

/// Settings of a [`Trainer`].
#[derive(Default)]
pub struct TrainerBuilder {
    registry: Registry,
    config: Config,
    origins: Origins,
    run_dir: Option<PathBuf>,
    resume: Option<PathBuf>,
    stop: StopHandle,
    sinks: Vec<Box<dyn Sink>>,
    algorithm: Option<Arc<dyn Algorithm>>,
}

impl TrainerBuilder {
    /// The environments to choose from.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// What to train, and how.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Where the configuration's values came from, for messages.
    pub fn origins(mut self, origins: Origins) -> Self {
        self.origins = origins;
        self
    }

    /// The run's directory, which must not hold a run yet. Without one a new directory under `runs/` is
    /// made.
    pub fn run_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.run_dir = Some(dir.into());
        self
    }

    /// Goes on with the run in this directory, from its last checkpoint.
    pub fn resume(mut self, dir: impl Into<PathBuf>) -> Self {
        self.resume = Some(dir.into());
        self
    }

    /// A handle with which the run can be stopped.
    pub fn stop(mut self, stop: StopHandle) -> Self {
        self.stop = stop;
        self
    }

    /// Somebody else to report to, beside the run's metrics file.
    pub fn sink(mut self, sink: impl Sink + 'static) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    /// An algorithm of your own in place of the configured one.
    pub fn algorithm(mut self, algorithm: impl Algorithm + 'static) -> Self {
        self.algorithm = Some(Arc::new(algorithm));
        self
    }

    /// Checks everything and makes the run's directory. No environment steps before
    /// [`train`](Trainer::train).
    ///
    /// # Errors
    /// If anything is wrong with the configuration, the directory, the device or the environment.
    pub fn build(self) -> Result<Trainer, Error> {
        let Self {
            registry,
            config,
            origins,
            run_dir,
            resume,
            stop,
            sinks,
            algorithm,
        } = self;
        config.validate(&registry, &origins)?;
        let device = device::open(&config.device)?;
        let (spec, options) = config.env.resolve(&registry, &origins)?;
        let spec = spec.clone();
        let config = config.settled(&spec);
        let algorithm = algorithm.unwrap_or_else(|| assemble::algorithm(&config));
        // The directory is made last: a run that cannot be leaves none behind.
        if let (Some(path), None) = (&run_dir, &resume) {
            RunDir::check(path)?;
        }
        let spaces = spec.spaces(&options)?;
        let memory = assemble::check_memory(&assemble::rollout(&config), &spaces)?;
        let net = assemble::network(&config, &spaces)?;
        let run = match &resume {
            Some(path) => {
                let run = RunDir::reopen(path)?;
                let before = agent::run_config(path)?;
                if before.env.id != config.env.id {
                    let reason = format!(
                        "it is a run of {}, which cannot be gone on with as one of {}; leave the \
                         environment away, or start a new run",
                        before.env.id, config.env.id
                    );
                    return Err(Error::Run {
                        path: path.clone(),
                        reason,
                    });
                }
                if !checkpointing::exists(&run.checkpoints(), LAST) {
                    let reason = "it has no checkpoint to go on from: it ended before the first was \
                                  written; start a new run";
                    return Err(Error::Run {
                        path: path.clone(),
                        reason: reason.into(),
                    });
                }
                run
            }
            None => RunDir::create(
                run_dir.as_deref(),
                &config.env.id,
                algorithm.name(),
                config.seed,
            )?,
        };
        let mut learner = Learner::new(
            assemble::learner(&config),
            net,
            Arc::clone(&algorithm),
            &spaces,
            device,
        )?;
        let loaded = match resume {
            Some(_) => Some(checkpointing::load(&run.checkpoints(), LAST, &mut learner)?),
            None => None,
        };
        if loaded.is_none() {
            write_config(&run, &config)?;
            Manifest::collect(
                &system::libtorch().version,
                &config.env.id,
                algorithm.name(),
                config.seed,
                &device::name(device),
                config.threads(),
            )
            .write(&run.manifest())?;
        }
        tracing::info!(
            "{} in {}: {} envs, segments take {:.1} MiB",
            config.env.id,
            run.path().display(),
            config.rollout.envs,
            memory as f64 / f64::from(1 << 20)
        );
        Ok(Trainer {
            config,
            spec,
            options,
            spaces,
            run,
            algorithm,
            learner,
            loaded,
            stop,
            sinks,
        })
    }
}

/// A run that is ready to start. See [`Trainer::builder`].
pub struct Trainer {
    config: Config,
    spec: EnvSpec,
    options: EnvOptions,
    spaces: Spaces,
    run: RunDir,
    algorithm: Arc<dyn Algorithm>,
    learner: Learner,
    loaded: Option<Loaded>,
    stop: StopHandle,
    sinks: Vec<Box<dyn Sink>>,
}

impl Trainer {
    /// Starts to put a run together.
    pub fn builder() -> TrainerBuilder {
        TrainerBuilder::default()
    }

    /// Trains until all steps are made, the return is reached or the run is stopped, and writes the last
    /// checkpoint.
    ///
    /// # Errors
    /// If the environments, the policy or the learner fail for good; what was trained until then is
    /// saved first.
    pub fn train(self) -> Result<TrainReport, Error> {
        threads::run("hotloop-learner", move || Training::start(self)?.run())
    }
}

/// A run at work.
struct Training {
    config: Config,
    run: RunDir,
    env: String,
    algorithm: Arc<dyn Algorithm>,
    learner: Learner,
    store: Arc<PolicyStore>,
    rollout: Rollout,
    progress: Progress,
    reporter: Reporter,
    evaluator: Option<(Block, Spaces)>,
    stop: StopHandle,
    /// Rounds granted so far: the number of the next one.
    round: u64,
    granted_at: Instant,
    seen: Statistics,
}

/// How often a wait for a segment looks whether the run is to stop.
const LOOK: Duration = Duration::from_millis(100);

impl Training {
    fn start(trainer: Trainer) -> Result<Self, Error> {
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

    fn run(mut self) -> Result<TrainReport, Error> {
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
            self.rollout.grant(group, version)?;
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

    fn over(&self, evaluation: Option<Evaluation>) -> Option<Ended> {
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
    fn evaluate(&mut self) -> Result<Option<Evaluation>, Error> {
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

    fn save(&self, name: &str, acting: Option<&Acting>, lanes: bool) -> Result<(), Error> {
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

    fn tell(
        &mut self,
        stats: UpdateStats,
        evaluation: Option<Evaluation>,
        collected: Duration,
        trained: Duration,
    ) {
        let statistics = self.rollout.statistics();
        let workers = statistics.workers.len().max(1) as f64;
        let deciding = |s: &Statistics| {
            s.workers
                .iter()
                .map(|w| w.deciding.as_secs_f64())
                .sum::<f64>()
        };
        let decided = (deciding(&statistics) - deciding(&self.seen)) / workers;
        self.progress.faults += statistics.faults.total() - self.seen.faults.total();
        self.seen = statistics;
        let overlapped = self.config.rollout.mode == Mode::Overlap;
        let (collected, trained) = (collected.as_secs_f64(), trained.as_secs_f64());
        let whole = if overlapped {
            collected.max(trained)
        } else {
            collected + trained
        };
        let share = |part: f64| {
            if whole > 0.0 {
                (part / whole).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        let mut values: std::collections::BTreeMap<_, _> = stats.values.into_iter().collect();
        values.insert("epochs", stats.epochs as f64);
        values.insert("skipped", stats.skipped as f64);
        values.insert("rows", stats.rows as f64);
        self.reporter.update(&Update {
            update: self.learner.updates(),
            env_steps: self.progress.env_steps,
            episodes: self.progress.episodes,
            return_mean_100: self.progress.returns.mean(),
            length_mean_100: self.progress.lengths.mean(),
            faults: self.progress.faults,
            failures: self
                .rollout
                .faults()
                .iter()
                .map(|fault| format!("{}, {fault}", self.config.env.id))
                .collect(),
            shares: Shares {
                env: share(collected - decided),
                inference: share(decided),
                learner: share(trained),
            },
            stats: values,
            evaluation,
        });
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

fn write_config(run: &RunDir, config: &Config) -> Result<(), Error> {
    hotloop_telemetry::write_atomic(&run.config(), config.to_toml().as_bytes())?;
    Ok(())
}
