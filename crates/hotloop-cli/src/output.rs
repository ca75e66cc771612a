//! Standard output: results, and nothing else.

use crate::exit::Failure;
use std::io::{self, ErrorKind, Write};

/// Writes a result. A reader that has gone away (`| head`) is no failure.
pub(crate) fn put(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let error = anyhow::Error::new(error).context("cannot write to standard output");
            Err(Failure::running(error))
        }
        _ => Ok(()),
    }
}

/// How many failures of environments there were, as a line under this title; nothing if there were none.
pub(crate) fn faults(title: &str, faults: u64, lost: u64) -> String {
    let lost = match lost {
        0 => String::new(),
        n => format!(", {n} of them lost with a neighbour whose process ended"),
    };
    match faults {
        0 => String::new(),
        n => format!("{title}{n}{lost}\n"),
    }
}

/// Writes one JSON object as the last line.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(Failure::running)?;
    put(&format!("{text}\n"))
}
