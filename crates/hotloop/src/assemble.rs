//! From a configuration to the parts of a run: network, algorithm, learner and rollout.

use crate::config::{
    Activation, Body, Config, LogStd, Mode, OnFault, Origins, Scheduler, ValueScale,
};
use crate::{Error, recall};
use hotloop_env::{DType, EnvOptions, EnvSpec, FeatureSpec, Leaf, LeafKind, Registry, Spaces};
use hotloop_learn::net::ImageNet;
use hotloop_learn::{
    A2c, ActorCritic, AdamSpec, Algorithm, Appo, BoxHead, Deviation, Impala, LearnerSpec,
    NetworkSpec, NormalizerSpec, Ppo, ValueNormalization, head_of, net,
};
use hotloop_math::VTrace;
use hotloop_rollout::{Bounding, RolloutConfig, RolloutError};
use std::sync::Arc;
use std::time::Duration;

/// The environment of a configuration, and its options.
pub(crate) fn environment(
    config: &Config,
    registry: &Registry,
    origins: &Origins,
) -> Result<(EnvSpec, EnvOptions), Error> {
    let (spec, options) = config.env.resolve(registry, origins)?;
    let deadline = seconds(config.rollout.reset_deadline);
    Ok((spec, options.with_reset_deadline(deadline)))
}

/// The network of a configuration, for environments of these spaces; with a body of the user's own, if given.
pub(crate) fn network(
    config: &Config,
    spaces: &Spaces,
    body: Option<Arc<dyn net::Body>>,
) -> Result<ActorCritic, Error> {
    let network = &config.network;
    let boxes = BoxHead {
        deviation: match network.log_std {
            LogStd::Free => Deviation::Free,
            LogStd::State => Deviation::State,
        },
        squash: network.squash,
    };
    let inputs = FeatureSpec::new(&spaces.seen);
    let spec = NetworkSpec {
        body: body.unwrap_or_else(|| self::body(config, &inputs, spaces)),
        inputs,
        recurrent: recall::cell(config),
        shared: network.shared,
        head: head_of(&spaces.action, boxes)?,
        fast: network.fast,
    };
    let net = ActorCritic::new(spec)?;
    check_network(&net, config)?;
    Ok(net)
}

/// The body of a configuration.
fn body(config: &Config, inputs: &FeatureSpec, spaces: &Spaces) -> Arc<dyn net::Body> {
    let top = net::Mlp {
        hidden: config.network.hidden.clone(),
        activation: match config.network.activation {
            Activation::Tanh => net::Activation::Tanh,
            Activation::Relu => net::Activation::Relu,
        },
    };
    let encoder = |image, top| {
        Arc::new(net::Encoder {
            image: Some(image),
            top,
        })
    };
    match config.network.body {
        Body::Mlp => Arc::new(top),
        Body::SmallCnn => encoder(ImageNet::Small, top),
        Body::NatureCnn => encoder(ImageNet::Nature, top),
        Body::ShallowCnn => encoder(ImageNet::Shallow, top),
        Body::ImpalaResnet => encoder(ImageNet::ImpalaResnet, top),
        Body::Auto => {
            for leaf in spaces.seen.leaves() {
                warn_of_image(leaf);
            }
            net::Encoder::fitting(inputs, top)
        }
    }
}

/// Warns of what looks like an image, but does not say where its channels are.
fn warn_of_image(leaf: &Leaf) {
    if let LeafKind::Box(space) = &leaf.kind
        && (space.dtype, space.image, space.shape.len()) == (DType::U8, None, 3)
    {
        tracing::warn!(
            "observation {:?} of shape {:?} looks like an image, but is read as plain numbers: say where its \
             channels are (of an environment in Python: --set env.options.image=chw or hwc; in Rust: \
             Space::image), or set network.body=mlp",
            leaf.path,
            space.shape
        );
    }
}

/// The algorithm of a configuration that has passed its checks.
pub(crate) fn algorithm(config: &Config) -> Arc<dyn Algorithm> {
    let algo = &config.algo;
    let (gamma, gae_lambda) = (algo.gamma as f32, algo.gae_lambda as f32);
    let (value_clip, value_coef) = (positive(algo.value_clip), algo.value_coef);
    let clip = algo.clip_schedule.starting_at(algo.clip);
    let entropy_coef = algo.entropy_schedule.starting_at(algo.entropy);
    let vtrace = VTrace {
        gamma,
        lambda: gae_lambda,
        rho_clip: algo.rho_clip as f32,
        c_clip: algo.c_clip as f32,
        rho_pg_clip: Some(algo.rho_pg_clip as f32),
    };
    match algo.name.as_str() {
        "a2c" => Arc::new(A2c {
            gamma,
            gae_lambda,
            value_coef,
            entropy_coef,
        }),
        "impala" => Arc::new(Impala {
            vtrace,
            value_coef,
            entropy_coef,
        }),
        "appo" => Arc::new(Appo {
            vtrace,
            clip,
            value_clip,
            value_coef,
            entropy_coef,
        }),
        _ => Arc::new(Ppo {
            gamma,
            gae_lambda,
            clip,
            value_clip,
            value_coef,
            entropy_coef,
        }),
    }
}

