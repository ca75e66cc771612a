//! Every key of the configuration: the types that hold it, its default and its meaning.

use super::choices::{
    Activation, Body, InferenceDtype, LogStd, Mode, OnFault, Recurrent, ScheduleKind, Scheduler,
    ValueScale,
};
use super::section::{Fields, Key, section};
use std::collections::BTreeMap;

section! {
    /// The whole configuration of a run.
    Config {
        /// The seed of everything random. The same seed gives the same run, whatever `threads` is.
        seed: u64 = 1,
        /// Env steps to train for. Training stops at the first update at or past it.
        steps: u64 = 500_000,
        /// Threads that the run may use; 0 for all that the process is allowed. Never changes results.
        threads: usize = 0,
        /// Where the networks are: "cpu", "cuda" or "cuda:N".
        device: String = "cpu".to_string(),
        /// Copy between host and device on the CPU, too, as for a GPU. Slower; for tests of that path.
        staged: bool = false,
        /// Stop when an evaluation during training (see eval.every) reaches this mean return; not set:
        /// train for all the steps.
        until_return: Option<f64> = None,
        /// The environment.
        env: EnvConfig = EnvConfig::default(),
        /// How experience is collected.
        rollout: RolloutSettings = RolloutSettings::default(),
        /// The policy and value networks.
        network: NetworkConfig = NetworkConfig::default(),
        /// The algorithm.
        algo: AlgoConfig = AlgoConfig::default(),
        /// Running normalization of what the networks see.
        normalize: NormalizeConfig = NormalizeConfig::default(),
        /// Evaluation during training.
        eval: EvalConfig = EvalConfig::default(),
        /// Checkpoints.
        checkpoint: CheckpointConfig = CheckpointConfig::default(),
    }
}

section! {
    /// `[env]`: the environment.
    EnvConfig {
        /// The environment's id, as `hotloop envs` lists it.
        id: String = String::new(),
        /// Scale box actions from [-1, 1] to the bounds of each dimension.
        rescale_action: bool = false,
        /// Clip rewards to [low, high]; not set: leave them. Logged returns are raw all the same.
        clip_reward: Option<[f64; 2]> = None,
        /// Replace rewards by their sign. Logged returns are raw all the same.
        sign_reward: bool = false,
        /// Show the policy the last so many observations at once; 0 for the last alone.
        frame_stack: usize = 0,
        /// Options of the environment, as `hotloop envs` lists them (env.options.NAME = VALUE).
        options: BTreeMap<String, toml::Value> = BTreeMap::new(),
        /// Environments in Python: modules to import first, separated by commas.
        import: String = String::new(),
        /// Environments in Python: keyword arguments (env.kwargs.NAME = VALUE).
        kwargs: BTreeMap<String, toml::Value> = BTreeMap::new(),
        /// Environments in Python: wrappers to go around it, from the inside: "module:Class", or
        /// { wrapper = "module:Class", NAME = VALUE } with keyword arguments.
        wrappers: Vec<toml::Value> = Vec::new(),
        /// Environments in Python: the interpreter; not set: that of $HOTLOOP_PYTHON, of the active virtual
        /// environment, of .venv here, or python3.
        python: Option<String> = None,
    }
}

