//! What can go wrong inside an environment, and where it did.

use crate::SpaceError;
use std::fmt;

/// An error that an environment returns. Cheap to pass: one pointer.
#[derive(Debug)]
pub struct EnvError(Box<str>);

impl EnvError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into().into_boxed_str())
    }
}

impl fmt::Display for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EnvError {}

impl From<String> for EnvError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for EnvError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<std::io::Error> for EnvError {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<SpaceError> for EnvError {
    fn from(error: SpaceError) -> Self {
        Self::new(error.to_string())
    }
}

/// What an environment was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPhase {
    /// Building it.
    Build,
    /// `reset`, and the first observation.
    Reset,
    /// `step`, and the observation after it.
    Step,
}

impl fmt::Display for FaultPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultPhase::Build => "build",
            FaultPhase::Reset => "reset",
            FaultPhase::Step => "step",
        })
    }
}

/// Why an environment failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It panicked.
    Panic,
    /// It returned an error.
    Error,
    /// It had not answered when its time was over.
    Deadline,
    /// A reward, an observation or an action was NaN or infinite.
    NotFinite,
    /// It was lost with something that it shared with another, such as a process.
    Lost,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Panic => "panicked",
            Cause::Error => "failed",
            Cause::Deadline => "passed its deadline",
            Cause::NotFinite => "is unusable",
            Cause::Lost => "was lost",
        })
    }
}

/// A failure of one environment: which lane, when, doing what, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The lane, counted over the whole run.
    pub lane: usize,
    /// The step of the lane's episode at which it failed, from 0.
    pub step: u32,
    /// What it was doing.
    pub phase: FaultPhase,
    /// Why it failed.
    pub cause: Cause,
    /// How many times in a row this lane has failed, this time included.
    pub in_a_row: u32,
    /// What the panic or the error said, or what was wrong.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lane {}, step {}: {} {}: {}",
            self.lane, self.step, self.phase, self.cause, self.message
        )
    }
}
