//! Gymnasium's classic control environments: the same dynamics, limits, rewards and rounding.
//!
//! Every environment is checked step by step against data recorded from Gymnasium 1.x (see
//! `tests/golden.rs`). What differs is the source of random numbers: each lane has its own.
//!
//! ```
//! use hotloop_env::Registry;
//!
//! let mut registry = Registry::new();
//! hotloop_classic::register(&mut registry);
//! assert_eq!(registry.get("CartPole-v1").unwrap().max_steps(), 500);
//! ```

mod acrobot;
mod cartpole;
mod continuous_mountain_car;
mod mountain_car;
mod pendulum;
mod picture;
mod state;
mod trig;

pub use acrobot::Acrobot;
pub use cartpole::CartPole;
pub use continuous_mountain_car::ContinuousMountainCar;
pub use mountain_car::MountainCar;
pub use pendulum::Pendulum;

use hotloop_env::{EnvSpec, Registry};

/// Adds the five environments under Gymnasium's ids and with Gymnasium's time limits.
pub fn register(registry: &mut Registry) {
    registry
        .add(
            EnvSpec::new("CartPole-v1", |_| Ok(CartPole::new()))
                .about("balance a pole on a cart that is pushed left or right")
                .time_limit(500),
        )
        .add(
            EnvSpec::new("Acrobot-v1", |_| Ok(Acrobot::new()))
                .about("swing a two-link pendulum above a height by torque on its inner joint")
                .time_limit(500),
        )
        .add(
            EnvSpec::new("MountainCar-v0", |_| Ok(MountainCar::new()))
                .about("rock a weak car out of a valley with three choices of thrust")
                .time_limit(200),
        )
        .add(
            EnvSpec::new("MountainCarContinuous-v0", |_| {
                Ok(ContinuousMountainCar::new())
            })
            .about("rock a weak car out of a valley with as little thrust as possible")
            .time_limit(999),
        )
        .add(
            EnvSpec::new("Pendulum-v1", |_| Ok(Pendulum::new()))
                .about("swing a pendulum up and hold it there with limited torque")
                .time_limit(200),
        );
}
