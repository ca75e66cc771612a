//! Environments for hotloop: the trait a user implements, spaces, wrappers, per-lane randomness
//! and the registry. No torch and no async runtime, so an environment crate builds in seconds.
//!
//! ```
//! use hotloop_env::{ActionView, Env, EnvError, EnvRng, ObservationMut, ResetCtx, Space, Transition};
//!
//! /// Walk right from 0 to `goal`; every step costs 1.
//! struct Corridor { at: i64, goal: i64 }
//!
//! impl Env for Corridor {
//!     fn observation_space(&self) -> Space { Space::boxed(0.0, self.goal as f64, &[1]) }
//!     fn action_space(&self) -> Space { Space::discrete(2) }
//!     fn reset(&mut self, _ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
//!         self.at = 0;
//!         Ok(())
//!     }
//!     fn step(&mut self, action: ActionView<'_>, _rng: &mut EnvRng) -> Result<Transition, EnvError> {
//!         self.at = (self.at + if action.discrete() == 1 { 1 } else { -1 }).max(0);
//!         Ok(if self.at == self.goal { Transition::terminated(-1.0) } else { Transition::running(-1.0) })
//!     }
//!     fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
//!         out.write(&[self.at as f32])
//!     }
//! }
//! ```

mod action;
mod async_copies;
mod async_env;
mod async_lane;
mod block;
mod board;
mod canvas;
mod contain;
mod copies;
mod dtype;
mod env;
mod error;
mod feature_spec;
mod features;
mod finite;
mod frame;
mod lanes;
mod layout;
mod observation;
mod options;
mod registry;
mod rng;
mod rows;
mod space;
mod spec;
mod stack;
mod state;
mod transition;
mod whereabouts;
pub mod wrappers;
mod wrapping;

pub use action::{ActionBuf, ActionLeaf, ActionView};
pub use async_copies::AsyncCopies;
pub use async_env::{AsyncEnv, AsyncVectorEnv};
pub use block::Block;
pub use board::Board;
pub use canvas::Canvas;
pub use contain::panic_message;
pub use copies::Copies;
pub use dtype::{DType, Element};
pub use env::{Env, ResetCtx, VectorEnv};
pub use error::{Cause, EnvError, Fault, FaultPhase};
pub use feature_spec::{FeatureKind, FeatureLeaf, FeatureSpec};
pub use features::FeaturePlan;
pub use frame::Frame;
pub use lanes::{LaneStates, LaneTotals};
pub use layout::{Layout, Leaf, LeafId, LeafKind, Spaces};
pub use observation::{LeafMut, ObservationBuf, ObservationMut};
pub use options::{EnvOptions, OptionValue, PythonOptions};
pub use registry::Registry;
pub use rng::{EnvRng, Philox, Script, Stream};
pub use rows::{Rows, RowsParts, Turn, end_flags};
pub use space::{
    Bound, BoxSpace, Discrete, ImageLayout, MultiBinary, MultiDiscrete, Space, SpaceError, rescale,
};
pub use spec::EnvSpec;
pub use stack::Stacks;
pub use state::{StateReader, StateWriter};
pub use transition::{End, Transition};
pub use whereabouts::{Beacons, Whereabouts};
pub use wrapping::Wrapping;
