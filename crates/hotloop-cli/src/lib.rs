//! The hotloop command line for any set of environments: a program whose `main` is one call.
//!
//! ```no_run
//! use hotloop::prelude::*;
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     let mut registry = Registry::new();
//!     // registry.add(EnvSpec::new("MyEnv-v0", |_options| Ok(MyEnv::new())));
//!     hotloop_cli::run(registry)
//! }
//! ```
//!
//! Standard output carries results only, as JSON under `--json`; everything else goes to standard
//! error. Exit codes: 0 done; 1 failed while running; 2 could not start as asked (a wrong flag, key,
//! value, file or device); 130 interrupted.

mod args;
mod commands;
mod exit;
mod film;
mod log;
mod output;
mod screen;
mod signals;

use args::{Args, Command};
use clap::{CommandFactory, FromArgMatches};
use exit::Failure;
use hotloop::prelude::Registry;
use hotloop_telemetry::Console;
use std::path::Path;
use std::process::ExitCode;

/// Runs the command line of this process with these environments, and returns its exit code.
#[must_use]
pub fn run(registry: Registry) -> ExitCode {
    let args = match parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version are errors to clap, too. If nobody reads them, nothing is lost.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
        }
    };
    let console = Console::stderr();
    log::start(&console);
    log::quiet_contained_panics();
    match dispatch(args, registry, &console) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(&console),
    }
}

/// The arguments, under the name that the program was called by: a user's own program speaks of itself.
fn parse() -> Result<Args, clap::Error> {
    let matches = named(Args::command()).try_get_matches()?;
    Args::from_arg_matches(&matches)
}

fn named(command: clap::Command) -> clap::Command {
    let program = std::env::args_os().next().unwrap_or_default();
    match Path::new(&program).file_stem() {
        Some(stem) => command.bin_name(stem.to_string_lossy()),
        None => command,
    }
}

fn dispatch(args: Args, registry: Registry, console: &Console) -> Result<(), Failure> {
    match args.command {
        Command::Train(args) => commands::train(&args, registry, console),
        Command::Eval(args) => commands::eval(&args, &registry, console),
        Command::Play(args) => commands::play(&args, &registry, console),
        Command::Bench(args) => commands::bench(&args, &registry, console),
        Command::Envs => commands::envs(&registry),
        Command::Config(args) => commands::config(&args, &registry),
        Command::Doctor => commands::doctor(&registry),
        Command::New(args) => commands::new(&args),
        Command::Completions { shell } => commands::completions(shell, named(Args::command())),
    }
}
