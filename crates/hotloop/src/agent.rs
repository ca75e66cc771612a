//! A trained policy, read from a run's directory and ready to play.

use crate::assemble;
use crate::checkpointing::{self, BEST, LAST};
use crate::config::{Config, Layers};
use crate::evaluate::{EvalPlan, EvalReport, Stage, play_episodes};
use crate::stop::Patience;
use crate::{Error, StopHandle, threads};
use hotloop_env::{EnvOptions, EnvSpec, Registry, Spaces};
use hotloop_learn::{Actor, Body, Learner, device};
use hotloop_telemetry::RunDir;
use std::path::Path;
use std::sync::Arc;

/// Which of a run's policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// The final weights.
    #[default]
    Last,
    /// Those of the best evaluation during training.
    Best,
}

/// A trained policy with the environment that it was trained on.
pub struct Agent {
    learner: Learner,
    spec: EnvSpec,
    options: EnvOptions,
    spaces: Spaces,
}

/// Reads the resolved configuration of the run in `dir`.
///
/// # Errors
/// If it is no run, or its configuration cannot be read.
pub fn run_config(dir: &Path) -> Result<Config, Error> {
    let run = RunDir::open(dir)?;
    let (config, _) = Layers::new().file(&run.config())?.finish();
    Ok(config)
}

impl Agent {
    /// Reads the policy of the run in `dir`. Its environment must be in `registry`.
    ///
    /// # Errors
    /// If the run or its checkpoint is missing or damaged, or does not fit the environment.
    pub fn load(
        dir: &Path,
        registry: &Registry,
        which: Which,
        device: &str,
    ) -> Result<Self, Error> {
        Self::read(dir, registry, which, device, None)
    }

    /// Reads the policy of a run that was trained with a network of your own; see
    /// [`TrainerBuilder::network`](crate::TrainerBuilder::network).
    ///
    /// # Errors
    /// As [`load`](Self::load); or if the run's network was another.
    pub fn load_network(
        dir: &Path,
        registry: &Registry,
        which: Which,
        device: &str,
        body: impl Body + 'static,
    ) -> Result<Self, Error> {
        Self::read(dir, registry, which, device, Some(Arc::new(body)))
    }

    fn read(
        dir: &Path,
        registry: &Registry,
        which: Which,
        device: &str,
        network: Option<Arc<dyn Body>>,
    ) -> Result<Self, Error> {
        let run = RunDir::open(dir)?;
        let (config, origins) = Layers::new().file(&run.config())?.finish();
        config.validate(registry, &origins)?;
        let device = device::open(device)?;
        let (spec, options) = config.env.resolve(registry, &origins)?;
        let config = config.settled(&spec);
        let spaces = spec.spaces(&options)?;
        let name = match which {
            Which::Last => LAST,
            Which::Best => BEST,
        };
        if !checkpointing::exists(&run.checkpoints(), name) {
            let reason = match which {
                Which::Last => {
                    "it has no checkpoint yet; train writes one when it ends or is interrupted"
                }
                Which::Best => "it has no best policy; train keeps one if eval.every is set",
            };
            return Err(Error::Run {
                path: dir.to_path_buf(),
                reason: reason.into(),
            });
        }
        let mut learner = Learner::new(
            assemble::learner(&config),
            assemble::network(&config, &spaces, network)?,
            assemble::algorithm(&config),
            &spaces,
            device,
        )?;
        checkpointing::load(&run.checkpoints(), name, &mut learner)?;
        Ok(Self {
            learner,
            spec: spec.clone(),
            options,
            spaces,
        })
    }

    /// Plays episodes on `envs` environments.
    ///
    /// # Errors
    /// If an environment fails, or the network does.
    pub fn evaluate(&mut self, plan: EvalPlan, envs: usize) -> Result<EvalReport, Error> {
        let envs = envs.min(plan.episodes).max(1);
        let mut stage = Stage::new(&self.spec, &self.options, envs)?;
        let (spaces, learner) = (&self.spaces, &mut self.learner);
        let report = threads::run("hotloop-eval", move || {
            evaluate_on(&mut stage, spaces, learner, plan, &StopHandle::new())
        })?;
        Ok(report.expect("nobody else has the handle to stop it"))
    }
}

/// Plays episodes on `stage` with the current weights and statistics of `learner`, which do not change;
/// `None` if the run was stopped first.
pub(crate) fn evaluate_on(
    stage: &mut Stage,
    spaces: &Spaces,
    learner: &Learner,
    plan: EvalPlan,
    stop: &StopHandle,
) -> Result<Option<EvalReport>, Error> {
    let mut actor = Actor::new(learner.net().clone(), spaces);
    let standardizer = learner.normalizer().standardizer();
    play_episodes(
        stage,
        spaces,
        &mut actor,
        learner.params(),
        standardizer,
        plan,
        Patience::new(stop),
    )
}
