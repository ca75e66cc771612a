//! What a run reports of each update.

use super::training::Training;
use hotloop_learn::{CopyCounts, UpdateStats};
use hotloop_rollout::Statistics;
use hotloop_telemetry::{Evaluation, Flow, Shares, Update};
use std::collections::BTreeMap;
use std::time::Duration;

/// Seconds that the rollout spent since the update before.
pub(super) struct Spent {
    /// Choosing actions, the mean of all inference workers.
    pub(super) inference: f64,
    /// Having nothing to fill, the mean of all groups.
    pub(super) ungranted: f64,
}

/// Seconds that the inference workers have spent choosing actions so far, on average.
pub(super) fn inferred(statistics: &Statistics) -> f64 {
    let workers = &statistics.workers;
    let all: f64 = workers.iter().map(|w| w.deciding.as_secs_f64()).sum();
    all / workers.len().max(1) as f64
}

/// A rollout of all lanes, from its grant to its last segment.
pub(super) struct Round {
    /// How long it took.
    pub(super) collected: Duration,
    /// Seconds of it that went into choosing actions.
    pub(super) inference: f64,
}

/// The shares of a round: environments step while a rollout is collected, but for inference. In overlap
/// mode the rollout began before the last update, so nothing counted since then is of it.
pub(super) fn shares_of_round(round: &Round, trained: Duration, overlap: bool) -> Shares {
    let (collected, trained) = (round.collected.as_secs_f64(), trained.as_secs_f64());
    let whole = match overlap {
        true => collected.max(trained),
        false => collected + trained,
    };
    Shares {
        env: share(collected - round.inference, whole),
        inference: share(round.inference, whole),
        learner: share(trained, whole),
    }
}

/// The shares of asynchronous training, where all three go on at once: a group's environments step
/// while it has something to fill, but for inference.
pub(super) fn shares_of_flow(whole: Duration, trained: Duration, spent: &Spent) -> Shares {
    let whole = whole.as_secs_f64();
    Shares {
        env: share(whole - spent.ungranted - spent.inference, whole),
        inference: share(spent.inference, whole),
        learner: share(trained.as_secs_f64(), whole),
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Of how old the rows of all updates were, since this process began the run.
#[derive(Default)]
pub(super) struct Flowed {
    rows: f64,
    stale: f64,
    ages: f64,
    oldest: u64,
}

impl Flowed {
    fn take(&mut self, stats: &UpdateStats) {
        self.rows += stats.rows as f64;
        self.stale += stats.stale as f64;
        self.ages += stats.staleness_mean * stats.rows as f64;
        self.oldest = self.oldest.max(stats.staleness_max);
    }

    /// The mean staleness of the rows trained on, and the most.
    pub(super) fn staleness(&self) -> (f64, u64) {
        (self.ages / self.rows.max(1.0), self.oldest)
    }

    /// The share of rows that were too old to train on.
    pub(super) fn stale_rows(&self) -> f64 {
        part(self.stale, self.rows)
    }
}

/// The share of `these` in all, which are these and those; 0 of nothing.
fn part(these: f64, those: f64) -> f64 {
    these / (these + those).max(1.0)
}

/// What a rollout counted between two moments.
struct Since<'a> {
    before: &'a Statistics,
    now: &'a Statistics,
}

impl Since<'_> {
    fn of(&self, count: impl Fn(&Statistics) -> f64) -> f64 {
        count(self.now) - count(self.before)
    }

    /// The mean of `sum` over `count`; 0 of nothing.
    fn mean(&self, sum: impl Fn(&Statistics) -> f64, count: impl Fn(&Statistics) -> f64) -> f64 {
        let count = self.of(count);
        if count > 0.0 {
            self.of(sum) / count
        } else {
            0.0
        }
    }
}