section! {
    /// `[rollout]`: how experience is collected.
    RolloutSettings {
        /// Environments that run at the same time (lanes).
        envs: usize = 64,
        /// Environments that one actor steps; 0 chooses. Never changes results in lockstep.
        envs_per_actor: usize = 0,
        /// Lane groups that alternate, so that one steps while the other is inferred.
        groups: usize = 2,
        /// Steps per environment and update (T).
        horizon: usize = 32,
        /// "lockstep": a group moves as one. "first-ready": inference takes what is ready. "auto":
        /// first-ready for environments that wait each for itself, lockstep for all others.
        scheduler: Scheduler = Scheduler::Auto,
        /// Most lanes in one batch of the first-ready scheduler; 0 for half of rollout.envs.
        max_batch: usize = 0,
        /// "sync": nothing steps during an update. "overlap": the next rollout runs during the update,
        /// with weights that are exactly one version old. "async": environments, inference and learner
        /// each go at their own pace, with the newest weights there are. "auto": async for appo and
        /// impala, sync for all others.
        mode: Mode = Mode::Auto,
        /// In async mode: the most versions that may be published between the choice of an action and
        /// the update that trains on it, up to 63. Older rows are not trained on.
        max_staleness: u64 = 2,
        /// Segments of memory per group; 0 for what the mode needs (sync 1, overlap 2, async one more
        /// than max_staleness, at most 4).
        segments: usize = 0,
        /// Seconds that a step of an environment that waits may take; then it is given up and counts as
        /// failed. 0 for no limit.
        step_deadline: f64 = 0.0,
        /// The same for a reset, start-up of a simulator included.
        reset_deadline: f64 = 0.0,
        /// Seconds of rest after an environment's second failure in a row (first-ready scheduler); doubles
        /// with each further one, up to 30.
        backoff: f64 = 0.1,
        /// Seconds after which a call of an environment that does not return counts as stuck, which ends
        /// the run: such a call cannot be given up. 0 for never.
        stuck_after: f64 = 60.0,
        /// When an environment fails: "restart" rebuilds it and goes on, "fail" ends the run.
        on_fault: OnFault = OnFault::Restart,
        /// Failures in a row that an environment may have; with one more it is set aside for good. The
        /// run ends when fewer than half are left.
        max_failures_in_a_row: u32 = 10,
    }
}

section! {
    /// `[network]`: the policy and value networks.
    NetworkConfig {
        /// How images are read: "mlp" for hidden layers alone, "small-cnn", "shallow-cnn",
        /// "nature-cnn" or "impala-resnet"; "auto" for nature-cnn from 36 x 36 pixels on, and
        /// small-cnn below.
        body: Body = Body::Auto,
        /// Units of each hidden layer. Where the observation is one image, the network that reads it
        /// has a last layer of its own and these are left out.
        hidden: Vec<usize> = vec![64, 64],
        /// "tanh" or "relu".
        activation: Activation = Activation::Tanh,
        /// Whether policy and value share their hidden layers.
        shared: bool = false,
        /// A memory between body and heads: "none", "gru" or "lstm".
        recurrent: Recurrent = Recurrent::None,
        /// Units of the memory.
        recurrent_size: usize = 64,
        /// Deviation of box actions: "free" is a weight of its own, "state" an output of the network.
        log_std: LogStd = LogStd::Free,
        /// Bound box actions by tanh, scaled to their bounds, instead of clipping them.
        squash: bool = false,
        /// Use hotloop's own kernels where they apply (same maths to 1e-5); false: libtorch's autograd.
        fast: bool = true,
        /// In what numbers the policy acts: "f32", or "bf16" for less memory traffic on a GPU. Training
        /// and evaluation are in f32.
        inference_dtype: InferenceDtype = InferenceDtype::F32,
    }
}

section! {
    /// `[algo]`: the algorithm.
    AlgoConfig {
        /// "ppo", "a2c", "impala" or "appo".
        name: String = "ppo".to_string(),
        /// Passes over each batch; 0 for 4 with ppo and appo, and for the one that a2c and impala make.
        epochs: usize = 0,
        /// Parts that a batch is split into, one gradient step each.
        minibatches: usize = 4,
        /// Adam's step size.
        learning_rate: f64 = 2.5e-4,
        /// "constant", or "linear" to 0 over the run.
        learning_rate_schedule: ScheduleKind = ScheduleKind::Constant,
        /// Adam's epsilon.
        adam_eps: f64 = 1e-5,
        /// Discount per step.
        gamma: f64 = 0.99,
        /// Lambda of generalized advantage estimation and of V-trace.
        gae_lambda: f64 = 0.95,
        /// V-trace: largest weight of a row's own temporal difference.
        rho_clip: f64 = 1.0,
        /// V-trace: largest weight with which a later row's difference is carried back.
        c_clip: f64 = 1.0,
        /// V-trace: largest weight of a row in the policy gradient.
        rho_pg_clip: f64 = 1.0,
        /// Rows of one sequence that a network with a memory is trained over; 0 for the horizon.
        sequence: usize = 0,
        /// Clip range of the probability ratio.
        clip: f64 = 0.2,
        /// "constant", or "linear" to 0 over the run.
        clip_schedule: ScheduleKind = ScheduleKind::Constant,
        /// Clip range of the value's change; 0 for none.
        value_clip: f64 = 0.0,
        /// Weight of the entropy bonus.
        entropy: f64 = 0.0,
        /// "constant", or "linear" to 0 over the run.
        entropy_schedule: ScheduleKind = ScheduleKind::Constant,
        /// Weight of the value loss.
        value_coef: f64 = 0.5,
        /// Gradients are scaled down to this norm; 0 for no limit.
        max_grad_norm: f64 = 0.5,
        /// Skip the rest of an update once the approximate KL divergence passes this; 0 for never.
        target_kl: f64 = 0.0,
        /// Standardize the advantages of each minibatch.
        normalize_advantages: bool = true,
        /// Parts of a minibatch whose gradients are computed side by side and summed in order. A part of
        /// the result, so it does not follow `threads`.
        shards: usize = 2,
        /// Gradient steps in a row that may be skipped because a gradient is not finite.
        max_skipped_updates: u32 = 10,
    }
}

