//! Environments that need a memory: what has to be known is not in the observation when it is needed.
//!
//! ```
//! use hotloop_env::Registry;
//!
//! let mut registry = Registry::new();
//! hotloop_memory::register(&mut registry);
//! assert_eq!(registry.get("CartPoleHidden-v1").unwrap().max_steps(), 500);
//! assert!(registry.get("TMaze-v0").is_ok());
//! ```

mod cartpole_hidden;
mod t_maze;

pub use cartpole_hidden::CartPoleHidden;
pub use t_maze::TMaze;

use hotloop_env::{EnvSpec, Registry};

/// Adds the environments of this crate.
pub fn register(registry: &mut Registry) {
    registry
        .add(
            EnvSpec::new("TMaze-v0", |options| TMaze::new(options.int("length")))
                .about("remember a sign through a corridor and turn to the side that it named")
                .option("length", 20, "steps from the sign to the junction"),
        )
        .add(
            EnvSpec::new("CartPoleHidden-v1", |_| Ok(CartPoleHidden::new()))
                .about("balance a pole on a cart whose velocities are not observed")
                .time_limit(500),
        );
}
