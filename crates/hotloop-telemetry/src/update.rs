//! What the trainer reports, and who listens.

use crate::TelemetryError;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What is known of a run when it starts or goes on.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its directory.
    pub dir: PathBuf,
    /// The environment's id.
    pub env: String,
    /// The algorithm's name.
    pub algo: String,
    /// The seed.
    pub seed: u64,
    /// Env steps to train for.
    pub target_steps: u64,
    /// Env steps that earlier parts of the run trained on; 0 for a fresh run.
    pub done_steps: u64,
    /// Seconds that earlier parts of the run took.
    pub done_wall_s: f64,
}

/// Shares of an update's time, each from 0 to 1. Where rollout and update overlap they add up to more
/// than 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Stepping environments.
    pub env: f64,
    /// Choosing actions.
    pub inference: f64,
    /// Training.
    pub learner: f64,
}

/// How rows came from the actors to this update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Flow {
    /// Versions published between the choice of a row's action and this update: the mean of the rows
    /// trained on.
    pub staleness_mean: f64,
    /// The same, the most of any row trained on.
    pub staleness_max: u64,
    /// Share of the rows received that were too old to train on, from 0 to 1.
    pub stale_rows: f64,
    /// Share of the segments since the update before that were cut short as they grew old, from 0 to 1.
    pub short_segments: f64,
    /// Mean number of lanes in a batch of inference.
    pub batch_mean: f64,
    /// Seconds that a segment waited to be received, on average.
    pub queued_s: f64,
    /// Seconds that a group waited to be granted a segment, on average.
    pub ungranted_s: f64,
    /// Lanes set aside for good, because they failed too often.
    pub quarantined: u64,
}

/// The result of an evaluation during training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Episodes played.
    pub episodes: u64,
    /// Mean undiscounted raw return.
    pub return_mean: f64,
    /// Population standard deviation of the returns.
    pub return_std: f64,
    /// Failures of environments in this evaluation, what was lost included.
    pub faults: u64,
    /// How many of them were no failures of their own: lost with a neighbour whose process ended.
    pub lost: u64,
    /// Whether it is the best of the run so far.
    pub best: bool,
}

/// One update of the learner, as the trainer reports it. Counters are totals of the whole run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Update {
    /// Updates made, this one included.
    pub update: u64,
    /// Valid env steps trained on.
    pub env_steps: u64,
    /// Episodes that ended.
    pub episodes: u64,
    /// Mean raw return of the last 100 episodes; none before the first has ended.
    pub return_mean_100: Option<f64>,
    /// Mean length of the last 100 episodes, in env steps.
    pub length_mean_100: Option<f64>,
    /// Environment failures so far, those of evaluations and what was lost included.
    pub faults: u64,
    /// How many of them were no failures of their own: lost with a neighbour whose process ended.
    pub lost: u64,
    /// What failed in training since the update before: environment, lane, step and message. The first
    /// 1,024 if there were more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Where the time went.
    pub shares: Shares,
    /// How the rows came here.
    pub flow: Flow,
    /// The algorithm's own numbers by name: losses, the learning rate, …
    #[serde(flatten)]
    pub stats: BTreeMap<&'static str, f64>,
    /// Set when the policy was evaluated after this update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Evaluation>,
}

/// The times of an update, by the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Timing {
    /// Since this process began the run.
    #[serde(skip)]
    pub elapsed: Duration,
    /// Seconds of training in the whole run, earlier parts of a resumed one included.
    pub wall_s: f64,
    /// Env steps per second during this update.
    pub steps_per_s: f64,
}

/// Somebody who listens to a run.
///
/// Called from the trainer's thread between updates, so what takes long delays training.
pub trait Sink: Send {
    /// The run starts, or goes on after a resume.
    ///
    /// # Errors
    ///
    /// Whatever makes the sink unusable; the run does not start.
    fn start(&mut self, run: &Run) -> Result<(), TelemetryError> {
        let _ = run;
        Ok(())
    }

    /// An update has been made.
    ///
    /// # Errors
    ///
    /// Reported once as a warning; the run goes on and the sink is called again next time.
    fn update(&mut self, update: &Update, timing: &Timing) -> Result<(), TelemetryError>;

    /// The run has ended, for whatever reason.
    fn finish(&mut self) {}
}