/// What a batch was copied between host and device, on average.
fn copies_per_batch(
    before: &CopyCounts,
    now: &CopyCounts,
    batches: f64,
) -> [(&'static str, f64); 4] {
    let mean = |of: fn(&CopyCounts) -> u64| (of(now) - of(before)) as f64 / batches.max(1.0);
    [
        ("uploads_per_batch", mean(|c| c.uploads)),
        ("downloads_per_batch", mean(|c| c.downloads)),
        ("uploaded_bytes_per_batch", mean(|c| c.uploaded)),
        ("downloaded_bytes_per_batch", mean(|c| c.downloaded)),
    ]
}

impl Training {
    /// Reports an update; `shares` says where its time went.
    pub(super) fn tell(
        &mut self,
        stats: UpdateStats,
        evaluation: Option<Evaluation>,
        shares: impl FnOnce(&Spent) -> Shares,
    ) {
        let now = self.rollout.statistics();
        let since = Since {
            before: &self.seen,
            now: &now,
        };
        let workers = |s: &Statistics, of: fn(&hotloop_rollout::WorkerStatistics) -> f64| {
            s.workers.iter().map(of).sum::<f64>()
        };
        let batches = |s: &Statistics| workers(s, |w| w.batches as f64);
        let decisions = |s: &Statistics| workers(s, |w| w.decisions as f64);
        let segments = |s: &Statistics| s.segments as f64;
        let spent = Spent {
            inference: since.of(inferred),
            ungranted: since.of(|s| s.ungranted.as_secs_f64()) / self.rollout.groups() as f64,
        };
        self.flowed.take(&stats);
        let flow = Flow {
            staleness_mean: stats.staleness_mean,
            staleness_max: stats.staleness_max,
            stale_rows: part(stats.stale as f64, stats.rows as f64),
            short_segments: since.mean(|s| s.short_segments as f64, segments),
            batch_mean: since.mean(decisions, batches),
            queued_s: since.mean(|s| s.queued.as_secs_f64(), segments),
            ungranted_s: since.mean(|s| s.ungranted.as_secs_f64(), segments),
            quarantined: now.lanes_set_aside,
        };
        self.progress.faults += now.faults.total() - self.seen.faults.total();
        self.progress.lost += now.faults.lost - self.seen.faults.lost;
        let mut values: BTreeMap<_, _> = stats.values.into_iter().collect();
        values.insert("epochs", stats.epochs as f64);
        values.insert("skipped", stats.skipped as f64);
        values.insert("rows", stats.rows as f64);
        let copied = self.copies.read();
        if copied != self.copied {
            values.extend(copies_per_batch(&self.copied, &copied, since.of(batches)));
            self.copied = copied;
        }
        self.reporter.update(&Update {
            update: self.learner.updates(),
            env_steps: self.progress.env_steps,
            episodes: self.progress.episodes,
            return_mean_100: self.progress.returns.mean(),
            length_mean_100: self.progress.lengths.mean(),
            faults: self.progress.faults,
            lost: self.progress.lost,
            failures: self
                .rollout
                .faults()
                .iter()
                .map(|fault| format!("{}, {fault}", self.config.env.id))
                .collect(),
            shares: shares(&spent),
            flow,
            stats: values,
            evaluation,
        });
        self.seen = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_say_what_overlapped() {
        let seconds = Duration::from_secs;
        let spent = Spent {
            inference: 1.0,
            ungranted: 2.0,
        };
        let round = Round {
            collected: seconds(4),
            inference: 1.0,
        };
        let sync = shares_of_round(&round, seconds(6), false);
        assert_eq!((sync.env, sync.inference, sync.learner), (0.3, 0.1, 0.6));
        let overlap = shares_of_round(&round, seconds(8), true);
        assert_eq!((overlap.env, overlap.inference), (0.375, 0.125));
        assert_eq!(overlap.learner, 1.0);
        let flow = shares_of_flow(seconds(10), seconds(9), &spent);
        assert_eq!((flow.env, flow.inference, flow.learner), (0.7, 0.1, 0.9));
        assert_eq!(shares_of_flow(seconds(0), seconds(0), &spent).env, 0.0);
    }
}
