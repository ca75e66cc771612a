//! One update: from the segments of a rollout to the next policy version.

use crate::{
    algo::{Algorithm, Progress},
    columns::{Columns, Recall},
    error::LearnError,
    incoming::{Features, Incoming},
    memory,
    net::ActorCritic,
    normalize::{self, Normalizer, NormalizerSpec, ValueNormalization},
    optim::{Adam, AdamCounters, AdamSpec},
    params::Params,
    published::PolicyStore,
    reevaluate::{Judge, Reevaluation},
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
    /// Rows of one batch, and of what fills up its sequences, for which there is room from the start.
    pub batch: usize,
    /// How many versions older than the weights that are trained those may be that chose a row: 0 in
    /// sync mode, 1 in overlap mode. Older rows are not trained on. Where observations are normalized,
    /// no more than [`MAX_STALENESS`](crate::MAX_STALENESS).
    pub max_staleness: u64,
    /// The sequences that a network with a memory is trained over; `None` for one without.
    pub recall: Option<Recall>,
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
    /// Valid rows that were too old to be trained on.
    pub stale: usize,
    /// How many versions old the rows trained on were: their mean, 0 if there were none.
    pub staleness_mean: f64,
    /// The same: the oldest.
    pub staleness_max: u64,
    /// Passes made; fewer than configured if the target KL stopped them.
    pub epochs: usize,
    /// Optimiser steps skipped because a gradient was not finite, in the whole run.
    pub skipped: u64,
    /// The algorithm's statistics and the learner's own, by name: means over all minibatches.
    pub values: Vec<(&'static str, f64)>,
}

/// The most updates of a run, far beyond any: what comes after them can still be counted.
const MOST_UPDATES: u64 = u64::MAX / 2;

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
    features: Features,
    columns: Columns,
    reevaluation: Reevaluation,
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
        let plan = FeaturePlan::of(spaces);
        let features = plan.features();
        let normalizer = Normalizer::new(
            spec.normalize,
            features,
            spec.lanes,
            spec.gamma,
            spec.max_staleness,
        );
        Ok(Self {
            pool: GradientPool::new(spec.threads, spec.shards)?,
            params: net.init(spec.seed, device)?,
            adam: Adam::new(spec.adam, net.layout(), device),
            normalizer,
            grads: Params::zeros(Arc::clone(net.layout()), device),
            columns: Columns::new(
                features,
                &net.spec().head,
                &spaces.action,
                spec.batch,
                spec.recall,
                device,
            )?,
            features: Features::new(plan),
            reevaluation: Reevaluation::default(),
            index: vec![],
            valid: vec![],
            updates: 0,
            net: Arc::new(net),
            algorithm,
            spec,
        })
    }

    /// Whether the rows of an update are copied to be trained on, as for a GPU, on the CPU, too: for tests.
    #[must_use]
    pub fn staged(mut self, staged: bool) -> Self {
        self.columns.staged = staged;
        self
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
    /// If an arena is of another network, or no run can have made as many updates.
    pub fn restore(
        &mut self,
        updates: u64,
        params: &Params,
        adam: (&Params, &Params, AdamCounters),
        normalizer: Normalizer,
    ) -> Result<(), LearnError> {
        if updates > MOST_UPDATES {
            return Err(LearnError::Spec {
                what: "learner",
                reason: format!(
                    "{updates} updates are more than a run can make; the saved count is damaged"
                ),
            });
        }
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
        store.publish(self.updates, &self.params, &self.normalizer)
    }

    /// Takes the memory that updates will need, by a gradient that is not used. Returns the bytes that a batch will
    /// take besides, in memory that is set aside but not yet in use.
    ///
    /// # Errors
    /// If the network fails on rows that are all zero.
    pub fn rehearse(&mut self) -> Result<usize, LearnError> {
        let (rows, bytes) = self.columns.rehearsal();
        let parts = self.spec.minibatches.max(1) * self.pool.shards();
        let units = (rows.units() as usize).div_ceil(parts);
        self.pool
            .rehearse(&self.net, &self.params, &rows, units as i64)?;
        Ok(bytes)
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
        let incoming = Incoming {
            segments,
            version: self.updates,
            max_staleness: self.spec.max_staleness,
        };
        self.gather(&incoming)?;
        let batch = self.columns.batch();
        let (rows, units) = (self.columns.valid_rows(), self.columns.units());
        let names = self.algorithm.statistics();
        let mut sums = vec![0.0; names.len()];
        let (mut steps, mut epochs, mut grad_norm) = (0u32, 0, 0.0);
        let lr = self.spec.learning_rate.at(progress.update, total);

        self.index.clear();
        self.index.extend(0..units as i64);
        let mut rng = EnvRng::new(self.spec.seed, self.updates, Stream::Shuffle);
        while epochs < self.spec.epochs && units > 0 {
            shuffle(&mut self.index, &mut rng);
            let index = Tensor::from_slice(&self.index).to_device(batch.valid.device());
            let minibatches = self.spec.minibatches.min(units);
            let before = sums.clone();
            for i in 0..minibatches {
                let (start, end) = (i * units / minibatches, (i + 1) * units / minibatches);
                let (advantages, valid_count) = self.draw_advantages(start..end);
                let advantages = advantages.to_device(batch.valid.device());
                let draw = Draw {
                    rows: &batch,
                    index: &index.narrow(0, start as i64, (end - start) as i64),
                    advantages: &advantages,
                    valid_count,
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
        let valid = self.columns.valid();
        if let Some(explained) = explained_variance(predictions, targets, valid) {
            values.push(("explained_variance", explained));
        }
        values.extend([
            ("learning_rate", lr),
            ("grad_norm", mean(grad_norm)),
            ("reward_scale", self.normalizer.reward_scale()),
        ]);
        // The rows were acted on, and have been trained on, with the statistics before them.
        self.normalizer.update(&incoming, &self.features.plan);
        self.updates += 1;
        Ok(UpdateStats {
            rows,
            epochs,
            skipped: self.adam.counters().skipped,
            values,
            ..incoming.ages()
        })
    }

    /// Fills the columns, with values in the unit that the network is to learn them in.
    fn gather(&mut self, incoming: &Incoming<'_>) -> Result<(), LearnError> {
        let anew = if self.algorithm.reevaluates() {
            let judge = Judge {
                pool: self.pool.pool(),
                shards: self.pool.shards(),
                net: &self.net,
                params: &self.params,
                normalizer: &self.normalizer,
            };
            self.reevaluation
                .run(incoming, &mut self.features, &judge)?;
            Some(&self.reevaluation)
        } else {
            None
        };
        self.columns.fill(
            incoming,
            &mut self.features,
            &*self.algorithm,
            &self.normalizer,
            anew,
        );
        let Some(before) = self.normalizer.value_unit() else {
            return Ok(());
        };
        let (targets, _) = self.columns.targets_and_values();
        self.normalizer.update_values(targets, self.columns.valid());
        if let Some(unit) = self.normalizer.value_unit() {
            if self.spec.normalize.values == ValueNormalization::PopArt {
                normalize::keep_outputs(&self.params, before, unit)?;
            }
            self.columns.normalize_values(unit);
        }
        Ok(())
    }

    /// The advantages of the rows that are drawn into places `range` of the shuffled index, and how many
    /// of them are valid.
    fn draw_advantages(&mut self, range: std::ops::Range<usize>) -> (Tensor, f64) {
        let unit = self.columns.unit();
        let drawn = Tensor::zeros([(range.len() * unit) as i64], (Kind::Float, Device::Cpu));
        let (all, valid) = (self.columns.advantages(), self.columns.valid());
        // SAFETY: the tensor was made here and nobody else has it.
        let out = unsafe { memory::f32s_mut(&drawn) };
        self.valid.clear();
        if unit == 1 {
            // Without sequences all rows are valid.
            self.valid.resize(range.len(), 1);
            for (out, row) in out.iter_mut().zip(&self.index[range]) {
                *out = all[*row as usize];
            }
        } else {
            for (out, sequence) in out.chunks_exact_mut(unit).zip(&self.index[range]) {
                let rows = *sequence as usize * unit..(*sequence as usize + 1) * unit;
                out.copy_from_slice(&all[rows.clone()]);
                self.valid.extend_from_slice(&valid[rows]);
            }
        }
        if self.spec.normalize_advantages {
            normalize_advantages(out, &self.valid);
        }
        let valid = self.valid.iter().filter(|v| **v != 0).count();
        (drawn, valid as f64)
    }
}

/// Fisher and Yates' shuffle, from the end.
fn shuffle(index: &mut [i64], rng: &mut EnvRng) {
    for i in (1..index.len()).rev() {
        index.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod recall_tests;
#[cfg(test)]
mod tests;
