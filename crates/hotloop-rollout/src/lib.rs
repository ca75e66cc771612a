//! Rollouts: environment actors that step concurrently, a policy that decides for whole batches in
//! place, and segments of experience for a learner. Knows no tensor library: see [`Policy`].
//!
//! Memory is taken once. A [`Segment`]'s memory travels from the free list, through the actors and the
//! inference worker that fill it, to the consumer, and back when it is dropped.
//!
//! ```
//! use hotloop_env::{EnvOptions, Registry};
//! use hotloop_rollout::{Acting, Batch, Policy, PolicyError, Rollout, RolloutConfig, RolloutError};
//!
//! /// Always the first choice.
//! struct First;
//!
//! impl Policy for First {
//!     fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
//!         let outputs = batch.outputs();
//!         outputs.actions.fill(0);
//!         outputs.log_probs.fill(0.0);
//!         outputs.values.fill(0.0);
//!         Ok(())
//!     }
//! }
//!
//! let mut registry = Registry::new();
//! hotloop_classic::register(&mut registry);
//! let (spec, options) = (registry.get("CartPole-v1").unwrap(), EnvOptions::default());
//! let rollout = Rollout::start(
//!     RolloutConfig { lanes: 8, groups: 2, steps: 32, ..Default::default() },
//!     spec.spaces(&options).unwrap(),
//!     |_first_lane, lanes| spec.make(&options, lanes),
//!     vec![Box::new(First)],
//!     None,
//! )?;
//! for version in 0..3 {
//!     for group in 0..rollout.groups() {
//!         rollout.grant(group, Acting::At(version))?;
//!     }
//!     for _ in 0..rollout.groups() {
//!         let segment = rollout.recv()?;
//!         assert_eq!((segment.lanes(), segment.rows()), (4, 32));
//!     }
//! }
//! assert_eq!(rollout.shutdown().env_steps, 3 * 8 * 32);
//! # Ok::<(), RolloutError>(())
//! ```

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
#[cfg(all(test, not(feature = "loom")))]
mod paused;
mod policy;
#[cfg(not(feature = "loom"))]
mod protocol;
#[cfg(feature = "loom")]
#[doc(hidden)]
pub mod protocol;
mod replay;
mod rollout;
mod runner;
mod schedule;
mod segment;
mod slab;
mod snapshot;
mod staging;
mod start;
mod stats;
mod ticket;
mod timing;
mod told;
mod watchdog;

pub use batch::{Batch, Outputs, Places};
pub use clip::{Bounding, Clip};
pub use config::{OnFault, RolloutConfig, Scheduler, StateColumn};
pub use error::{PolicyError, RolloutError};
pub use memory::check as check_memory;
pub use policy::Policy;
pub use rollout::Rollout;
pub use schedule::{Schedule, ScheduleFile};
pub use segment::Segment;
pub use snapshot::Snapshot;
pub use stats::{FaultCounts, Statistics, WorkerStatistics};
pub use ticket::Acting;
pub use timing::{Limits, Timing};
