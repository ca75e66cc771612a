//! Any environment of [Gymnasium](https://gymnasium.farama.org), in worker processes that share memory with
//! the engine: `gymnasium:LunarLander-v3`.
//!
//! A worker is one Python process that holds the environments of one block of lanes, which it steps one after
//! the other. Actions, observations (in the engine's own layout), rewards, ends and masks lie in memory that both
//! processes see; a turn is one byte to the worker and one back. Nothing is pickled. Workers end with the
//! program, however that ends, with all that they have started.
//!
//! An environment is seeded anew for each episode, with its lane's and episode's own seed: what a lane sees
//! depends on its neighbours only if one of them takes their worker down, or if it draws from random numbers that are global
//! in Python. Episodes end as Gymnasium says: after a truncation the
//! final observation is kept, after a termination the first one of the next episode takes its place.
//!
//! ```no_run
//! use hotloop_env::Registry;
//!
//! let mut registry = Registry::new();
//! hotloop_gymnasium::register(&mut registry);
//! let spec = registry.get("gymnasium:CartPole-v1")?;
//! println!("{}", spec.spaces(&spec.options(&Default::default())?)?.observation_space);
//! # Ok::<(), hotloop_env::EnvError>(())
//! ```
#![cfg(unix)]

mod aside;
mod block;
mod group;
mod interpreter;
mod message;
mod orders;
mod output;
mod process;
mod recipe;
mod shared;
mod space;
mod worker;

pub use block::WorkerBlock;
pub use recipe::Recipe;

use hotloop_env::{EnvSpec, Registry};

/// The prefix of the family.
const PREFIX: &str = "gymnasium";

/// Adds the family `gymnasium:NAME`, where NAME is what `gymnasium.make` takes.
pub fn register(registry: &mut Registry) {
    registry.add_family(PREFIX, |name| Ok(spec(name)));
}

/// The environment that Gymnasium knows by this id.
#[must_use]
pub fn spec(name: &str) -> EnvSpec {
    let (of_block, of_spaces) = (name.to_string(), name.to_string());
    EnvSpec::asynchronous_vector(
        format!("{PREFIX}:{name}"),
        move |options, lanes| {
            let recipe = Recipe::new(&of_block, options)?;
            Ok(Box::new(WorkerBlock::new(recipe, lanes)?))
        },
        move |options| Recipe::new(&of_spaces, options)?.spaces(),
    )
    .about("an environment of Gymnasium, in worker processes")
    .option(
        "image",
        "auto",
        "where 8-bit images have their channels: chw, hwc; none for plain numbers",
    )
    .option(
        "action_mask",
        true,
        "whether choices that info[\"action_mask\"] forbids are never made",
    )
    .shaping_rewards()
    .in_python()
}
