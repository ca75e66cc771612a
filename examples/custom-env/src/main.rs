//! The whole hotloop command line, for this crate's environments.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotloop_cli::run(custom_env::registry())
}
