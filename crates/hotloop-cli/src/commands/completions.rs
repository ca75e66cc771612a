//! `completions`: what a shell needs to complete this command line.

use crate::exit::Failure;
use crate::output;
use clap_complete::Shell;

pub(crate) fn completions(shell: Shell, mut command: clap::Command) -> Result<(), Failure> {
    let name = command
        .get_bin_name()
        .unwrap_or(command.get_name())
        .to_string();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    output::put(&String::from_utf8_lossy(&script))
}
