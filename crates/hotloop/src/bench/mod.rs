//! Benchmark scenarios: how fast the parts of a run are, and the whole of it.
//!
//! Each warms up, measures for a while and reports env steps (or rows) per second with the settings
//! that made them. They measure speed and assert nothing.

mod drawn;

use crate::config::{Config, Mode, Origins, Recurrent, Scheduler};
use crate::{
    Ended, Error, StopHandle, ThreadTime, Trainer, acting, ask, assemble, recall, threads,
};
use drawn::Drawn;
use hotloop_env::{EnvOptions, EnvSpec, Registry, Spaces, Stream};
use hotloop_learn::{Actor, Choice, Learner, LearnerSpec, PolicyStore, device};
use hotloop_rollout::{Acting, Policy, Rollout, RolloutConfig, Segment};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a scenario measured.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    /// The scenario.
    pub scenario: &'static str,
    /// Env steps per second; rows per second where nothing steps.
    pub steps_per_s: f64,
    /// Steps or rows measured.
    pub steps: u64,
    /// Seconds measured.
    pub wall_s: f64,
    /// The settings that matter to the scenario.
    pub settings: BTreeMap<&'static str, serde_json::Value>,
    /// What each thread did with its time; of whole training only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadTime>,
}

/// What a scenario is made of.
struct Bench {
    config: Config,
    spec: EnvSpec,
    options: EnvOptions,
    spaces: Spaces,
}

impl Bench {
    fn new(registry: &Registry, config: &Config, origins: &Origins) -> Result<Self, Error> {
        config.validate(registry, origins)?;
        let (spec, options) = assemble::environment(config, registry, origins)?;
        let config = config.settled(&spec);
        let spaces = ask::spaces(&spec, &options)?;
        assemble::check_memory(&assemble::rollout(&config), &spaces)?;
        Ok(Self {
            config,
            spec,
            options,
            spaces,
        })
    }

    fn rollout(
        &self,
        settings: RolloutConfig,
        policies: Vec<Box<dyn Policy>>,
    ) -> Result<Rollout, Error> {
        let make = |_first, lanes| self.spec.make(&self.options, lanes);
        Ok(Rollout::start(
            settings,
            self.spaces.clone(),
            make,
            policies,
            None,
        )?)
    }

    fn learner(&self) -> Result<Learner, Error> {
        // The learner is measured with one batch again and again, which is not to grow too old.
        let spec = LearnerSpec {
            max_staleness: u64::from(u32::MAX),
            ..assemble::learner(&self.config)
        };
        Ok(Learner::new(
            spec,
            assemble::network(&self.config, &self.spaces, None)?,
            assemble::algorithm(&self.config),
            &self.spaces,
            device::open(&self.config.device)?,
        )?
        .staged(self.config.staged))
    }

    /// The learner's policy, `count` times.
    fn policies(&self, learner: &Learner, count: usize) -> Result<Vec<Box<dyn Policy>>, Error> {
        let store = Arc::new(PolicyStore::new());
        learner.publish(&store)?;
        let states = recall::states(&self.config, learner.params().device())?;
        (0..count)
            .map(|_| {
                let policy = acting::policy(
                    &self.config,
                    learner,
                    &self.spaces,
                    &store,
                    self.config.seed,
                    states.as_ref(),
                    &Arc::default(),
                )?;
                Ok(Box::new(policy) as Box<dyn Policy>)
            })
            .collect()
    }

    /// Steps with two segments for each group, so that nothing waits for the consumer. `policies` is asked for so many,
    /// one for each inference worker, for rows of at most so many lanes.
    fn step(
        &self,
        seconds: f64,
        policies: impl FnOnce(usize, usize) -> Result<Vec<Box<dyn Policy>>, Error>,
    ) -> Result<(u64, Duration), Error> {
        let settings = RolloutConfig {
            segments_per_group: 2,
            ..assemble::rollout(&self.config)
        };
        let workers = settings.effective_groups().min(self.config.threads());
        let most = settings
            .lanes_per_group()
            .max(self.config.rollout.batch_limit());
        let rollout = self.rollout(settings, policies(workers, most)?)?;
        for group in (0..rollout.groups()).chain(0..rollout.groups()) {
            rollout.grant(group, Acting::At(0))?;
        }
        measure(seconds, || {
            let segment = rollout.recv()?;
            let (group, env_steps) = (segment.group(), segment.env_steps());
            drop(segment);
            rollout.grant(group, Acting::At(0))?;
            Ok(env_steps)
        })
    }

