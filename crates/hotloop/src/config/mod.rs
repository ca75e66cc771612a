//! The configuration of a run: typed, with a default and a doc comment for every key, put together
//! from layers (preset, then file, then flags), and checked as a whole before anything starts.
//!
//! ```
//! use hotloop::config::{Config, Layers};
//!
//! let (config, _origins) = Layers::new().preset("cartpole")?.set("algo.gamma=0.98")?.finish();
//! assert_eq!(config.env.id, "CartPole-v1");
//! assert_eq!(config.algo.gamma, 0.98);
//! # Ok::<(), hotloop::config::ConfigError>(())
//! ```

mod check;
mod choices;
mod derived;
mod environment;
mod error;
mod keys;
mod layers;
mod section;
mod show;
mod suggest;
mod what;

pub use choices::{
    Activation, Body, InferenceDtype, LogStd, Mode, OnFault, Recurrent, ScheduleKind, Scheduler,
    ValueScale,
};
pub use error::{ConfigError, Origin};
pub use keys::{
    AlgoConfig, CheckpointConfig, Config, EnvConfig, EvalConfig, NetworkConfig, NormalizeConfig,
    RolloutSettings,
};
pub use layers::{Layers, Origins};
pub use section::Key;