/// How the learner of a configuration trains.
pub(crate) fn learner(config: &Config) -> LearnerSpec {
    let (algo, normalize) = (&config.algo, &config.normalize);
    LearnerSpec {
        seed: config.seed,
        lanes: config.rollout.envs,
        batch: config.largest_batch(),
        max_staleness: match config.rollout.mode {
            Mode::Auto | Mode::Sync => 0,
            Mode::Overlap => 1,
            Mode::Async => config.rollout.max_staleness,
        },
        recall: recall::sequences(config),
        epochs: algo.epochs,
        minibatches: algo.minibatches,
        shards: algo.shards,
        threads: config.threads(),
        learning_rate: algo.learning_rate_schedule.starting_at(algo.learning_rate),
        adam: AdamSpec {
            eps: algo.adam_eps,
            max_grad_norm: positive(algo.max_grad_norm),
            max_skips: u64::from(algo.max_skipped_updates),
            ..AdamSpec::default()
        },
        normalize_advantages: algo.normalize_advantages,
        target_kl: positive(algo.target_kl),
        gamma: algo.gamma,
        normalize: NormalizerSpec {
            observation_clip: normalize
                .observations
                .then_some(normalize.observation_clip as f32),
            reward_clip: normalize.rewards.then_some(normalize.reward_clip as f32),
            values: match normalize.values {
                ValueScale::None => ValueNormalization::None,
                ValueScale::Running => ValueNormalization::Running,
                ValueScale::Popart => ValueNormalization::PopArt,
            },
        },
    }
}

/// The rollout of a configuration.
pub(crate) fn rollout(config: &Config) -> RolloutConfig {
    let rollout = &config.rollout;
    RolloutConfig {
        env: config.env.id.clone(),
        lanes: rollout.envs,
        lanes_per_actor: rollout.lanes_per_actor(),
        groups: rollout.groups,
        steps: rollout.horizon,
        segments_per_group: rollout.segments_per_group(),
        scheduler: match rollout.scheduler {
            Scheduler::Auto | Scheduler::Lockstep => hotloop_rollout::Scheduler::Lockstep,
            Scheduler::FirstReady => hotloop_rollout::Scheduler::FirstReady {
                max_batch: rollout.batch_limit(),
            },
        },
        env_threads: config.threads(),
        seed: config.seed,
        max_failures_in_a_row: rollout.max_failures_in_a_row,
        step_deadline: seconds(rollout.step_deadline),
        reset_deadline: seconds(rollout.reset_deadline),
        backoff: seconds(rollout.backoff).unwrap_or_default(),
        stuck_after: seconds(rollout.stuck_after),
        on_fault: match rollout.on_fault {
            OnFault::Restart => hotloop_rollout::OnFault::Restart,
            OnFault::Fail => hotloop_rollout::OnFault::Fail,
        },
        max_staleness: match rollout.mode {
            Mode::Async => Some(rollout.max_staleness),
            _ => None,
        },
        bounding: if config.network.squash {
            Bounding::Tanh
        } else {
            Bounding::Clip
        },
        state: recall::column(config),
        schedule: hotloop_rollout::Schedule::Free,
    }
}

/// A time, or none where it is 0.
fn seconds(value: f64) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(value).ok();
    time.filter(|time| !time.is_zero())
}

/// 0 switches a setting off.
fn positive(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

/// Refuses a rollout that does not fit into memory; returns the bytes that it will take.
pub(crate) fn check_memory(rollout: &RolloutConfig, spaces: &Spaces) -> Result<usize, Error> {
    let instead = "fewer rollout.envs, a shorter rollout.horizon or fewer rollout.segments";
    rollout
        .check_memory(spaces)
        .map_err(|error| beyond("the segments", instead, error))
}

/// Refuses a network that does not fit into memory: weights, gradients, two moments of the optimiser,
/// three published versions, and a gradient for each shard.
fn check_network(net: &ActorCritic, config: &Config) -> Result<(), Error> {
    let arenas = 7 + config.algo.shards;
    let needed = net.layout().total().saturating_mul(4 * arenas);
    hotloop_rollout::check_memory(needed).map_err(|error| {
        beyond(
            "the networks",
            "smaller network.hidden or network.recurrent_size",
            error,
        )
    })
}

/// Refuses a batch whose rows do not fit into memory as the network reads them: 4 bytes a feature (an image takes one a
/// pixel in a segment), once for all rows and as much again for the rows being encoded and drawn.
pub(crate) fn check_rows(net: &ActorCritic, config: &Config) -> Result<(), Error> {
    let features = net.spec().inputs.len();
    let needed = config.largest_batch().saturating_mul(2 * 4 * features);
    let instead = "fewer rollout.envs or a shorter rollout.horizon";
    hotloop_rollout::check_memory(needed)
        .map_err(|error| beyond("the rows of an update", instead, error))
}

pub(crate) fn beyond(what: &'static str, instead: &'static str, error: RolloutError) -> Error {
    match error {
        RolloutError::Memory { needed, available } => Error::Memory {
            what,
            instead,
            needed,
            available,
        },
        other => other.into(),
    }
}
