//! What has happened so far: counters that can be read at any time.

use crate::protocol::sync::Apart;
use hotloop_env::{Cause, Fault, FaultPhase};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counts and times since the rollout started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Valid rows of all segments handed over.
    pub env_steps: u64,
    /// Segments handed over.
    pub segments: u64,
    /// How many of them were short: cut before their last row, because their first had grown old.
    pub short_segments: u64,
    /// How long segments, one after the other, waited to be received.
    pub queued: Duration,
    /// How long groups, one after the other, had nothing to fill until they were granted a segment.
    pub ungranted: Duration,
    /// Failures of environments.
    pub faults: FaultCounts,
    /// Lanes that failed too often and are not used any more.
    pub lanes_set_aside: u64,
    /// One entry for each inference worker.
    pub workers: Vec<WorkerStatistics>,
}

/// Failures of environments, by what they were doing, and once more by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// While being built.
    pub build: u64,
    /// While being reset.
    pub reset: u64,
    /// During a step.
    pub step: u64,
    /// Those that panicked.
    pub panics: u64,
    /// Those that returned an error.
    pub errors: u64,
    /// Those that had not answered in time.
    pub deadlines: u64,
    /// Those whose numbers were NaN or infinite.
    pub not_finite: u64,
    /// Those that were lost with another that failed.
    pub lost: u64,
    /// How many of all these were not kept for [`Rollout::faults`](crate::Rollout::faults), because
    /// nobody had taken the ones before.
    pub dropped: u64,
}

impl FaultCounts {
    /// All failures.
    pub fn total(&self) -> u64 {
        self.build + self.reset + self.step
    }
}

/// What one inference worker did with its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStatistics {
    /// Inside the policy.
    pub deciding: Duration,
    /// Waiting: for environments, or for the consumer to grant segments.
    pub waiting: Duration,
    /// Stepping environments, where it does so itself.
    pub stepping: Duration,
    /// Calls of the policy.
    pub batches: u64,
    /// Lanes of all these calls.
    pub decisions: u64,
    /// The most lanes of one call.
    pub largest_batch: u64,
}

#[derive(Debug, Default)]
pub(crate) struct WorkerCounters {
    deciding_ns: AtomicU64,
    waiting_ns: AtomicU64,
    stepping_ns: AtomicU64,
    batches: AtomicU64,
    decisions: AtomicU64,
    largest_batch: AtomicU64,
}

impl WorkerCounters {
    pub(crate) fn waited(&self, time: Duration) {
        self.waiting_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn stepped(&self, time: Duration) {
        self.stepping_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn decided(&self, lanes: usize, time: Duration) {
        self.deciding_ns.fetch_add(time.as_nanos() as u64, Relaxed);
        self.batches.fetch_add(1, Relaxed);
        self.decisions.fetch_add(lanes as u64, Relaxed);
        self.largest_batch.fetch_max(lanes as u64, Relaxed);
    }

    fn read(&self) -> WorkerStatistics {
        WorkerStatistics {
            deciding: Duration::from_nanos(self.deciding_ns.load(Relaxed)),
            waiting: Duration::from_nanos(self.waiting_ns.load(Relaxed)),
            stepping: Duration::from_nanos(self.stepping_ns.load(Relaxed)),
            batches: self.batches.load(Relaxed),
            decisions: self.decisions.load(Relaxed),
            largest_batch: self.largest_batch.load(Relaxed),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Counters {
    env_steps: AtomicU64,
    segments: AtomicU64,
    short_segments: AtomicU64,
    queued_ns: AtomicU64,
    ungranted_ns: AtomicU64,
    faults: [AtomicU64; 3],
    causes: [AtomicU64; 5],
    lanes_set_aside: AtomicU64,
    faults_dropped: AtomicU64,
    pub(crate) workers: Vec<Apart<WorkerCounters>>,
}

impl Counters {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            env_steps: AtomicU64::new(0),
            segments: AtomicU64::new(0),
            short_segments: AtomicU64::new(0),
            queued_ns: AtomicU64::new(0),
            ungranted_ns: AtomicU64::new(0),
            faults: Default::default(),
            causes: Default::default(),
            lanes_set_aside: AtomicU64::new(0),
            faults_dropped: AtomicU64::new(0),
            workers: (0..workers).map(|_| Apart::default()).collect(),
        }
    }

    pub(crate) fn segment(&self, env_steps: u64, short: bool) {
        self.env_steps.fetch_add(env_steps, Relaxed);
        self.segments.fetch_add(1, Relaxed);
        self.short_segments.fetch_add(short.into(), Relaxed);
    }

    pub(crate) fn queued(&self, time: Duration) {
        self.queued_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn ungranted(&self, time: Duration) {
        self.ungranted_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn fault(&self, fault: &Fault) {
        let cause = match fault.cause {
            Cause::Panic => 0,
            Cause::Error => 1,
            Cause::Deadline => 2,
            Cause::NotFinite => 3,
            Cause::Lost => 4,
        };
        self.causes[cause].fetch_add(1, Relaxed);
        let place = match fault.phase {
            FaultPhase::Build => 0,
            FaultPhase::Reset => 1,
            FaultPhase::Step => 2,
        };
        self.faults[place].fetch_add(1, Relaxed);
    }

    /// One more lane is set aside: how many are now.
    pub(crate) fn set_aside(&self) -> usize {
        self.lanes_set_aside.fetch_add(1, Relaxed) as usize + 1
    }

    pub(crate) fn fault_dropped(&self) {
        self.faults_dropped.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> Statistics {
        let [build, reset, step] = [0, 1, 2].map(|place: usize| self.faults[place].load(Relaxed));
        let [panics, errors, deadlines, not_finite, lost] =
            [0, 1, 2, 3, 4].map(|cause: usize| self.causes[cause].load(Relaxed));
        Statistics {
            env_steps: self.env_steps.load(Relaxed),
            segments: self.segments.load(Relaxed),
            short_segments: self.short_segments.load(Relaxed),
            queued: Duration::from_nanos(self.queued_ns.load(Relaxed)),
            ungranted: Duration::from_nanos(self.ungranted_ns.load(Relaxed)),
            faults: FaultCounts {
                build,
                reset,
                step,
                panics,
                errors,
                deadlines,
                not_finite,
                lost,
                dropped: self.faults_dropped.load(Relaxed),
            },
            lanes_set_aside: self.lanes_set_aside.load(Relaxed),
            workers: self.workers.iter().map(|worker| worker.0.read()).collect(),
        }
    }
}
