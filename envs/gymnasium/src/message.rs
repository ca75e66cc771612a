//! What a worker says: a byte that names the kind, and for most kinds a length and JSON.

use crate::space::Described;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind};

/// One message.
#[derive(Debug)]
pub(crate) enum Message {
    /// The first environment is made, and has these spaces.
    Hello(Hello),
    /// The worker ends, for this reason: it could not be made, or cannot go on.
    Refused(String),
    /// A turn went well in every lane.
    Done,
    /// A turn is over; these lanes failed in it.
    Failed(Vec<LaneFault>),
    /// A picture: width, height, and three bytes for each pixel.
    Picture(u32, u32, Vec<u8>),
    /// A picture could not be made, for this reason.
    NoPicture(String),
}

/// The spaces of an environment, and how fast its pictures are meant to follow each other.
#[derive(Deserialize)]
pub(crate) struct Hello {
    pub(crate) observation: Described,
    pub(crate) action: Described,
    pub(crate) fps: f64,
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hello")
    }
}

/// A lane that failed in a turn.
#[derive(Debug, Deserialize)]
pub(crate) struct LaneFault {
    pub(crate) lane: usize,
    /// 1 while it was made, 2 in its reset, 3 in its step.
    pub(crate) phase: u8,
    /// Whether it failed in the reset after a step that went well.
    pub(crate) stepped: bool,
    pub(crate) said: String,
}

/// Bytes that have come, not yet a whole message.
#[derive(Default)]
pub(crate) struct Inbox(Vec<u8>);

impl Inbox {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next message, if all of it has come.
    pub(crate) fn take(&mut self) -> io::Result<Option<Message>> {
        let Some(&kind) = self.0.first() else {
            return Ok(None);
        };
        if kind == b'.' {
            self.0.remove(0);
            return Ok(Some(Message::Done));
        }
        let word = |at: usize| {
            let bytes = self.0.get(at..at + 4)?;
            bytes.try_into().ok().map(u32::from_le_bytes)
        };
        let (head, size) = match (kind, word(1), word(5)) {
            (b'p', Some(width), Some(height)) => (9, 3 * width as usize * height as usize),
            (b'p', ..) | (_, None, _) => return Ok(None),
            (_, Some(size), _) => (5, size as usize),
        };
        if self.0.len() < head + size {
            return Ok(None);
        }
        let (width, height) = (word(1).unwrap_or(0), word(5).unwrap_or(0));
        let body: Vec<u8> = self.0.drain(..head + size).skip(head).collect();
        match kind {
            b'p' => Ok(Message::Picture(width, height, body)),
            b'h' => read(&body).map(Message::Hello),
            b'x' => read(&body).map(Message::Refused),
            b'!' => read(&body).map(Message::Failed),
            b'n' => read(&body).map(Message::NoPicture),
            _ => Err(garbled(format!("kind {kind}"))),
        }
        .map(Some)
    }
}

/// Reads JSON that a worker wrote.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(garbled)
}

fn garbled(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("the worker said something that cannot be understood: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_whole_however_their_bytes_come() {
        let mut bytes = b".".to_vec();
        bytes.extend(b"x\x05\0\0\0\"why\"");
        bytes.extend(b"p\x01\0\0\0\x02\0\0\0abcdef.");
        for size in [1, 2, 7, 100] {
            let (mut inbox, mut seen) = (Inbox::default(), vec![]);
            for part in bytes.chunks(size) {
                inbox.add(part);
                while let Some(message) = inbox.take().unwrap() {
                    seen.push(format!("{message:?}"));
                }
            }
            assert_eq!(
                seen,
                [
                    "Done",
                    "Refused(\"why\")",
                    "Picture(1, 2, [97, 98, 99, 100, 101, 102])",
                    "Done"
                ]
            );
        }
        let mut inbox = Inbox::default();
        inbox.add(b"?\0\0\0\0");
        assert!(inbox.take().is_err());
    }
}
