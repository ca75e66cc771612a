//! A network of your own beneath hotloop's heads: each layer sees the observation again beside what the layers before
//! made of it (dense connections; Sinha et al. 2020, "D2RL: Deep dense architectures in reinforcement learning").

use hotloop::TrainerBuilder;
use hotloop::network::{Body, FeatureSpec, LearnError, ParamBuilder, Views, tch::Tensor};
use hotloop::prelude::*;

/// Densely connected layers.
#[derive(Debug)]
pub struct Dense {
    /// How many.
    pub layers: usize,
    /// Units of each.
    pub units: usize,
}

impl Body for Dense {
    fn build(
        &self,
        inputs: &FeatureSpec,
        params: &mut ParamBuilder<'_>,
    ) -> Result<usize, LearnError> {
        let mut width = inputs.len();
        for layer in 0..self.layers {
            params.linear(&layer.to_string(), width, self.units, 2f64.sqrt());
            width = self.units + inputs.len();
        }
        Ok(width)
    }

    fn forward(
        &self,
        _: &FeatureSpec,
        params: &Views<'_>,
        x: &Tensor,
    ) -> Result<Tensor, LearnError> {
        let mut h = x.shallow_clone();
        for layer in 0..self.layers {
            let made = params.linear(&layer.to_string(), &h)?.f_tanh()?;
            h = Tensor::f_cat(&[&made, x], 1)?;
        }
        Ok(h)
    }
}

/// The network of this crate on CartPole.
pub fn trainer(steps: u64) -> TrainerBuilder {
    let mut registry = Registry::new();
    hotloop_classic::register(&mut registry);
    let mut config = Config::new("CartPole-v1");
    config.steps = steps;
    config.rollout.envs = 16;
    config.algo.learning_rate = 2e-3;
    Trainer::builder()
        .registry(registry)
        .config(config)
        .network(Dense {
            layers: 2,
            units: 32,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_learns() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let report = trainer(40_000)
            .run_dir(dir.path().join("run"))
            .build()?
            .train()?;
        // Chance is about 22.
        let mean = report.return_mean_100.ok_or("no episode ended")?;
        assert!(mean > 80.0, "mean return {mean}");
        Ok(())
    }
}
