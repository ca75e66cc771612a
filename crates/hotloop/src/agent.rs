//! A trained policy, read from a run's directory and ready to play.

use crate::checkpointing::{self, BEST, LAST};
use crate::config::{Config, Layers};
use crate::evaluate::{EvalPlan, EvalReport, Played, Stage, Watch, play_episodes};
use crate::stop::Patience;
use crate::{Error, StopHandle, ask, assemble, threads};
use hotloop_env::{EnvOptions, EnvSpec, Registry, Spaces};
use hotloop_learn::{Body, Learner, device};
use hotloop_rollout::Limits;
use hotloop_telemetry::RunDir;
use std::ops::Range;
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
    limits: Limits,
}

const UNSTOPPED: &str = "nobody else has the handle to stop it";

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
        let (spec, options) = assemble::environment(&config, registry, &origins)?;
        let config = config.settled(&spec);
        let spaces = ask::spaces(&spec, &options)?;
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
        checkpointing::load(&run.checkpoints(), name, &spaces, &mut learner)?;
        Ok(Self {
            learner,
            spec,
            options,
            spaces,
            limits: Limits::of(&assemble::rollout(&config)),
        })
    }

    /// The id of its environment.
    #[must_use]
    pub fn env(&self) -> &str {
        self.spec.id()
    }

    /// Plays episodes on `envs` environments.
    ///
    /// # Errors
    /// If an environment fails, or the network does.
    pub fn evaluate(&mut self, plan: EvalPlan, envs: usize) -> Result<EvalReport, Error> {
        let options = self.options.clone();
        let played = self.play(plan, 0..plan.episodes, &options, envs, None)?;
        Ok(EvalReport::of(&played.expect(UNSTOPPED)))
    }

    /// The same, while `watch` is shown the first `watched` episodes one after another, every state of them; none if it
    /// breaks off. The report is that of [`evaluate`](Self::evaluate).
    ///
    /// ```no_run
    /// # fn agent() -> hotloop::Agent { unimplemented!() }
    /// use std::ops::ControlFlow;
    ///
    /// let plan = hotloop::EvalPlan { episodes: 1, seed: 1, choice: hotloop::Choice::Greedy };
    /// let mut pictures = 0;
    /// agent().watch(plan, 1, 1, &mut |mut view| {
    ///     if let Ok(Some(frame)) = view.frame() {
    ///         pictures += usize::from(!frame.rgb.is_empty());
    ///     }
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), hotloop::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate).
    pub fn watch(
        &mut self,
        plan: EvalPlan,
        envs: usize,
        watched: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Option<EvalReport>, Error> {
        let watched = watched.min(plan.episodes);
        let options = self.options.clone().drawn(true);
        let Some(mut seen) = self.play(plan, 0..watched, &options, 1, Some(watch))? else {
            return Ok(None);
        };
        let (options, rest) = (self.options.clone(), watched..plan.episodes);
        let rest = self.play(plan, rest, &options, envs, None)?;
        let rest = rest.expect(UNSTOPPED);
        seen.episodes.extend(rest.episodes);
        seen.faults += rest.faults;
        seen.lost += rest.lost;
        Ok(Some(EvalReport::of(&seen)))
    }

    /// Plays these episodes of `plan` on environments of their own; none if `watch` breaks off.
    fn play(
        &mut self,
        plan: EvalPlan,
        episodes: Range<usize>,
        options: &EnvOptions,
        envs: usize,
        watch: Option<&mut Watch<'_>>,
    ) -> Result<Option<Played>, Error> {
        if episodes.is_empty() {
            return Ok(Some(Played::default()));
        }
        let envs = envs.min(episodes.len()).max(1);
        let mut stage = Stage::new(&self.spec, options, &self.spaces, envs, self.limits)?;
        let learner = &mut self.learner;
        threads::run("hotloop-eval", move || {
            let patience = Patience::new(&StopHandle::new());
            play_episodes(&mut stage, learner, plan, episodes, patience, watch)
        })
    }
}

/// Plays episodes on `stage` with the current weights and statistics of `learner`, which do not change;
/// `None` if the run was stopped first.
pub(crate) fn evaluate_on(
    stage: &mut Stage,
    learner: &Learner,
    plan: EvalPlan,
    stop: &StopHandle,
) -> Result<Option<EvalReport>, Error> {
    let episodes = 0..plan.episodes;
    let played = play_episodes(stage, learner, plan, episodes, Patience::new(stop), None)?;
    Ok(played.as_ref().map(EvalReport::of))
}
