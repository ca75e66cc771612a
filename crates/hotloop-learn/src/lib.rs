//! Networks, action distributions, learners and checkpoints on libtorch.
//!
//! Everything that touches libtorch lives here: no other crate below this one names a tensor. The
//! pieces, from the inside out: [`kernels`] on host memory; [`params`], one flat arena per network;
//! [`net`], the actor-critic network and its gradient; [`dist`], action distributions;
//! [`algo`], losses; [`optim`], Adam; [`shards`], gradients on several threads; [`checkpoint`],
//! weights and state on disk; [`device`], where tensors live.

pub mod actor;
pub mod algo;
pub mod checkpoint;
mod columns;
pub mod device;
pub mod dist;
mod error;
mod evaluate;
mod incoming;
pub mod init;
pub mod kernels;
pub mod learner;
mod memory;
pub mod net;
pub mod normalize;
pub mod objective;
pub mod optim;
pub mod params;
pub mod policy;
mod pool;
pub mod published;
mod reevaluate;
pub mod shards;
pub mod state;
mod stream;
pub mod transfer;

pub use actor::{Actor, BoxHead, head_of};
pub use algo::{A2c, Algorithm, Appo, Impala, Ppo};
pub use columns::Recall;
pub use dist::{Choice, Deviation, HeadPart, HeadSpec};
pub use error::LearnError;
pub use learner::{Learner, LearnerSpec, UpdateStats};
pub use net::{ActorCritic, Body, MlpSpec, NetworkSpec};
pub use normalize::{MAX_STALENESS, Normalizer, NormalizerSpec, ValueNormalization};
pub use optim::{AdamCounters, AdamSpec};
pub use params::Params;
pub use policy::{ActorPolicy, Precision};
pub use published::PolicyStore;
pub use state::StateStore;
pub use transfer::{CopyCounters, CopyCounts, Transfer};

/// The tensors of public signatures, at the version that hotloop is built with.
pub use tch;
