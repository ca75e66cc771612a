//! Which configurations can run: ranges, and what has to fit together. Checked before anything starts.

use super::choices::{Body, InferenceDtype, Recurrent, Scheduler};
use super::error::ConfigError;
use super::keys::{Config, RolloutSettings};
use super::layers::Origins;
use hotloop_env::{EnvSpec, Registry};
use hotloop_learn::MAX_STALENESS;

/// Algorithms that come with hotloop.
const ALGORITHMS: &[&str] = &["ppo", "a2c", "impala", "appo"];

/// The largest whole number that TOML holds.
const MAX_SEED: u64 = i64::MAX as u64;

/// What is wrong with a key.
enum Problem {
    /// Its value cannot be, whatever the others are: what is expected.
    Range(String),
    /// It does not fit the others: with what, and what to do.
    Conflict(String),
}

type Check = Result<(), (&'static str, Problem)>;

impl Config {
    /// Checks every range and everything that has to fit together, the environment included.
    /// `origins` (see [`Layers::finish`](super::Layers::finish)) say in messages where a value came
    /// from.
    ///
    /// # Errors
    ///
    /// The first thing found wrong: key, value, origin, and what is possible.
    pub fn validate(&self, registry: &Registry, origins: &Origins) -> Result<(), ConfigError> {
        let (spec, _) = self.env.resolve(registry, origins)?;
        let settled = self.settled(&spec);
        let checks = [
            self.check_run(),
            self.check_env(),
            self.check_rollout(),
            self.check_waiting(&spec),
            self.check_network(),
            self.check_algo(),
            self.check_vtrace(),
            self.check_rest(),
            settled.check_fit(),
        ];
        for check in checks {
            check.map_err(|(key, problem)| self.explain(key, problem, origins))?;
        }
        Ok(())
    }

    fn check_run(&self) -> Check {
        range("steps", self.steps >= 1, "1 or more")?;
        range(
            "seed",
            self.seed <= MAX_SEED,
            &format!("at most {MAX_SEED}, the largest whole number of TOML"),
        )?;
        range(
            "threads",
            self.threads <= 4096,
            "0 (all that the process is allowed) to 4096",
        )?;
        range(
            "device",
            !self.device.is_empty(),
            "\"cpu\", \"cuda\" or \"cuda:N\"",
        )?;
        range(
            "until_return",
            self.until_return.is_none_or(f64::is_finite),
            "a finite number",
        )
    }

    fn check_env(&self) -> Check {
        // An infinite side is no limit, but a reward clipped to infinity would be none.
        let ordered =
            |[low, high]: [f64; 2]| low <= high && low < f64::INFINITY && high > f64::NEG_INFINITY;
        range(
            "env.clip_reward",
            self.env.clip_reward.is_none_or(ordered),
            "[low, high] with low no more than high, and a finite reward between",
        )?;
        range("env.frame_stack", self.env.frame_stack <= 1024, "0 to 1024")
    }

    fn check_rollout(&self) -> Check {
        let rollout = &self.rollout;
        let lanes = 1..=1 << 24;
        range(
            "rollout.envs",
            lanes.contains(&rollout.envs),
            "1 to 16777216",
        )?;
        range("rollout.groups", rollout.groups >= 1, "1 or more")?;
        range(
            "rollout.horizon",
            (1..=1 << 20).contains(&rollout.horizon),
            "1 to 1048576",
        )?;
        range(
            "rollout.segments",
            rollout.segments <= 65_535,
            "0 (what the mode needs) to 65535",
        )?;
        range(
            "rollout.max_failures_in_a_row",
            rollout.max_failures_in_a_row >= 1,
            "1 or more",
        )
    }

    fn check_waiting(&self, spec: &EnvSpec) -> Check {
        let rollout = &self.rollout;
        range(
            "rollout.max_staleness",
            (1..=MAX_STALENESS).contains(&rollout.max_staleness),
            &format!("1 to {MAX_STALENESS}"),
        )?;
        for (key, seconds) in [
            ("rollout.step_deadline", rollout.step_deadline),
            ("rollout.reset_deadline", rollout.reset_deadline),
            ("rollout.stuck_after", rollout.stuck_after),
        ] {
            let expected = "0 (no limit) to 1000000 seconds";
            range(key, (0.0..=1e6).contains(&seconds), expected)?;
            let given_up = key != "rollout.stuck_after";
            conflict(key, given_up && seconds > 0.0 && !spec.waits(), || {
                format!(
                    "{} waits for nothing, so that a call of it cannot be given up; set it to 0 \
                     (rollout.stuck_after watches for calls that do not return)",
                    spec.id()
                )
            })?;
        }
        range(
            "rollout.backoff",
            (0.0..=30.0).contains(&rollout.backoff),
            "0 to 30 seconds",
        )
    }

    fn check_network(&self) -> Check {
        let hidden = &self.network.hidden;
        conflict(
            "network.inference_dtype",
            self.network.inference_dtype != InferenceDtype::F32
                && self.network.recurrent != Recurrent::None,
            || "a recurrent network acts in f32 only; set network.inference_dtype = \"f32\"".into(),
        )?;
        range(
            "network.hidden",
            hidden.iter().all(|units| (1..=1 << 16).contains(units)),
            "layers of 1 to 65536 units",
        )?;
        range(
            "network.recurrent_size",
            (1..=1 << 16).contains(&self.network.recurrent_size),
            "1 to 65536",
        )?;
        conflict(
            "network.shared",
            self.network.shared
                && hidden.is_empty()
                && matches!(self.network.body, Body::Auto | Body::Mlp)
                && self.network.recurrent == Recurrent::None,
            || {
                "there is no hidden layer to share; set network.hidden, or network.shared to false"
                    .into()
            },
        )
    }

    fn check_algo(&self) -> Check {
        let algo = &self.algo;
        let unit = 0.0..=1.0;
        range(
            "algo.name",
            ALGORITHMS.contains(&algo.name.as_str()),
            &format!("one of: {}", ALGORITHMS.join(", ")),
        )?;
        let one_pass = matches!(algo.name.as_str(), "a2c" | "impala");
        conflict("algo.epochs", one_pass && algo.epochs > 1, || {
            format!(
                "{} makes one pass over a batch, as nothing in its gradient makes up for weights that \
                 have moved since; set algo.epochs=1",
                algo.name
            )
        })?;
        range("algo.minibatches", algo.minibatches >= 1, "1 or more")?;
        range("algo.shards", (1..=256).contains(&algo.shards), "1 to 256")?;
        range("algo.gamma", unit.contains(&algo.gamma), "0 to 1")?;
        range("algo.gae_lambda", unit.contains(&algo.gae_lambda), "0 to 1")?;
        range(
            "algo.learning_rate",
            positive(algo.learning_rate),
            "more than 0",
        )?;
        range("algo.adam_eps", positive(algo.adam_eps), "more than 0")?;
        range("algo.clip", positive(algo.clip), "more than 0")?;
        range(
            "algo.value_clip",
            not_negative(algo.value_clip),
            "0 (off) or more",
        )?;
        range("algo.entropy", not_negative(algo.entropy), "0 or more")?;
        range(
            "algo.value_coef",
            not_negative(algo.value_coef),
            "0 or more",
        )?;
        range(
            "algo.max_grad_norm",
            not_negative(algo.max_grad_norm),
            "0 (no limit) or more",
        )?;
        range(
            "algo.target_kl",
            not_negative(algo.target_kl),
            "0 (off) or more",
        )
    }

    fn check_vtrace(&self) -> Check {
        let algo = &self.algo;
        range("algo.rho_clip", positive(algo.rho_clip), "more than 0")?;
        range("algo.c_clip", positive(algo.c_clip), "more than 0")?;
        range(
            "algo.rho_pg_clip",
            positive(algo.rho_pg_clip),
            "more than 0",
        )?;
        range(
            "algo.sequence",
            algo.sequence <= 1 << 20,
            "0 (the horizon) to 1048576",
        )?;
        let forgets = self.network.recurrent == Recurrent::None;
        conflict("algo.sequence", algo.sequence > 0 && forgets, || {
            "only a network that remembers is trained over sequences; set network.recurrent, or \
             algo.sequence to 0"
                .into()
        })?;
        conflict(
            "algo.sequence",
            self.sequence() > self.rollout.horizon,
            || {
                format!(
                    "is longer than rollout.horizon = {}; sequences lie within one rollout",
                    self.rollout.horizon
                )
            },
        )
    }

    fn check_rest(&self) -> Check {
        let (normalize, eval) = (&self.normalize, &self.eval);
        range(
            "normalize.observation_clip",
            positive_single(normalize.observation_clip),
            SINGLE,
        )?;
        range(
            "normalize.reward_clip",
            positive_single(normalize.reward_clip),
            SINGLE,
        )?;
        range(
            "eval.episodes",
            (1..=1_000_000).contains(&eval.episodes),
            "1 to 1000000",
        )?;
        range("eval.envs", eval.envs >= 1, "1 or more")?;
        conflict(
            "until_return",
            self.until_return.is_some() && eval.every == 0,
            || {
                "it is compared with evaluations during training, which are off; \
                 set eval.every, as in --set eval.every=10"
                    .into()
            },
        )
    }

    fn check_fit(&self) -> Check {
        self.rollout.check_lanes()?;
        self.rollout.check_segments()?;
        let (batch, parts) = (self.batch(), self.algo.minibatches);
        conflict("algo.minibatches", !batch.is_multiple_of(parts), || {
            format!(
                "it does not divide the batch of {batch} rows (rollout.envs = {} times \
                 rollout.horizon = {}); {} does",
                self.rollout.envs,
                self.rollout.horizon,
                divisor(batch, parts)
            )
        })?;
        conflict("algo.shards", batch / parts < self.algo.shards, || {
            format!(
                "a minibatch has only {} rows; take at most as many shards as rows",
                batch / parts
            )
        })
    }

    fn explain(&self, key: &str, problem: Problem, origins: &Origins) -> ConfigError {
        let value = self
            .value(key)
            .map_or("(not set)".to_string(), |v| v.to_string());
        let (key, origin) = (key.to_string(), origins.of(key));
        match problem {
            Problem::Range(expected) => ConfigError::BadValue {
                key,
                value,
                origin,
                expected,
            },
            Problem::Conflict(reason) => ConfigError::Conflict {
                key,
                value,
                origin,
                reason,
            },
        }
    }
}

impl RolloutSettings {
    fn check_lanes(&self) -> Check {
        conflict(
            "rollout.groups",
            !self.envs.is_multiple_of(self.groups),
            || {
                format!(
                    "it does not divide rollout.envs = {}; {} does",
                    self.envs,
                    divisor(self.envs, self.groups)
                )
            },
        )?;
        let (lanes, each) = (self.lanes_per_group(), self.lanes_per_actor());
        conflict(
            "rollout.envs_per_actor",
            !lanes.is_multiple_of(each),
            || {
                format!(
                    "it does not divide the {lanes} environments of a group (rollout.envs = {} in \
                 rollout.groups = {}); {} does",
                    self.envs,
                    self.groups,
                    divisor(lanes, each)
                )
            },
        )?;
        let first_ready = self.scheduler == Scheduler::FirstReady;
        conflict(
            "rollout.max_batch",
            first_ready && self.batch_limit() < each,
            || format!("an actor alone brings {each} environments; take that or more"),
        )
    }

    fn check_segments(&self) -> Check {
        let needed = self.segments_needed();
        conflict(
            "rollout.segments",
            self.segments_per_group() < needed,
            || {
                format!(
                    "in this mode one segment of a group is filled while another is trained on, so the \
                     run would wait for ever; take {needed} or more, or 0 to let hotloop choose"
                )
            },
        )
    }
}

fn range(key: &'static str, holds: bool, expected: &str) -> Check {
    if holds {
        Ok(())
    } else {
        Err((key, Problem::Range(expected.to_string())))
    }
}

fn conflict(key: &'static str, is: bool, reason: impl FnOnce() -> String) -> Check {
    if is {
        Err((key, Problem::Conflict(reason())))
    } else {
        Ok(())
    }
}

/// NaN and infinity are neither.
fn positive(x: f64) -> bool {
    x.is_finite() && x > 0.0
}

/// What [`positive_single`] asks for.
const SINGLE: &str = "more than 0, as a 32-bit float";

/// Of a number that is used in single precision, where the smallest become 0 and the largest infinite.
fn positive_single(x: f64) -> bool {
    positive(f64::from(x as f32))
}

fn not_negative(x: f64) -> bool {
    x.is_finite() && x >= 0.0
}

/// The divisor of `n` nearest to `wish`; the smaller of two.
fn divisor(n: usize, wish: usize) -> usize {
    (1..=wish.min(n))
        .rev()
        .find(|d| n.is_multiple_of(*d))
        .into_iter()
        .chain((wish..=wish.saturating_mul(2).min(n)).find(|d| n.is_multiple_of(*d)))
        .min_by_key(|d| d.abs_diff(wish))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests;
