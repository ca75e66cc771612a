//! Putting a run together: everything is checked, and its directory is made, before anything steps.

use super::{Trainer, write_config};
use crate::checkpointing::{self, LAST};
use crate::config::{Config, Origins};
use crate::{Error, StopHandle, agent, assemble, system};
use hotloop_env::Registry;
use hotloop_learn::{Algorithm, Learner, device};
use hotloop_telemetry::{Manifest, RunDir, Sink};
use std::path::PathBuf;
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
