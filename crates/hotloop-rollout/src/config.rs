//! The settings of a rollout, their limits, and the memory they ask for.

use crate::{Bounding, RolloutError, Schedule, memory, slab::Columns};
use hotloop_env::Spaces;
use std::ops::Range;
use std::time::Duration;

/// How decisions and steps take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// All lanes of a group step together and are inferred together, in place. With two groups or
    /// more, one steps while another is inferred. Deterministic.
    Lockstep,
    /// Every actor's block goes its own way: inference takes whichever blocks are ready, up to
    /// `max_batch` lanes at once, so that a slow environment delays only itself.
    FirstReady {
        /// The most lanes in one batch.
        max_batch: usize,
    },
}

/// What happens when an environment fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// It is rebuilt and goes on; with too many failures in a row its lane is set aside.
    Restart,
    /// The run ends.
    Fail,
}

/// Recurrent states that segments keep, so that a learner can begin sequences in their middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateColumn {
    /// The bytes of one lane's state.
    pub bytes: usize,
    /// Rows 0, `every`, 2 × `every`, … of a segment keep the state before them.
    pub every: usize,
}

/// The settings of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutConfig {
    /// The environment's name, for messages.
    pub env: String,
    /// The number of environments.
    pub lanes: usize,
    /// How many of them one actor steps.
    pub lanes_per_actor: usize,
    /// Into how many groups the lanes are split; a segment belongs to a group. For lockstep only: in
    /// first-ready mode every actor is a group of its own.
    pub groups: usize,
    /// The number of trainable rows of a segment, T.
    pub steps: usize,
    /// How many segments each group has: 1 to train while nothing steps, 2 to step meanwhile.
    pub segments_per_group: usize,
    /// How decisions and steps take turns.
    pub scheduler: Scheduler,
    /// Threads that step environments.
    pub env_threads: usize,
    /// The seed of the environments' random numbers.
    pub seed: u64,
    /// With [`OnFault::Restart`]: a lane that fails more often than this without one good step between is
    /// set aside for good. When fewer than half of all lanes are left, the run ends.
    pub max_failures_in_a_row: u32,
    /// What happens when an environment fails.
    pub on_fault: OnFault,
    /// How many versions newer than that of its first row a segment's rows must be less than: a row that
    /// would be decided with one as new as this is only evaluated, and the segment is handed over short.
    /// Matters only to segments granted with [`Acting::Newest`](crate::Acting::Newest).
    pub max_staleness: Option<u64>,
    /// The recurrent states that segments keep, if the policy has any.
    pub state: Option<StateColumn>,
    /// How box actions are kept within their bounds on the way to environments.
    pub bounding: Bounding,
    /// How long a step of an environment that waits may take, until it is given up and rebuilt; none: for
    /// ever. The deadlines are for [`AsyncEnv`](hotloop_env::AsyncEnv)s: no other call can be given up.
    pub step_deadline: Option<Duration>,
    /// The same for a reset.
    pub reset_deadline: Option<Duration>,
    /// In first-ready mode: how long an actor rests after the second failure of a lane in a row, before
    /// the lane's next turn; doubles with every further one, up to 30 s.
    pub backoff: Duration,
    /// After how long a call of an environment that has not returned is taken to be stuck, which ends the
    /// run; none: never.
    pub stuck_after: Option<Duration>,
    /// Whether the order of what happens is recorded, or replayed.
    pub schedule: Schedule,
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self {
            env: "env".into(),
            lanes: 1,
            lanes_per_actor: 1,
            groups: 1,
            steps: 64,
            segments_per_group: 1,
            scheduler: Scheduler::Lockstep,
            env_threads: 1,
            seed: 0,
            max_failures_in_a_row: 10,
            on_fault: OnFault::Restart,
            max_staleness: None,
            state: None,
            bounding: Bounding::Clip,
            step_deadline: None,
            reset_deadline: None,
            backoff: Duration::from_millis(100),
            stuck_after: Some(Duration::from_secs(60)),
            schedule: Schedule::Free,
        }
    }
}

impl RolloutConfig {
    /// The number of groups in effect: one for each actor in first-ready mode.
    pub fn effective_groups(&self) -> usize {
        match self.scheduler {
            Scheduler::Lockstep => self.groups,
            Scheduler::FirstReady { .. } => self.lanes / self.lanes_per_actor.max(1),
        }
    }

