//! The whole command line with toy environments, for tests that need a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotloop_cli::run(hotloop_tests::registry())
}
