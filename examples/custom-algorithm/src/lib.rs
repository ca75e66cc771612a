//! An algorithm of your own on hotloop's engine: synchronous advantage actor-critic (A2C; Mnih et al. 2016,
//! "Asynchronous methods for deep reinforcement learning", in its synchronous form).

use hotloop::TrainerBuilder;
use hotloop::algorithm::tch::{Kind, Tensor};
use hotloop::algorithm::{Algorithm, LearnError, Loss, LossContext, Outputs, Rows, gae};
use hotloop::prelude::*;

/// The coefficients of A2C.
pub struct A2c {
    /// Discount per step.
    pub gamma: f32,
    /// Lambda of the advantage estimate; 1 is the plain return.
    pub lambda: f32,
    /// Weight of the value loss.
    pub value_coef: f64,
    /// Weight of the entropy bonus.
    pub entropy_coef: f64,
}

impl Algorithm for A2c {
    fn name(&self) -> &'static str {
        "a2c"
    }

    fn statistics(&self) -> &'static [&'static str] {
        &["policy_loss", "value_loss", "entropy"]
    }

    fn estimate(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        gae(rows, self.gamma, self.lambda, advantages, targets);
    }

    fn loss(&self, cx: &LossContext<'_>, outputs: &Outputs) -> Result<Loss, LearnError> {
        let batch = cx.batch;
        let (log_probs, entropy) =
            cx.head
                .log_prob_entropy(outputs, &batch.actions, batch.masks.as_ref())?;
        // The batch may be one shard of several: a sum over the whole count makes them add up.
        let valid = batch.valid.to_kind(Kind::Float);
        let mean = |x: Tensor| (x * &valid).sum(Kind::Float) / batch.valid_count;

        let policy = mean(-(&batch.advantages * log_probs));
        let value = mean((&outputs.value - &batch.targets).square()) * 0.5;
        let entropy = mean(entropy);
        let total = &policy + &value * self.value_coef - &entropy * self.entropy_coef;
        Ok(Loss::new(total, &[&policy, &value, &entropy]))
    }
}

/// A2C's settings on CartPole: short rollouts, each used for one gradient step.
pub fn config() -> Config {
    let mut config = Config::new("CartPole-v1");
    config.steps = 200_000;
    config.rollout.envs = 16;
    config.rollout.horizon = 16;
    config.algo.epochs = 1;
    config.algo.minibatches = 1;
    config.algo.learning_rate = 3e-3;
    config
}

/// A trainer that uses A2C.
pub fn trainer(config: Config) -> TrainerBuilder {
    let mut registry = Registry::new();
    hotloop_classic::register(&mut registry);
    Trainer::builder()
        .registry(registry)
        .config(config)
        .algorithm(A2c {
            gamma: 0.99,
            lambda: 0.95,
            value_coef: 0.5,
            entropy_coef: 0.01,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a2c_learns() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let mut config = config();
        config.steps = 60_000;
        let report = trainer(config)
            .run_dir(dir.path().join("run"))
            .build()?
            .train()?;
        assert_eq!(report.algo, "a2c");
        // Chance is about 22.
        let mean = report.return_mean_100.ok_or("no episode ended")?;
        assert!(mean > 80.0, "mean return {mean}");
        Ok(())
    }
}
