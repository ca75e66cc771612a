//! Recorded schedules: what an asynchronous rollout did that depends on who was faster, written to a
//! file, and the same done again from that file.
//!
//! Everything else follows from the seed: environments and actions draw from numbers of their own lane.
//! So a replay with the same policy, learner and environments gives the same bytes.
//!
//! # What is recorded
//!
//! | event | by | in a replay |
//! |---|---|---|
//! | a batch: its groups in order, the version, whether it ends their segments | the worker, as it takes it | workers take the batches in this order, and wait for exactly those groups |
//! | a check: a hash of what the batch saw | the worker | compared: the first difference ends the replay |
//! | a lane given up at a deadline: its turn and what it was doing | the actor | given up at once; no deadline is waited for |
//! | a segment received, by group | the consumer | segments are received in this order |
//! | a version published | the consumer | waits until all batches before it are decided; batches after it wait for it |
//! | a grant refused: its group, and how many it was granted before | the consumer | refused |
//!
//! The events of all threads stand in one file in an order in which they may have happened one after the
//! other: a worker asks for the newest version and adds its batch under one lock, and the consumer
//! publishes and says so under the same ([`Rollout::publish`](crate::Rollout::publish)). Hence a replay
//! that does them in this order can always go on.
//!
//! # The file
//!
//! A line `hotloop schedule 1`, the settings that a replay must share (their number, then keys and values,
//! each a length and UTF-8 text), then events: a byte for the kind and unsigned LEB128 numbers. A file
//! that ends in the middle of an event, because its process died, is good up to there.

mod event;
mod player;
mod recorder;

pub(crate) use event::Event;
pub(crate) use player::{LOOK, Player};
pub(crate) use recorder::Recorder;

use crate::batch::Batch;
use crate::{RolloutConfig, RolloutError};
use hotloop_env::{FaultPhase, Spaces};
use std::path::PathBuf;

/// Where a schedule is kept, and what must be the same when it is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleFile {
    /// The file. A recording replaces it.
    pub path: PathBuf,
    /// Settings, beside the rollout's own, on which the run depends: keys and values. A replay with
    /// others is refused by name.
    pub settings: Vec<(String, String)>,
}

/// Whether what depends on who is faster is written down, or done as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Neither: the fastest is served first.
    #[default]
    Free,
    /// It is recorded.
    Record(ScheduleFile),
    /// It is done again.
    Replay(ScheduleFile),
}

/// A running rollout's schedule.
pub(crate) enum Course {
    Free,
    Recording(Recorder),
    Following(Player),
}

impl Course {
    /// Opens the file of the configuration, if there is one. `workers` and the spaces are settings, too;
    /// `resumed` says whether the rollout begins at a snapshot.
    pub(crate) fn open(
        config: &RolloutConfig,
        spaces: &Spaces,
        workers: usize,
        resumed: bool,
    ) -> Result<Self, RolloutError> {
        let settings = |file: &ScheduleFile| {
            let mut all = own_settings(config, spaces, workers, resumed);
            all.extend(file.settings.iter().cloned());
            all
        };
        Ok(match &config.schedule {
            Schedule::Free => Self::Free,
            Schedule::Record(file) => {
                Self::Recording(Recorder::create(&file.path, &settings(file))?)
            }
            Schedule::Replay(file) => Self::Following(Player::open(
                &file.path,
                &settings(file),
                config.effective_groups(),
            )?),
        })
    }

    /// Records what batch `number` sees, or compares it with what the recorded one saw.
    pub(crate) fn check(&self, number: u64, batch: &Batch<'_>) -> Result<(), RolloutError> {
        match self {
            Self::Free => Ok(()),
            Self::Recording(recorder) => recorder.lock().add(&Event::Check {
                batch: number,
                hash: hash(batch),
            }),
            Self::Following(player) => player.check(number, hash(batch), batch),
        }
    }

    /// A batch has been decided, and what it filled was handed over: a consumer that still waits finds it.
    pub(crate) fn decided(&self) {
        if let Self::Following(player) = self {
            player.decided();
        }
    }

    /// Records that `lane` was given up in turn `turn` of its block.
    pub(crate) fn gave_up(
        &self,
        lane: usize,
        turn: u64,
        phase: FaultPhase,
    ) -> Result<(), RolloutError> {
        match self {
            Self::Recording(recorder) => recorder.lock().add(&Event::GaveUp {
                lane: lane as u64,
                turn,
                resetting: phase == FaultPhase::Reset,
            }),
            _ => Ok(()),
        }
    }
}

/// The rollout's own settings on which its schedule depends.
fn own_settings(
    config: &RolloutConfig,
    spaces: &Spaces,
    workers: usize,
    resumed: bool,
) -> Vec<(String, String)> {
    let all: [(&str, String); 15] = [
        ("env", config.env.clone()),
        ("observations", spaces.observation.describe()),
        ("stack", spaces.stack.to_string()),
        ("actions", spaces.action.describe()),
        ("lanes", config.lanes.to_string()),
        ("lanes_per_actor", config.lanes_per_actor.to_string()),
        ("groups", config.effective_groups().to_string()),
        ("steps", config.steps.to_string()),
        ("segments_per_group", config.segments_per_group.to_string()),
        ("scheduler", format!("{:?}", config.scheduler)),
        ("seed", config.seed.to_string()),
        ("bounding", format!("{:?}", config.bounding)),
        ("state", format!("{:?}", config.state)),
        // As whoever starts the run calls it: there are as many as threads, but no more than groups.
        (
            "workers, a number that follows from --threads,",
            workers.to_string(),
        ),
        ("resumed", resumed.to_string()),
    ];
    all.into_iter()
        .map(|(key, value)| (format!("rollout.{key}"), value))
        .collect()
}

/// A hash of everything that the policy sees of a batch but its version.
fn hash(batch: &Batch<'_>) -> u64 {
    // Of frames that are seen at once, those before the last were the last of batches before.
    let frames = batch.observations();
    let columns = [frames, batch.masks, batch.valid, batch.starts];
    let mut hash = 0x9e37_79b9_7f4a_7c15;
    let mut mix = |word: u64| {
        hash = (hash ^ word)
            .wrapping_mul(0xff51_afd7_ed55_8ccd)
            .rotate_left(31);
    };
    for column in columns {
        mix(column.len() as u64);
        let mut words = column.chunks_exact(8);
        for word in &mut words {
            mix(word
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u64::from(*byte)));
        }
        words
            .remainder()
            .iter()
            .for_each(|byte| mix(u64::from(*byte)));
    }
    hash
}
