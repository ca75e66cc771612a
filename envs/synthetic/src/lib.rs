//! Environments of a given cost, to find out how a simulator of that kind would do before there is one:
//! busy for so many microseconds, asleep for so many milliseconds, heavy-tailed, failing, hanging.
//!
//! | id | a step |
//! |---|---|
//! | `Synthetic/Busy-v0` | keeps a core busy |
//! | `Synthetic/Wait-v0` | waits without a thread, as for a server's answer; on tokio's clock, in whole milliseconds |
//!
//! Both have the same task. Element `j` of the observation is the number of steps made in the episode plus
//! `j`, or with the option `pixels` all bytes of an image's channel `j` are, modulo 256; there are `actions` actions from 0 on, and the reward is the action. An episode terminates after
//! `length` steps, so that the best return is `length * (actions - 1)`.
//!
//! A time is drawn by the lane's own random numbers, from the distribution that `latency` names:
//! `constant` (always `time`), `uniform` (from `low` to `high`) or `log-normal` (median `time`, and one in
//! a hundred longer than `p99`). Times are in microseconds for Busy and in milliseconds for Wait.
//!
//! ```text
//! # 256 clients of a server with a median of 2 ms, of which one is a hundred times slower
//! hotloop bench rollout --env Synthetic/Wait-v0 --actors 256 --envs-per-actor 1 \
//!     --set env.options.latency=log-normal --set env.options.time=2.0 \
//!     --set env.options.p99=100.0 --set env.options.slow_lane=7
//! ```
//!
//! Faults come every so many steps of an environment, in one lane or in all: `fail_every` returns an error,
//! `panic_every` panics, `hang_every` never returns.

mod busy;
mod cost;
mod task;
mod wait;

pub use busy::Busy;
pub use wait::Wait;

use hotloop_env::{EnvSpec, Registry};

/// Adds both environments.
pub fn register(registry: &mut Registry) {
    let busy = EnvSpec::new("Synthetic/Busy-v0", Busy::new)
        .about("a step that keeps a core busy for a time of your choice (µs)");
    let wait = EnvSpec::asynchronous("Synthetic/Wait-v0", Wait::new)
        .about("a step that waits for a time of your choice (ms)")
        .option("reset_time", 0.0, "how long a reset waits, in ms");
    for spec in [busy, wait] {
        registry.add(task::options(cost::options(spec)));
    }
}