section! {
    /// `[normalize]`: running normalization of what the networks see.
    NormalizeConfig {
        /// Standardize observations by their running mean and deviation.
        observations: bool = false,
        /// Standardized observations are clipped to ± this.
        observation_clip: f64 = 10.0,
        /// Divide rewards by the running deviation of the discounted return.
        rewards: bool = false,
        /// Scaled rewards are clipped to ± this.
        reward_clip: f64 = 10.0,
        /// Unit in which values are learned: "none" for that of rewards, "running" for their running
        /// mean and deviation, "popart" for the same with outputs kept as these move.
        values: ValueScale = ValueScale::None,
    }
}

section! {
    /// `[eval]`: evaluation during training; keeps the `best` checkpoint beside the last.
    EvalConfig {
        /// Updates between evaluations; 0 for none.
        every: u64 = 0,
        /// Episodes of one evaluation, shared evenly by the environments.
        episodes: usize = 20,
        /// Environments that evaluation runs side by side, its own; never changes results.
        envs: usize = 10,
    }
}

section! {
    /// `[checkpoint]`: what is kept to evaluate or to go on from.
    CheckpointConfig {
        /// Updates between checkpoints, each in place of the last; 0 for one at the end only.
        every: u64 = 100,
    }
}

impl Config {
    /// The defaults, for this environment.
    #[must_use]
    pub fn new(env: impl Into<String>) -> Self {
        let mut config = Self::default();
        config.env.id = env.into();
        config
    }

    /// Every key, in the order of the reference. Keys of `env.options` and
    /// `env.kwargs` depend on the environment and are not among them.
    #[must_use]
    pub fn keys() -> Vec<Key> {
        let mut keys = Vec::new();
        for (name, about) in Self::FIELDS {
            match section_fields(name) {
                Some(fields) => keys.extend(
                    fields
                        .iter()
                        .map(|(field, about)| key(format!("{name}.{field}"), about)),
                ),
                None => keys.push(key((*name).to_string(), about)),
            }
        }
        keys
    }
}

fn key(path: String, about: &[&str]) -> Key {
    let lines: Vec<&str> = about.iter().map(|line| line.trim()).collect();
    Key {
        path,
        about: lines.join(" "),
    }
}

fn section_fields(name: &str) -> Option<Fields> {
    Some(match name {
        "env" => EnvConfig::FIELDS,
        "rollout" => RolloutSettings::FIELDS,
        "network" => NetworkConfig::FIELDS,
        "algo" => AlgoConfig::FIELDS,
        "normalize" => NormalizeConfig::FIELDS,
        "eval" => EvalConfig::FIELDS,
        "checkpoint" => CheckpointConfig::FIELDS,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_keys_is_that_of_the_types() {
        // What is not set is not written.
        let mut config = Config {
            until_return: Some(1.0),
            ..Config::default()
        };
        config.env.clip_reward = Some([-1.0, 1.0]);
        config.env.python = Some("python3".into());
        let written: toml::Table = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
        let mut flat = Vec::new();
        for (name, value) in &written {
            match value {
                toml::Value::Table(section) => {
                    flat.extend(section.keys().map(|field| format!("{name}.{field}")));
                }
                _ => flat.push(name.clone()),
            }
        }
        let mut keys: Vec<String> = Config::keys().into_iter().map(|key| key.path).collect();
        flat.sort();
        keys.sort();
        assert_eq!(keys, flat);
        assert!(Config::keys().iter().all(|key| key.about.len() > 5));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut config = Config::new("CartPole-v1");
        config.until_return = Some(475.0);
        config.env.options.insert("speed".into(), 2.into());
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
    }
}
