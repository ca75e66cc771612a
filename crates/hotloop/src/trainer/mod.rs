//! A training run: what it is put together from, how it goes, what it reports.

mod admission;
mod builder;
mod free;
mod progress;
mod rounds;
mod start;
mod tell;
mod training;

pub use builder::TrainerBuilder;
pub(crate) use progress::Progress;

use crate::account::ThreadTime;
use crate::checkpointing::Loaded;
use crate::config::Config;
use crate::{Error, StopHandle, threads};
use hotloop_env::{EnvOptions, EnvSpec, Spaces};
use hotloop_learn::{Algorithm, Learner};
use hotloop_rollout::Schedule;
use hotloop_telemetry::{RunDir, Sink};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use training::Training;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All steps were made.
    Finished,
    /// An evaluation reached `until_return`.
    ReturnReached,
    /// It was asked to stop; the checkpoint goes on from there.
    Interrupted,
}

/// What a run amounted to.
#[derive(Clone, Debug, Serialize)]
pub struct TrainReport {
    /// The run's directory.
    pub run_dir: PathBuf,
    /// The environment's id.
    pub env: String,
    /// The algorithm's name.
    pub algo: String,
    /// The seed.
    pub seed: u64,
    /// The device of the networks.
    pub device: String,
    /// Valid env steps trained on, in the whole run.
    pub env_steps: u64,
    /// Updates made, in the whole run.
    pub updates: u64,
    /// Episodes that ended, in the whole run.
    pub episodes: u64,
    /// Environment failures, in the whole run, evaluations and what was lost included.
    pub faults: u64,
    /// How many of them were no failures of their own: unfinished episodes lost with a neighbour whose process
    /// ended.
    pub lost: u64,
    /// Seconds of training, in the whole run.
    pub wall_s: f64,
    /// Env steps per second since this process began the run.
    pub steps_per_s: f64,
    /// Mean raw return of the last 100 episodes of training; `None` if none ended.
    pub return_mean_100: Option<f64>,
    /// The best evaluation during training, if there was one.
    pub best_return: Option<f64>,
    /// SHA-256 of the final weights: equal hashes, equal policies.
    pub weights_hash: String,
    /// Why it ended.
    pub ended: Ended,
    /// Versions published between the choice of an action and the update that trained on it: the mean of
    /// all rows trained on since this process began the run.
    pub staleness_mean: f64,
    /// The same: the most of any row trained on.
    pub staleness_max: u64,
    /// Share of the rows received that were too old to train on, from 0 to 1.
    pub stale_rows: f64,
    /// Share of the segments that were cut short as they grew old, from 0 to 1.
    pub short_segments: f64,
    /// Environments set aside for good, because they failed too often.
    pub lanes_set_aside: u64,
    /// What each thread did with its time, since this process began the run.
    pub threads: Vec<ThreadTime>,
}

/// A run that is ready to start. See [`Trainer::builder`].
pub struct Trainer {
    config: Config,
    spec: EnvSpec,
    options: EnvOptions,
    spaces: Spaces,
    place: Place,
    algorithm: Arc<dyn Algorithm>,
    learner: Learner,
    schedule: Schedule,
    stop: StopHandle,
    sinks: Vec<Box<dyn Sink>>,
}

/// Where a run keeps what it leaves.
enum Place {
    /// A directory that is still to be made: this one, or a new one under `runs/`.
    New(Option<PathBuf>),
    /// That of a run that goes on from what was loaded.
    Resumed(RunDir, Box<Loaded>),
}

impl Trainer {
    /// Starts to put a run together.
    pub fn builder() -> TrainerBuilder {
        TrainerBuilder::default()
    }

    /// Trains until all steps are made, the return is reached or the run is stopped, and writes the last
    /// checkpoint.
    ///
    /// # Errors
    /// If the environments, the policy or the learner fail for good; what was trained until then is
    /// saved first.
    pub fn train(self) -> Result<TrainReport, Error> {
        threads::run("hotloop-learner", move || Training::start(self)?.run())
    }
}
