//! Gymnasium's MuJoCo environments, version 5: the same models, observations, rewards, ends and rounding, on the same
//! MuJoCo.
//!
//! The crate is empty without its feature `mujoco`, which needs libmujoco 3.17.0 and the model files of Gymnasium
//! 1.4.0; `cargo xtask mujoco` takes both and tells cargo where they are. The models become part of the program;
//! libmujoco is loaded when it starts.
//!
//! Eleven environments: `Ant-v5`, `HalfCheetah-v5`, `Hopper-v5`, `Humanoid-v5`, `HumanoidStandup-v5`,
//! `InvertedDoublePendulum-v5`, `InvertedPendulum-v5`, `Pusher-v5`, `Reacher-v5`, `Swimmer-v5`, `Walker2d-v5`. Their
//! options are called as Gymnasium's keyword arguments, with the same defaults; ranges (`healthy_z_range` and its like)
//! and the model file are fixed.
//!
//! - **Observation**: one box of `float64`, as Gymnasium concatenates it.
//! - **Action**: one box of `float32` with the bounds of the model's actuators.
//! - **Randomness**: a start draws first all positions, then all velocities, in the model's order, from the lane's own
//!   numbers. Everything after that is deterministic.
//! - **Pictures**: 480 × 480, by OpenGL through EGL, on Linux; Mesa draws where there is no graphics card.
//! - **Memory**: all environments of one kind share one model; each has its own simulation.
//!
//! States and rewards are compared with Gymnasium's over 1,000 steps in `tests/golden.rs`.
//!
//! ```
//! use hotloop_env::Registry;
//!
//! let mut registry = Registry::new();
//! hotloop_mujoco::register(&mut registry);
//! let spec = registry.get("HalfCheetah-v5")?;
//! assert_eq!(spec.max_steps(), 1000);
//! let options = spec.options(&Default::default())?;
//! assert_eq!(spec.spaces(&options)?.action_space.to_string(), "Box(-1, 1, [6], float32)");
//! # Ok::<(), hotloop_env::EnvError>(())
//! ```
#![cfg(feature = "mujoco")]

mod ant;
mod body_parts;
mod cursor;
#[cfg(target_os = "linux")]
mod draw;
mod env;
mod half_cheetah;
mod health;
mod hopper;
mod humanoid;
mod humanoid_standup;
mod inverted_double_pendulum;
mod inverted_pendulum;
mod model;
mod moving;
mod pusher;
mod reacher;
mod simulation;
mod sums;
mod swimmer;
mod task;
mod walker2d;

pub use ant::Ant;
pub use cursor::Cursor;
pub use env::MuJoCo;
pub use half_cheetah::HalfCheetah;
pub use hopper::Hopper;
pub use humanoid::Humanoid;
pub use humanoid_standup::HumanoidStandup;
pub use inverted_double_pendulum::InvertedDoublePendulum;
pub use inverted_pendulum::InvertedPendulum;
pub use pusher::Pusher;
pub use reacher::Reacher;
pub use simulation::Simulation;
pub use swimmer::Swimmer;
pub use task::{Judgement, Task};
pub use walker2d::Walker2d;

use hotloop_env::Registry;

/// Adds the eleven environments under Gymnasium's ids and with Gymnasium's time limits.
pub fn register(registry: &mut Registry) {
    registry
        .add(env::spec::<Ant>())
        .add(env::spec::<HalfCheetah>())
        .add(env::spec::<Hopper>())
        .add(env::spec::<Humanoid>())
        .add(env::spec::<HumanoidStandup>())
        .add(env::spec::<InvertedDoublePendulum>())
        .add(env::spec::<InvertedPendulum>())
        .add(env::spec::<Pusher>())
        .add(env::spec::<Reacher>())
        .add(env::spec::<Swimmer>())
        .add(env::spec::<Walker2d>());
}