    /// Fills one round of segments with the learner's policy.
    fn fill(&self, learner: &Learner) -> Result<(Rollout, Vec<Segment>), Error> {
        let rollout = self.rollout(assemble::rollout(&self.config), self.policies(learner, 1)?)?;
        for group in 0..rollout.groups() {
            rollout.grant(group, Acting::At(0))?;
        }
        let mut segments = (0..rollout.groups())
            .map(|_| rollout.recv())
            .collect::<Result<Vec<_>, _>>()?;
        segments.sort_by_key(Segment::group);
        Ok((rollout, segments))
    }

    fn report(&self, scenario: &'static str, (steps, wall): (u64, Duration)) -> BenchReport {
        let config = &self.config;
        let settings: [(_, serde_json::Value); 12] = [
            ("env", config.env.id.clone().into()),
            ("envs", config.rollout.envs.into()),
            ("envs_per_actor", config.rollout.lanes_per_actor().into()),
            (
                "groups",
                assemble::rollout(config).effective_groups().into(),
            ),
            ("horizon", config.rollout.horizon.into()),
            ("hidden", config.network.hidden.clone().into()),
            ("shared", config.network.shared.into()),
            ("fast", config.network.fast.into()),
            ("mode", name_of(config.rollout.mode).into()),
            ("epochs", config.algo.epochs.into()),
            ("minibatches", config.algo.minibatches.into()),
            ("threads", config.threads().into()),
        ];
        let mut settings = BTreeMap::from(settings);
        settings.extend(unusual(config));
        BenchReport {
            scenario,
            steps_per_s: steps as f64 / wall.as_secs_f64(),
            steps,
            wall_s: wall.as_secs_f64(),
            settings,
            threads: vec![],
        }
    }
}

/// Keys that decide how fast a run is, and are named where they are not as usual.
const OFTEN_AS_USUAL: [&str; 10] = [
    "algo.name",
    "algo.sequence",
    "device",
    "network.body",
    "network.inference_dtype",
    "network.recurrent",
    "network.recurrent_size",
    "normalize.values",
    "rollout.max_staleness",
    "rollout.scheduler",
];

/// Those of [`OFTEN_AS_USUAL`] that are not, in this settled configuration.
fn unusual(config: &Config) -> impl Iterator<Item = (&'static str, serde_json::Value)> {
    let mut usual = Config::default();
    usual.rollout.scheduler = Scheduler::Lockstep;
    OFTEN_AS_USUAL.into_iter().filter_map(move |key| {
        let value = config.value(key)?;
        let said = match key {
            // Of a memory the size is always of interest, without one never.
            "network.recurrent_size" => config.network.recurrent != Recurrent::None,
            _ => Some(&value) != usual.value(key).as_ref(),
        };
        Some((key, serde_json::to_value(value).ok()?)).filter(|_| said)
    })
}

/// A mode as the configuration spells it.
fn name_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Auto => "auto",
        Mode::Sync => "sync",
        Mode::Overlap => "overlap",
        Mode::Async => "async",
    }
}

/// Does `round`, which returns its steps, over and over: unmeasured for a fifth of `seconds` and at
/// least once, then for `seconds` and at least once.
fn measure(
    seconds: f64,
    mut round: impl FnMut() -> Result<u64, Error>,
) -> Result<(u64, Duration), Error> {
    let mut repeat = |seconds: f64| {
        let start = Instant::now();
        let mut steps = 0;
        loop {
            steps += round()?;
            if start.elapsed().as_secs_f64() >= seconds {
                return Ok::<_, Error>((steps, start.elapsed()));
            }
        }
    };
    repeat(seconds / 5.0)?;
    repeat(seconds)
}

/// Env steps per second of the rollout alone: actors, scheduler and slab with actions drawn beforehand.
///
/// # Errors
/// If the configuration cannot be used or the environments fail.
pub fn rollout(
    registry: &Registry,
    config: &Config,
    origins: &Origins,
    seconds: f64,
) -> Result<BenchReport, Error> {
    let bench = Bench::new(registry, config, origins)?;
    let measured = bench.step(seconds, |workers, most| {
        let drawn = || Box::new(Drawn::new(&bench.spaces, most, config.seed)) as Box<dyn Policy>;
        Ok((0..workers).map(|_| drawn()).collect())
    })?;
    Ok(bench.report("rollout", measured))
}

