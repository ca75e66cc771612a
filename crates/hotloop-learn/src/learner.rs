//! One update: from the segments of a rollout to the next policy version.

use crate::{
    algo::{Algorithm, Progress},
    columns::Columns,
    error::LearnError,
    memory,
    net::ActorCritic,
    normalize::{Normalizer, NormalizerSpec},
    optim::{Adam, AdamCounters, AdamSpec},
    params::Params,
    published::PolicyStore,
    shards::{Draw, GradientPool},
};
use hotloop_env::{EnvRng, FeaturePlan, Spaces, Stream};
use hotloop_math::{Schedule, explained_variance, normalize_advantages};
use hotloop_rollout::Segment;
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// How a learner trains; the loss is the algorithm's business.
#[derive(Clone, Debug)]
pub struct LearnerSpec {
    /// Seed of initial weights and shuffles.
    pub seed: u64,
    /// Lanes of the whole run.
    pub lanes: usize,
    /// Most rows of one batch.
    pub batch: usize,
    /// Passes over a batch.
    pub epochs: usize,
    /// Gradient steps of one pass.
    pub minibatches: usize,
    /// Into how many parts a minibatch is cut; a part of the result, see [`crate::shards`].
    pub shards: usize,
    /// Threads that work on shards; never a part of the result.
    pub threads: usize,
    /// Learning rate over the updates of a run.
    pub learning_rate: Schedule,
    /// The optimiser's settings.
    pub adam: AdamSpec,
    /// Whether advantages are normalized over each minibatch.
    pub normalize_advantages: bool,
    /// No further pass is made once the mean `approx_kl` of one is above this.
    pub target_kl: Option<f64>,
    /// Discount, for the scale of rewards.
    pub gamma: f64,
    /// What is normalized.
    pub normalize: NormalizerSpec,
}

/// What an update did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdateStats {
    /// Valid rows trained on.
    pub rows: usize,
    /// Passes made; fewer than configured if the target KL stopped them.
    pub epochs: usize,
    /// Optimiser steps skipped because a gradient was not finite, in the whole run.
    pub skipped: u64,
    /// The algorithm's statistics and the learner's own, by name: means over all minibatches.
    pub values: Vec<(&'static str, f64)>,
}

/// Weights, optimiser and statistics, and the threads that train them.
pub struct Learner {
    spec: LearnerSpec,
    net: Arc<ActorCritic>,
    algorithm: Arc<dyn Algorithm>,
    pool: GradientPool,
    params: Params,
    adam: Adam,
    normalizer: Normalizer,
    grads: Params,
    columns: Columns,
    index: Vec<i64>,
    valid: Vec<u8>,
    updates: u64,
}

impl Learner {
    /// A learner with fresh weights.
    ///
    /// # Errors
    /// If threads cannot be started or the device fails.
    pub fn new(
        spec: LearnerSpec,
        net: ActorCritic,
        algorithm: Arc<dyn Algorithm>,
        spaces: &Spaces,
        device: Device,
    ) -> Result<Self, LearnError> {
        let plan = FeaturePlan::new(&spaces.observation);
        let normalizer = Normalizer::new(spec.normalize, plan.features(), spec.lanes, spec.gamma);
        Ok(Self {
            pool: GradientPool::new(spec.threads, spec.shards)?,
            params: net.init(spec.seed, device)?,
            adam: Adam::new(spec.adam, net.layout(), device),
            normalizer,
            grads: Params::zeros(Arc::clone(net.layout()), device),
            columns: Columns::new(plan, &net.spec().head, &spaces.action, spec.batch, device),
            index: vec![],
            valid: vec![],
            updates: 0,
            net: Arc::new(net),
            algorithm,
            spec,
        })
    }

    /// The network.
    pub fn net(&self) -> &ActorCritic {
        &self.net
    }

    /// The current weights.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The current statistics.
    pub fn normalizer(&self) -> &Normalizer {
        &self.normalizer
    }

    /// The optimiser.
    pub fn adam(&self) -> &Adam {
        &self.adam
    }

    /// Goes on from saved weights, moments of the optimiser and statistics, after `updates` updates.
    ///
    /// # Errors
    /// If an arena is of another network.
    pub fn restore(
        &mut self,
        updates: u64,
        params: &Params,
        adam: (&Params, &Params, AdamCounters),
        normalizer: Normalizer,
    ) -> Result<(), LearnError> {
        self.params.copy_from(params)?;
        self.adam.restore(adam.0, adam.1, adam.2)?;
        self.normalizer = normalizer;
        self.updates = updates;
        Ok(())
    }

    /// Says what the version before this one normalized with: rows that it acted on are still to come.
    pub fn follow(&mut self, before: &Normalizer) {
        self.normalizer.follow(before);
    }

    /// Updates made: also the number of the policy version that the learner holds.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Publishes the current version.
    ///
    /// # Errors
    /// If the device fails.
    pub fn publish(&self, store: &PolicyStore) -> Result<(), LearnError> {
        store.publish(self.updates, &self.params, self.normalizer.standardizer())
    }

