//! Rollouts: environment actors that step concurrently, a policy that decides for whole batches in
//! place, and segments of experience for a learner. Knows no tensor library: see [`Policy`].
//!
//! Memory is taken once. A [`Segment`]'s memory travels from the free list, through the actors and the
//! inference worker that fill it, to the consumer, and back when it is dropped.

#[cfg(panic = "abort")]
compile_error!(
    "hotloop contains failing environments by unwinding: remove `panic = \"abort\"` from the build profile"
);

mod batch;
mod clip;
mod config;
mod error;
mod first_ready;
mod hub;
mod lockstep;
mod memory;
mod policy;
#[cfg(not(feature = "loom"))]
mod protocol;
#[cfg(feature = "loom")]
#[doc(hidden)]
pub mod protocol;
mod rollout;
mod runner;
mod segment;
mod slab;
mod snapshot;
mod start;
mod stats;

pub use batch::{Batch, Outputs, Places};
pub use clip::Clip;
pub use config::{OnFault, RolloutConfig, Scheduler};
pub use error::{PolicyError, RolloutError};
pub use policy::Policy;
pub use rollout::Rollout;
pub use segment::Segment;
pub use snapshot::Snapshot;
pub use stats::{FaultCounts, Statistics, WorkerStatistics};
