//! Standard error, shared by the live progress line and the log.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where progress and logs go. On a terminal it keeps one live line at the bottom: what is written
/// appears above it, so that a warning never tears it. Clones share the same output.
///
/// Failing to write never fails a run: a closed standard error is no reason to stop training.
#[derive(Clone)]
pub struct Console(Arc<Mutex<Inner>>);

struct Inner {
    out: Box<dyn Write + Send>,
    terminal: bool,
    live: String,
}

/// Back to the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[2K";

impl Console {
    /// Standard error; a terminal unless `TERM=dumb`.
    #[must_use]
    pub fn stderr() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self::new(Box::new(io::stderr()), io::stderr().is_terminal() && !dumb)
    }

    /// Any other output; `terminal` says whether it understands control sequences.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, terminal: bool) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            out,
            terminal,
            live: String::new(),
        })))
    }

    /// Whether there is a live line.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.inner().terminal
    }

    /// Shows `line` as the live line, cut to the terminal's width. Does nothing elsewhere.
    pub fn live(&self, line: &str) {
        let mut inner = self.inner();
        if !inner.terminal {
            return;
        }
        inner.live = line.chars().take(width().saturating_sub(1)).collect();
        let text = format!("{CLEAR}{}", inner.live);
        inner.put(text.as_bytes());
    }

    /// Writes a line of text, above the live line if there is one.
    pub fn line(&self, line: &str) {
        self.inner().above(format!("{line}\n").as_bytes());
    }

    /// Leaves the live line where it is, as the last state seen, and goes on below it.
    pub fn end_live(&self) {
        let mut inner = self.inner();
        if !inner.live.is_empty() {
            inner.live.clear();
            inner.put(b"\n");
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A line of text: nothing can be half-changed behind a poisoned lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn above(&mut self, text: &[u8]) {
        if self.live.is_empty() {
            self.put(text);
        } else {
            let mut all = CLEAR.as_bytes().to_vec();
            all.extend_from_slice(text);
            all.extend_from_slice(self.live.as_bytes());
            self.put(&all);
        }
    }

    fn put(&mut self, text: &[u8]) {
        let _ = self.out.write_all(text).and_then(|()| self.out.flush());
    }
}

/// The terminal's width in characters; 80 if it does not say.
fn width() -> usize {
    terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0))
}

/// For the log: each write is one whole event, as tracing's formatter hands it over.
impl Write for Console {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.inner().above(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A place to write to that a test can read.
    #[derive(Clone, Default)]
    pub(crate) struct Paper(Arc<Mutex<Vec<u8>>>);
    impl Paper {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }
    impl Write for Paper {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(text);
            Ok(text.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_line_appears_above_the_live_line() {
        let paper = Paper::default();
        let mut console = Console::new(Box::new(paper.clone()), true);
        console.live("10%");
        console.write_all(b"a warning\n").unwrap();
        console.live("20%");
        console.end_live();
        console.line("done");
        assert_eq!(
            paper.text(),
            format!("{CLEAR}10%{CLEAR}a warning\n10%{CLEAR}20%\ndone\n")
        );
    }

    #[test]
    fn elsewhere_there_is_no_control_sequence() {
        let paper = Paper::default();
        let mut console = Console::new(Box::new(paper.clone()), false);
        console.live("10%");
        console.write_all(b"a warning\n").unwrap();
        console.end_live();
        assert_eq!(paper.text(), "a warning\n");
    }

    #[test]
    fn a_closed_output_is_survived() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
        let console = Console::new(Box::new(Closed), true);
        console.live("10%");
        console.line("still here");
    }
}
