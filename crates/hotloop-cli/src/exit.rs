//! How a command ends when it does not end well.

use hotloop_telemetry::Console;
use std::process::ExitCode;

/// Failed while running.
const FAILED: u8 = 1;
/// Could not start as asked.
pub(crate) const USAGE: u8 = 2;
/// Stopped by SIGINT, SIGTERM or SIGHUP: 128 + SIGINT, as shells count.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for cannot be done: nothing was started.
    Input(anyhow::Error),
    /// It was started and failed.
    Running(anyhow::Error),
    /// What it found has been printed, and it is not good.
    Found,
    /// The user stopped it; what there is to say has been said.
    Interrupted,
}

impl Failure {
    pub(crate) fn input(error: impl Into<anyhow::Error>) -> Self {
        Self::Input(error.into())
    }

    pub(crate) fn running(error: impl Into<anyhow::Error>) -> Self {
        Self::Running(error.into())
    }

    /// Prints the failure as one paragraph and returns its exit code.
    pub(crate) fn report(&self, console: &Console) -> ExitCode {
        let (code, error) = match self {
            Self::Input(error) => (USAGE, Some(error)),
            Self::Running(error) => (FAILED, Some(error)),
            Self::Found => (FAILED, None),
            Self::Interrupted => (INTERRUPTED, None),
        };
        if let Some(error) = error {
            console.end_live();
            console.line(&format!("error: {}", paragraph(error)));
        }
        ExitCode::from(code)
    }
}

/// The error and its causes in one paragraph.
fn paragraph(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let part = cause.to_string();
        // Many errors print their cause themselves.
        if text.contains(&part) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&part);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn an_error_and_its_causes_are_one_paragraph() {
        let cause = anyhow!("no space\nleft");
        assert_eq!(
            paragraph(&cause.context("cannot write a")),
            "cannot write a: no space left"
        );
        let told = anyhow!("b").context("cannot write a: b");
        assert_eq!(paragraph(&told), "cannot write a: b");
    }
}
