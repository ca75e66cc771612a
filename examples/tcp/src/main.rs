//! The whole hotloop command line, for this crate's environment: `cargo run --release -- train Hover-v0`.
//!
//! The simulator runs on threads of this program and ends with it; `--set env.options.address=HOST:PORT` names another
//! one (`cargo run --release --bin simulator`).

use std::process::ExitCode;
use tcp_env::Simulator;

fn main() -> ExitCode {
    match Simulator::start("127.0.0.1:0") {
        Ok(simulator) => hotloop_cli::run(tcp_env::registry(&simulator.address().to_string())),
        Err(error) => {
            eprintln!("error: the simulator did not start: {error}");
            ExitCode::FAILURE
        }
    }
}