    /// Trains on `segments`, which must come in the same order whatever order they were filled in;
    /// then takes their valid rows into the statistics. `total` is the number of updates of the whole
    /// run.
    ///
    /// # Errors
    /// If too many gradients in a row are not finite, a shard fails, or the device does.
    pub fn update(&mut self, segments: &[Segment], total: u64) -> Result<UpdateStats, LearnError> {
        let progress = Progress {
            update: self.updates,
            total,
        };
        let batch =
            self.columns
                .fill(segments, &*self.algorithm, &self.normalizer, self.updates)?;
        let rows = self.columns.rows();
        let names = self.algorithm.statistics();
        let mut sums = vec![0.0; names.len()];
        let (mut steps, mut epochs, mut grad_norm) = (0u32, 0, 0.0);
        let lr = self.spec.learning_rate.at(progress.update, total);

        self.index.clear();
        self.index.extend(0..rows as i64);
        let mut rng = EnvRng::new(self.spec.seed, self.updates, Stream::Shuffle);
        while epochs < self.spec.epochs && rows > 0 {
            shuffle(&mut self.index, &mut rng);
            let index = Tensor::from_slice(&self.index).to_device(batch.valid.device());
            let minibatches = self.spec.minibatches.min(rows);
            let before = sums.clone();
            for i in 0..minibatches {
                let (start, end) = (i * rows / minibatches, (i + 1) * rows / minibatches);
                let advantages = self
                    .draw_advantages(start..end)
                    .to_device(batch.valid.device());
                let draw = Draw {
                    rows: &batch,
                    index: &index.narrow(0, start as i64, (end - start) as i64),
                    advantages: &advantages,
                    valid_count: (end - start) as f64,
                };
                let stats = self.pool.gradient(
                    &self.net,
                    &self.params,
                    &self.algorithm,
                    draw,
                    progress,
                    &mut self.grads,
                )?;
                let report = self.adam.step(&mut self.params, &self.grads, lr)?;
                if !report.applied {
                    tracing::warn!(
                        update = self.updates,
                        "gradient norm {} is not finite: this step is skipped",
                        report.grad_norm
                    );
                }
                sums.iter_mut()
                    .zip(&stats)
                    .for_each(|(sum, value)| *sum += value);
                grad_norm += report.grad_norm;
                steps += 1;
            }
            epochs += 1;
            if let (Some(most), Some(kl)) = (
                self.spec.target_kl,
                names.iter().position(|name| *name == "approx_kl"),
            ) && (sums[kl] - before[kl]) / minibatches as f64 > most
            {
                break;
            }
        }

        let mean = |sum: f64| sum / f64::from(steps.max(1));
        let mut values: Vec<_> = names
            .iter()
            .zip(&sums)
            .map(|(name, sum)| (*name, mean(*sum)))
            .collect();
        let (targets, predictions) = self.columns.targets_and_values();
        self.valid.resize(rows, 1);
        if let Some(explained) = explained_variance(predictions, targets, &self.valid[..rows]) {
            values.push(("explained_variance", explained));
        }
        values.extend([
            ("learning_rate", lr),
            ("grad_norm", mean(grad_norm)),
            ("reward_scale", self.normalizer.reward_scale()),
        ]);
        // The rows were acted on, and have been trained on, with the statistics before them.
        self.normalizer.update(segments, self.columns.plan());
        self.updates += 1;
        Ok(UpdateStats {
            rows,
            epochs,
            skipped: self.adam.counters().skipped,
            values,
        })
    }

    /// The advantages of the rows drawn into places `range` of the shuffled index.
    fn draw_advantages(&mut self, range: std::ops::Range<usize>) -> Tensor {
        let n = range.len();
        let drawn = Tensor::zeros([n as i64], (Kind::Float, Device::Cpu));
        let all = self.columns.advantages();
        // SAFETY: the tensor was made here and nobody else has it.
        let out = unsafe { memory::f32s_mut(&drawn) };
        for (out, row) in out.iter_mut().zip(&self.index[range]) {
            *out = all[*row as usize];
        }
        if self.spec.normalize_advantages {
            self.valid.resize(self.valid.len().max(n), 1);
            normalize_advantages(out, &self.valid[..n]);
        }
        drawn
    }
}

/// Fisher and Yates' shuffle, from the end.
fn shuffle(index: &mut [i64], rng: &mut EnvRng) {
    for i in (1..index.len()).rev() {
        index.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_21_a_shuffle_keeps_every_row_once() {
        let mut index: Vec<i64> = (0..10).collect();
        shuffle(&mut index, &mut EnvRng::new(3, 0, Stream::Shuffle));
        assert_ne!(index, (0..10).collect::<Vec<_>>());
        index.sort_unstable();
        assert_eq!(index, (0..10).collect::<Vec<_>>());
    }
}
