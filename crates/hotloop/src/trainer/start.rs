//! Starting a run: environments and threads first, its directory last, so that a run that cannot start
//! leaves none behind.

use super::tell::Flowed;
use super::training::Training;
use super::{Place, Progress, Trainer};
use crate::account::{Account, LearnerTime};
use crate::checkpointing::Loaded;
use crate::config::Config;
use crate::evaluate::Stage;
use crate::{Error, acting, assemble, recall, system};
use hotloop_learn::{CopyCounters, Learner, PolicyStore, device};
use hotloop_math::SystemClock;
use hotloop_rollout::{Limits, Policy, Rollout, RolloutConfig, RolloutError, Snapshot};
use hotloop_telemetry::{Manifest, MetricsFile, Reporter, Run, RunDir};
use std::path::Path;
use std::sync::Arc;

/// Where a run starts from.
#[derive(Default)]
struct From {
    progress: Progress,
    wall_s: f64,
    lanes: Option<Snapshot>,
    /// What was remembered of the lanes.
    states: Option<Vec<f32>>,
}

impl Training {
    /// Makes everything that steps or trains, then the run's directory. Nothing steps yet.
    pub(super) fn start(trainer: Trainer) -> Result<Self, Error> {
        let Trainer {
            config,
            spec,
            options,
            spaces,
            place,
            algorithm,
            mut learner,
            schedule,
            stop,
            mut sinks,
        } = trainer;
        let store = Arc::new(PolicyStore::new());
        let mut settings = RolloutConfig {
            schedule,
            ..assemble::rollout(&config)
        };
        let (place, from) = match place {
            Place::Resumed(run, loaded) => {
                loaded.publish(&run.checkpoints(), &mut learner, &store)?;
                let Loaded {
                    progress,
                    wall_s,
                    rollout: lanes,
                    states,
                    ..
                } = *loaded;
                if lanes.is_none() {
                    settings.seed = afresh(settings.seed, learner.updates());
                }
                let from = From {
                    progress,
                    wall_s,
                    lanes,
                    states,
                };
                (Ok(run), from)
            }
            Place::New(given) => {
                learner.publish(&store)?;
                (Err(given), From::default())
            }
        };
        let workers = settings.effective_groups().min(config.threads());
        let states = recall::states(&config, learner.params().device())?;
        if let (Some(states), Some(saved)) = (&states, from.lanes.as_ref().and(from.states)) {
            states.restore(&saved)?;
        }
        let copies = Arc::new(CopyCounters::default());
        let policies = (0..workers).map(|_| {
            let (seed, states) = (settings.seed, states.as_ref());
            acting::policy(&config, &learner, &spaces, &store, seed, states, &copies)
                .map(|policy| Box::new(policy) as Box<dyn Policy>)
        });
        let policies = policies.collect::<Result<_, _>>()?;
        let make = |_first, lanes| spec.make(&options, lanes);
        let rollout = Rollout::start(settings, spaces.clone(), make, policies, from.lanes)
            .map_err(|error| misfit(place.as_ref().map(RunDir::path), error))?;
        let evaluator = if config.eval.every > 0 {
            let envs = config.eval.envs.min(config.eval.episodes);
            let limits = Limits::of(&assemble::rollout(&config));
            Some(Stage::new(&spec, &options, &spaces, envs, limits)?)
        } else {
            None
        };
        let algo = algorithm.name();
        stop.begin();
        let run = match place {
            Ok(run) => run,
            Err(given) => {
                let run = RunDir::create(given.as_deref(), &config.env.id, algo, config.seed)?;
                write_manifest(&run, &config, algo, &learner)?;
                run
            }
        };
        let metrics = match learner.updates() {
            0 => MetricsFile::create(run.metrics())?,
            done => MetricsFile::resume(run.metrics(), done)?,
        };
        // Of a run that goes on: not before everything is known to fit.
        hotloop_telemetry::write_atomic(&run.config(), config.to_toml().as_bytes())?;
        // What was set aside comes into use as it is filled.
        let unused = rollout.memory() + learner.rehearse()?;
        let whole = system::resident().map(|bytes| mebibytes(bytes + unused));
        tracing::info!(
            "{} in {}: {} envs, about {} of memory, of which segments take {:.1} MiB{}",
            config.env.id,
            run.path().display(),
            config.rollout.envs,
            whole.map_or("an unknown amount".into(), |mib| format!("{mib:.0} MiB")),
            mebibytes(rollout.memory()),
            match &states {
                Some(states) => format!(", recurrent states {:.1} MiB", mebibytes(states.size())),
                None => String::new(),
            }
        );
        sinks.insert(0, Box::new(metrics));
        let reporter = Reporter::start(
            Arc::new(SystemClock::new()),
            &Run {
                dir: run.path().to_path_buf(),
                env: config.env.id.clone(),
                algo: algo.into(),
                seed: config.seed,
                target_steps: config.steps,
                done_steps: from.progress.env_steps,
                done_wall_s: from.wall_s,
            },
            sinks,
        )?;
        Ok(Self {
            env: config.env.id.clone(),
            spaces,
            seen: rollout.statistics(),
            progress: from.progress,
            config,
            run,
            algorithm,
            learner,
            store,
            rollout,
            states,
            copied: copies.read(),
            copies,
            reporter,
            evaluator,
            stop,
            account: Account::open(),
            time: LearnerTime::default(),
            flowed: Flowed::default(),
        })
    }
}

fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The seed of lanes that start anew after so many updates: with the old one they would draw the same
/// numbers, and see the same episodes, once more. Weyl's sequence keeps the seeds of one run apart.
fn afresh(seed: u64, updates: u64) -> u64 {
    seed ^ updates.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn write_manifest(
    run: &RunDir,
    config: &Config,
    algo: &str,
    learner: &Learner,
) -> Result<(), Error> {
    let manifest = Manifest::collect(
        &system::libtorch().version,
        &config.env.id,
        algo,
        config.seed,
        &device::name(learner.params().device()),
        config.threads(),
    );
    Ok(manifest.write(&run.manifest())?)
}

/// Says which settings have to stay if the lanes of a checkpoint do not fit, and that a schedule which
/// cannot be used is its user's to mend.
fn misfit<E>(resumed: Result<&Path, E>, error: RolloutError) -> Error {
    match (resumed, error) {
        (Ok(path), error @ RolloutError::Snapshot(_)) => Error::Run {
            path: path.to_path_buf(),
            reason: format!(
                "{error}; leave rollout.envs, rollout.groups and rollout.scheduler as they were, or \
                 start a new run"
            ),
        },
        (_, RolloutError::Schedule { path, reason }) => Error::Schedule { path, reason },
        (_, error) => error.into(),
    }
}
