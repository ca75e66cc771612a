//! What a run reports of each update.

use super::training::Training;
use crate::config::Mode;
use hotloop_learn::UpdateStats;
use hotloop_rollout::Statistics;
use hotloop_telemetry::{Evaluation, Shares, Update};
use std::time::Duration;

impl Training {
    pub(super) fn tell(
        &mut self,
        stats: UpdateStats,
        evaluation: Option<Evaluation>,
        collected: Duration,
        trained: Duration,
    ) {
        let statistics = self.rollout.statistics();
        let workers = statistics.workers.len().max(1) as f64;
        let deciding = |s: &Statistics| {
            s.workers
                .iter()
                .map(|w| w.deciding.as_secs_f64())
                .sum::<f64>()
        };
        let decided = (deciding(&statistics) - deciding(&self.seen)) / workers;
        self.progress.faults += statistics.faults.total() - self.seen.faults.total();
        self.seen = statistics;
        let overlapped = self.config.rollout.mode == Mode::Overlap;
        let (collected, trained) = (collected.as_secs_f64(), trained.as_secs_f64());
        let whole = if overlapped {
            collected.max(trained)
        } else {
            collected + trained
        };
        let share = |part: f64| {
            if whole > 0.0 {
                (part / whole).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        let mut values: std::collections::BTreeMap<_, _> = stats.values.into_iter().collect();
        values.insert("epochs", stats.epochs as f64);
        values.insert("skipped", stats.skipped as f64);
        values.insert("rows", stats.rows as f64);
        self.reporter.update(&Update {
            update: self.learner.updates(),
            env_steps: self.progress.env_steps,
            episodes: self.progress.episodes,
            return_mean_100: self.progress.returns.mean(),
            length_mean_100: self.progress.lengths.mean(),
            faults: self.progress.faults,
            failures: self
                .rollout
                .faults()
                .iter()
                .map(|fault| format!("{}, {fault}", self.config.env.id))
                .collect(),
            shares: Shares {
                env: share(collected - decided),
                inference: share(decided),
                learner: share(trained),
            },
            stats: values,
            evaluation,
        });
    }
}
