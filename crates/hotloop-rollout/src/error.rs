//! What can go wrong in a rollout, and where it did.

use hotloop_env::{Fault, FaultPhase};
use std::ops::Range;
use std::time::Duration;

/// Why a policy could not decide.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(String);

impl PolicyError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// One lane and its step, or several lanes.
fn place(lanes: &Range<usize>, step: u32) -> String {
    match lanes.len() {
        1 => format!("lane {}, step {step}", lanes.start),
        _ => format!("lanes {}..{}", lanes.start, lanes.end),
    }
}

/// What is said of a call that goes on when everything else has ended.
pub(crate) fn left_behind(env: &str, lanes: &Range<usize>, step: u32, phase: FaultPhase) -> String {
    format!(
        "{env}, {}: the run has ended, and the thread of this {phase} is left behind",
        place(lanes, step)
    )
}

/// Why a rollout could not start, or ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RolloutError {
    /// A setting that cannot work.
    #[error("rollout setting `{key}` {reason}")]
    Config {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The segments do not fit into memory.
    #[error(
        "the rollout's segments need {needed} bytes of memory, but {available} are available; use fewer lanes, steps or segments"
    )]
    Memory {
        /// Bytes asked for.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// A block of environments could not be built.
    #[error("the environments of lanes {first}..{end} could not be built: {message}")]
    Build {
        /// The block's first lane.
        first: usize,
        /// One past the block's last lane.
        end: usize,
        /// The environment's message.
        message: String,
    },
    /// A failure of an environment ended the run, as [`OnFault::Fail`](crate::OnFault::Fail) says.
    #[error("{env}, {fault}")]
    Fault {
        /// The environment's name.
        env: String,
        /// The failure.
        fault: Fault,
    },
    /// So many lanes were set aside that fewer than half are left.
    #[error(
        "{left} of {lanes} environments are left, as the others failed too often; the last was {env}, {fault} (failure {} in a row)",
        fault.in_a_row
    )]
    TooFewLanes {
        /// The environment's name.
        env: String,
        /// The lanes that are left.
        left: usize,
        /// All lanes.
        lanes: usize,
        /// The failure that was one too many.
        fault: Fault,
    },
    /// A call of an environment does not return. Its thread cannot be stopped and is left behind: the
    /// memory that it can reach stays taken until the process ends, or the call returns after all.
    #[error(
        "{env}, {}: {phase} has not returned for {:.1} s and is taken to be stuck; raise `rollout.stuck_after` if it may take longer",
        place(lanes, *step), time.as_secs_f64()
    )]
    Stuck {
        /// The environment's name.
        env: String,
        /// The lane, or those of the whole block if it is not known which one.
        lanes: Range<usize>,
        /// The step of the lane's episode.
        step: u32,
        /// What it is doing.
        phase: FaultPhase,
        /// For how long it was seen to.
        time: Duration,
    },
    /// A block of environments panicked as a whole, outside any one lane.
    #[error("the block of lanes {first}..{end} panicked: {message}")]
    BlockPanic {
        /// The block's first lane.
        first: usize,
        /// One past the block's last lane.
        end: usize,
        /// The panic's message.
        message: String,
    },
    /// The policy returned an error.
    #[error("inference worker {worker}: the policy failed in group {group}, row {row}: {error}")]
    Policy {
        /// The inference worker.
        worker: usize,
        /// The group whose row was being decided (the first of the batch in first-ready mode).
        group: usize,
        /// The row.
        row: usize,
        /// The policy's error.
        error: PolicyError,
    },
    /// A thread or task of the rollout panicked.
    #[error("{who} panicked: {message}")]
    Panic {
        /// Which one.
        who: String,
        /// The panic's message.
        message: String,
    },
    /// A thread could not be started.
    #[error("a thread of the rollout could not be started: {0}")]
    Thread(String),
    /// There is no such group.
    #[error("there is no group {group}: the rollout has {groups}")]
    NoSuchGroup {
        /// The group asked for.
        group: usize,
        /// The number of groups.
        groups: usize,
    },
    /// A group was granted more segments than it has.
    #[error(
        "group {group} has no free segment: all {segments} are granted or still held by the consumer; drop one first or raise `segments_per_group`"
    )]
    NoFreeSegment {
        /// The group.
        group: usize,
        /// How many segments it has.
        segments: usize,
    },
    /// A snapshot was asked for in the middle of a segment.
    #[error(
        "no snapshot can be taken while group {group} fills a segment: receive all granted segments first"
    )]
    NotAtBoundary {
        /// A group that has work left.
        group: usize,
    },
    /// A snapshot does not fit the rollout.
    #[error("the snapshot does not fit this rollout: {0}")]
    Snapshot(String),
    /// A recorded schedule cannot be written, read or used.
    #[error("schedule {}: {reason}", path.display())]
    Schedule {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A replay cannot do what was recorded.
    #[error("the replay cannot follow its schedule: {0}")]
    Replay(String),
    /// The rollout was shut down.
    #[error("the rollout is shut down")]
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_left_behind_is_named_without_advice() {
        assert_eq!(
            left_behind("Held-v0", &(5..6), 3, FaultPhase::Step),
            "Held-v0, lane 5, step 3: the run has ended, and the thread of this step is left behind"
        );
    }
}
