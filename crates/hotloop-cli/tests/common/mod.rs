//! Runs the `hotloop` binary as a user does.
#![allow(clippy::unwrap_used, reason = "helpers of tests panic as tests do")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The command, in this directory, with nothing of the caller's that could change what it prints.
pub(crate) fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotloop"));
    command
        .args(args)
        .current_dir(dir)
        .env_remove("RUST_LOG")
        .env_remove("OMP_NUM_THREADS")
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn hotloop(dir: &Path, args: &[&str]) -> Done {
    done(command(dir, args).output().unwrap())
}

/// What it left.
pub(crate) fn done(output: Output) -> Done {
    Done {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
