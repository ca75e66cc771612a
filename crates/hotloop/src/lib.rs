//! hotloop's facade: what a user depends on. The typed configuration, the presets, and the names that
//! an environment needs.

mod account;
mod acting;
mod agent;
mod ask;
mod assemble;
pub mod bench;
mod checkpointing;
pub mod config;
mod error;
mod evaluate;
mod interface;
pub mod presets;
mod recall;
mod stop;
pub mod system;
mod threads;
mod trainer;

pub use account::ThreadTime;
pub use agent::{Agent, Which, run_config};
pub use error::Error;
pub use evaluate::{EvalPlan, EvalReport, View};
pub use hotloop_learn::Choice;
pub use stop::StopHandle;
pub use trainer::{Ended, TrainReport, Trainer, TrainerBuilder};

/// What an environment and a program around it need: `use hotloop::prelude::*;`.
pub mod prelude {
    pub use crate::config::{Config, Layers};
    pub use crate::{Ended, StopHandle, TrainReport, Trainer};
    pub use hotloop_env::{
        ActionView, AsyncEnv, Env, EnvError, EnvOptions, EnvRng, EnvSpec, ImageLayout,
        ObservationMut, Registry, ResetCtx, Space, Transition,
    };
}

/// What an algorithm of one's own needs; see [`TrainerBuilder::algorithm`].
pub mod algorithm {
    pub use hotloop_learn::algo::{
        A2c, Algorithm, Appo, Impala, LossContext, Minibatch, Ppo, Progress, Sequences,
    };
    pub use hotloop_learn::net::Outputs;
    pub use hotloop_learn::objective::Loss;
    pub use hotloop_learn::{HeadSpec, LearnError, tch};
    pub use hotloop_math::{Rows, Schedule, VTrace, gae, n_step, vtrace};
}

/// What a network of one's own needs; see [`TrainerBuilder::network`].
pub mod network {
    pub use hotloop_env::{FeatureKind, FeatureLeaf, FeatureSpec};
    pub use hotloop_learn::net::{
        Activation, Body, Encoder, ImageNet, Init, Mlp, ParamBuilder, Views,
    };
    pub use hotloop_learn::{LearnError, tch};
}

/// Environments: the traits, spaces, wrappers and the registry.
pub use hotloop_env as env;
