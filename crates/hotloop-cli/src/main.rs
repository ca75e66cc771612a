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
    leave_out(&mut registry);
    hotloop_cli::run(registry)
}

/// Says how to get the environments of features that this build is without.
fn leave_out(registry: &mut Registry) {
    const FEATURES: &[(bool, &str, &[&str])] = &[
        (cfg!(feature = "atari"), "atari", &["ALE/"]),
        (
            cfg!(feature = "mujoco"),
            "mujoco",
            &[
                "Ant-",
                "HalfCheetah-",
                "Hopper-",
                "Humanoid",
                "InvertedDoublePendulum-",
                "InvertedPendulum-",
                "Pusher-",
                "Reacher-",
                "Swimmer-",
                "Walker2d-",
            ],
        ),
    ];
    for (built, feature, prefixes) in FEATURES {
        for prefix in prefixes.iter().filter(|_| !built) {
            let remedy = format!(
                "run `cargo xtask {feature}` once, and then `cargo xtask train …`, or build hotloop-cli with \
                 `--features {feature}`"
            );
            registry.leave_out(*prefix, remedy);
        }
    }
}
