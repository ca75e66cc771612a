//! The whole hotloop command line, for this crate's environment:
//! `cargo run --release -- train BallOnBeam-v0`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotloop_cli::run(rapier_env::registry())
}
