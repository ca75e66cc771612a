//! What a worker writes to its standard output and error: read so that it never blocks, the end of it kept.

use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// So many bytes are kept.
const KEPT: usize = 4096;

pub(crate) struct Output {
    pipe: PipeReader,
    tail: Vec<u8>,
}

impl Output {
    /// Reads from this end of a pipe, never waiting.
    pub(crate) fn new(pipe: PipeReader) -> io::Result<Self> {
        // SAFETY: flags of a descriptor that is ours.
        let set = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            pipe,
            tail: Vec::new(),
        })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Takes what has been written. [`ErrorKind::WouldBlock`] if there is more to come.
    pub(crate) fn drain(&mut self) -> io::Result<()> {
        let mut part = [0; KEPT];
        loop {
            match self.pipe.read(&mut part) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    self.tail.extend_from_slice(&part[..read]);
                    let surplus = self.tail.len().saturating_sub(KEPT);
                    self.tail.drain(..surplus);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The last lines that were written, at most `lines`.
    pub(crate) fn last_lines(&mut self, lines: usize) -> String {
        // Nobody writes any more, or nothing has been written yet.
        let _ = self.drain();
        let text = String::from_utf8_lossy(&self.tail);
        let all: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_lines_of_much_output_are_kept() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut output = Output::new(reader).unwrap();
        assert_eq!(output.drain().unwrap_err().kind(), ErrorKind::WouldBlock);
        for line in 0..2000 {
            writeln!(writer, "line {line}\n").unwrap();
            if line % 100 == 0 {
                let _ = output.drain();
            }
        }
        assert_eq!(output.last_lines(2), "line 1998\nline 1999");
        drop(writer);
        output.drain().unwrap();
    }
}
