//! The `hotloop` binary: the command line with the environments that come with hotloop.

use hotloop::prelude::Registry;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut registry = Registry::new();
    #[cfg(feature = "atari")]
    hotloop_atari::register(&mut registry);
    hotloop_classic::register(&mut registry);
    hotloop_gymnasium::register(&mut registry);
    hotloop_memory::register(&mut registry);
    hotloop_minatar::register(&mut registry);
    #[cfg(feature = "mujoco")]
    hotloop_mujoco::register(&mut registry);
    hotloop_synthetic::register(&mut registry);
    hotloop_cli::run(registry)
}