/// Env steps per second of the rollout with the policy between steps, and no learner.
///
/// # Errors
/// If the configuration cannot be used, the environments fail or libtorch does.
pub fn acting(
    registry: &Registry,
    config: &Config,
    origins: &Origins,
    seconds: f64,
) -> Result<BenchReport, Error> {
    let bench = Bench::new(registry, config, origins)?;
    let learner = bench.learner()?;
    let measured = bench.step(seconds, |workers, _| bench.policies(&learner, workers))?;
    Ok(bench.report("acting", measured))
}

/// Rows per second that one inference worker decides on: features, network, choice of actions.
///
/// # Errors
/// If the configuration cannot be used or libtorch fails.
pub fn inference(
    registry: &Registry,
    config: &Config,
    origins: &Origins,
    seconds: f64,
) -> Result<BenchReport, Error> {
    let bench = Bench::new(registry, config, origins)?;
    let mut learner = bench.learner()?;
    let measured = threads::run("hotloop-infer", || {
        let (_rollout, segments) = bench.fill(&learner)?;
        let first = &segments[0];
        let lanes = first.lanes();
        let masks = &first.masks()[..lanes * bench.spaces.action.mask_bytes()];
        let mut words = vec![0u64; (lanes * bench.spaces.action.record_bytes()).div_ceil(8)];
        let actions =
            &mut bytemuck::cast_slice_mut(&mut words)[..lanes * bench.spaces.action.record_bytes()];
        let mut actor = Actor::new(learner.net().clone(), &bench.spaces);
        let philox = hotloop_env::Philox::new(config.seed, Stream::Action);
        let starts = vec![0; lanes];
        let learner = &mut learner;
        let mut decision = 0;
        measure(seconds, || {
            decision += 1;
            let draw = |row| (row as u64, decision);
            actor.play(
                learner.params(),
                learner.normalizer().standardizer(),
                Choice::Sample,
                &philox,
                first.stacks().rows(0..1),
                masks,
                &starts,
                draw,
                actions,
            )?;
            Ok(lanes as u64)
        })
    })?;
    Ok(bench.report("inference", measured))
}

/// Rows per second that the learner trains on, all epochs included: the batch is the same each time.
///
/// # Errors
/// If the configuration cannot be used or libtorch fails.
pub fn learner(
    registry: &Registry,
    config: &Config,
    origins: &Origins,
    seconds: f64,
) -> Result<BenchReport, Error> {
    let bench = Bench::new(registry, config, origins)?;
    let mut learner = bench.learner()?;
    let measured = threads::run("hotloop-learner", || {
        let (_rollout, segments) = bench.fill(&learner)?;
        let learner = &mut learner;
        measure(seconds, || {
            Ok(learner.update(&segments, u64::MAX)?.rows as u64)
        })
    })?;
    Ok(bench.report("learner", measured))
}

/// Env steps per second of whole training, from the first step to the last update. The run's directory
/// is a temporary one. None if the run was stopped: it says nothing then.
///
/// # Errors
/// If the configuration cannot be used or the run fails.
pub fn train(
    registry: &Registry,
    config: &Config,
    origins: &Origins,
    stop: StopHandle,
) -> Result<Option<BenchReport>, Error> {
    let bench = Bench::new(registry, config, origins)?;
    let dir = std::env::temp_dir().join(format!("hotloop-bench-{}", std::process::id()));
    let outcome = Trainer::builder()
        .registry(registry.clone())
        .config(config.clone())
        .origins(origins.clone())
        .run_dir(&dir)
        .stop(stop)
        .build()
        .and_then(Trainer::train);
    // It was only there because every run has one.
    let _ = std::fs::remove_dir_all(&dir);
    let report = outcome?;
    if report.ended == Ended::Interrupted {
        return Ok(None);
    }
    let wall = Duration::from_secs_f64(report.wall_s);
    Ok(Some(BenchReport {
        threads: report.threads,
        ..bench.report("train", (report.env_steps, wall))
    }))
}