    /// The number of lanes of each group.
    pub fn lanes_per_group(&self) -> usize {
        self.lanes / self.effective_groups().max(1)
    }

    /// The lanes of each actor of a group.
    pub(crate) fn actors(&self, group: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (lanes, each) = (self.lanes_per_group(), self.lanes_per_actor);
        let first = group * lanes;
        let starts = (0..lanes).step_by(each);
        starts.map(move |start| first + start..first + (start + each).min(lanes))
    }

    /// The bytes that all segments take together.
    pub fn memory(&self, spaces: &Spaces) -> Result<usize, RolloutError> {
        self.validate()?;
        let segments = self
            .effective_groups()
            .checked_mul(self.segments_per_group)
            .ok_or_else(|| invalid("segments_per_group", "too many segments"))?;
        self.columns(spaces)?
            .bytes()
            .checked_mul(segments)
            .ok_or_else(beyond_memory)
    }

    /// As [`memory`](Self::memory), or an error if the system has less. Untouched memory is granted
    /// whether it exists or not, so it is asked about before.
    pub fn check_memory(&self, spaces: &Spaces) -> Result<usize, RolloutError> {
        let needed = self.memory(spaces)?;
        memory::check(needed)?;
        Ok(needed)
    }

    /// The shape of a segment.
    pub(crate) fn columns(&self, spaces: &Spaces) -> Result<Columns, RolloutError> {
        Columns::new(spaces, self.steps, self.lanes_per_group(), self.state)
            .ok_or_else(beyond_memory)
    }

    /// Refuses settings that cannot work.
    pub fn validate(&self) -> Result<(), RolloutError> {
        let positive = [
            ("lanes", self.lanes),
            ("lanes_per_actor", self.lanes_per_actor),
            ("groups", self.groups),
            ("steps", self.steps),
            ("segments_per_group", self.segments_per_group),
            ("env_threads", self.env_threads),
        ];
        for (key, value) in positive {
            if value == 0 {
                return Err(invalid(key, "must be at least 1"));
            }
        }
        for (key, value) in [
            ("step_deadline", self.step_deadline),
            ("reset_deadline", self.reset_deadline),
            ("stuck_after", self.stuck_after),
        ] {
            if value.is_some_and(|value| value.is_zero()) {
                return Err(invalid(
                    key,
                    "must be longer than nothing; leave it out for none",
                ));
            }
        }
        if self.segments_per_group > u16::MAX as usize {
            return Err(invalid("segments_per_group", "must be at most 65535"));
        }
        if self.max_staleness == Some(0) {
            return Err(invalid(
                "max_staleness",
                "must be at least 1; rows are trained on one version after they were chosen at best",
            ));
        }
        if self.state.is_some_and(|state| state.every == 0) {
            return Err(invalid("state.every", "must be at least 1"));
        }
        if self.steps >= u32::MAX as usize {
            return Err(invalid("steps", "must be less than 4294967295"));
        }
        match self.scheduler {
            Scheduler::Lockstep if !self.lanes.is_multiple_of(self.groups) => Err(invalid(
                "groups",
                format!(
                    "{} lanes cannot be split into {} groups of one size; use a divisor of {0}",
                    self.lanes, self.groups
                ),
            )),
            Scheduler::FirstReady { .. } if !self.lanes.is_multiple_of(self.lanes_per_actor) => {
                Err(invalid(
                    "lanes_per_actor",
                    format!(
                        "{} lanes cannot be split into blocks of {}; in first-ready mode use a divisor of {0}",
                        self.lanes, self.lanes_per_actor
                    ),
                ))
            }
            Scheduler::FirstReady { max_batch } if max_batch < self.lanes_per_actor => {
                Err(invalid(
                    "max_batch",
                    format!(
                        "is {max_batch}, but one actor's block has {} lanes and must fit into a batch",
                        self.lanes_per_actor
                    ),
                ))
            }
            _ => Ok(()),
        }
    }
}

fn beyond_memory() -> RolloutError {
    invalid(
        "steps",
        "makes segments that would not fit into any memory; use fewer steps or lanes",
    )
}

fn invalid(key: &'static str, reason: impl Into<String>) -> RolloutError {
    RolloutError::Config {
        key,
        reason: reason.into(),
    }
}
