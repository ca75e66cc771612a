//! Putting a run together: everything is checked before anything starts.

use super::{Place, Trainer};
use crate::checkpointing::{self, LAST};
use crate::config::{Config, Origins};
use crate::{Error, StopHandle, agent, ask, assemble};
use hotloop_env::Registry;
use hotloop_learn::{ActorCritic, Algorithm, Body, Learner, device};
use hotloop_rollout::{Schedule, ScheduleFile};
use hotloop_telemetry::{RunDir, Sink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    network: Option<Arc<dyn Body>>,
    schedule: Chosen,
}

/// What is to be done with the schedule of the run.
#[derive(Default)]
enum Chosen {
    #[default]
    Nothing,
    Record(PathBuf),
    Replay(PathBuf),
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

    /// Writes what depends on who is faster into this file: which lanes were inferred together and with which
    /// version, and in which order segments were trained on.
    pub fn record_schedule(mut self, file: impl Into<PathBuf>) -> Self {
        self.schedule = Chosen::Record(file.into());
        self
    }

    /// Does again what [`record_schedule`](Self::record_schedule) wrote. With the same configuration the run
    /// ends with the same weights.
    pub fn replay_schedule(mut self, file: impl Into<PathBuf>) -> Self {
        self.schedule = Chosen::Replay(file.into());
        self
    }

    /// An algorithm of your own in place of the configured one.
    pub fn algorithm(mut self, algorithm: impl Algorithm + 'static) -> Self {
        self.algorithm = Some(Arc::new(algorithm));
        self
    }

    /// A network of your own beneath the heads, in place of the configured one. A run of it is gone on with, or
    /// [played](crate::Agent::load_network), with the same one.
    pub fn network(mut self, body: impl Body + 'static) -> Self {
        self.network = Some(Arc::new(body));
        self
    }

    /// Checks everything that can be checked before the start. The run's directory is made, and
    /// environments step, in [`train`](Trainer::train).
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
            network,
            schedule,
        } = self;
        config.validate(&registry, &origins)?;
        let device = device::open(&config.device)?;
        let (spec, options) = assemble::environment(&config, &registry, &origins)?;
        let config = config.settled(&spec);
        let algorithm = algorithm.unwrap_or_else(|| assemble::algorithm(&config));
        let schedule = schedule.of(&config, resume.as_deref())?;
        if resume.is_none() {
            // Without one given, it will be one in there.
            RunDir::check(run_dir.as_deref().unwrap_or(Path::new("runs/new")))?;
        }
        let spaces = ask::spaces(&spec, &options)?;
        assemble::check_memory(&assemble::rollout(&config), &spaces)?;
        let net = assemble::network(&config, &spaces, network)?;
        assemble::check_rows(&net, &config)?;
        let resumed = match &resume {
            Some(path) => Some(reopen(path, &config)?),
            None => None,
        };
        announce(&net);
        let mut learner = Learner::new(
            assemble::learner(&config),
            net,
            Arc::clone(&algorithm),
            &spaces,
            device,
        )?
        .staged(config.staged);
        let place = match resumed {
            Some(run) => {
                let loaded = checkpointing::load(&run.checkpoints(), LAST, &spaces, &mut learner)?;
                Place::Resumed(run, Box::new(loaded))
            }
            None => Place::New(run_dir),
        };
        Ok(Trainer {
            config,
            spec,
            options,
            spaces,
            place,
            algorithm,
            learner,
            schedule,
            stop,
            sinks,
        })
    }
}

/// Keys that a replay may set otherwise: they change no update, but for `steps` where a schedule is linear.
const FREE_IN_A_REPLAY: &[&str] = &[
    "steps",
    "threads",
    "until_return",
    "eval.every",
    "eval.episodes",
    "eval.envs",
    "checkpoint.every",
];

impl Chosen {
    /// The schedule of a run with this configuration.
    fn of(self, config: &Config, resumed: Option<&Path>) -> Result<Schedule, Error> {
        let file = |path| {
            let keys = Config::keys().into_iter().map(|key| key.path);
            let keys = keys.filter(|key| {
                let hangs_on_steps = key == "steps" && config.changes_over_the_run();
                hangs_on_steps || !FREE_IN_A_REPLAY.contains(&key.as_str())
            });
            let settings = keys.filter_map(|key| {
                let value = config.value(&key)?.to_string();
                Some((key, value))
            });
            let mut settings: Vec<_> = settings.collect();
            // Last: a schedule that is linear in one of the two runs only is what differs then.
            settings.sort_by_key(|(key, _)| key == "steps");
            ScheduleFile { path, settings }
        };
        match (self, resumed) {
            (Self::Nothing, _) => Ok(Schedule::Free),
            (_, Some(path)) => Err(Error::Run {
                path: path.to_path_buf(),
                reason: "a run that goes on cannot be recorded or replayed: the checkpoint that it goes \
                         on from is written over by its next; record a new run"
                    .into(),
            }),
            (Self::Record(path), None) => Ok(Schedule::Record(file(path))),
            (Self::Replay(path), None) => Ok(Schedule::Replay(file(path))),
        }
    }
}

/// Says so if the initial weights will take a while: orthogonal matrices take time in the cube of their
/// width.
fn announce(net: &ActorCritic) {
    let work = |shape: &[i64]| match *shape {
        [rows, columns] => {
            let (few, many) = (rows.min(columns) as f64, rows.max(columns) as f64);
            few * few * many
        }
        _ => 0.0,
    };
    let entries = net.layout().entries().iter();
    // About ten seconds.
    if entries.map(|entry| work(&entry.shape)).sum::<f64>() > 2e9 {
        tracing::info!(
            "drawing the initial weights of layers this wide takes a while: ten seconds at a width of \
             1,300, eight times that for each doubling"
        );
    }
}

/// The directory of a run that goes on with this configuration.
fn reopen(path: &Path, config: &Config) -> Result<RunDir, Error> {
    let refuse = |reason: String| Error::Run {
        path: path.to_path_buf(),
        reason,
    };
    let run = RunDir::reopen(path)?;
    let before = agent::run_config(path)?;
    if before.env.id != config.env.id {
        return Err(refuse(format!(
            "it is a run of {}, which cannot be gone on with as one of {}; leave the environment away, \
             or start a new run",
            before.env.id, config.env.id
        )));
    }
    if !checkpointing::exists(&run.checkpoints(), LAST) {
        let reason = "it has no checkpoint to go on from: it ended before the first was written; start \
                      a new run";
        return Err(refuse(reason.into()));
    }
    Ok(run)
}
