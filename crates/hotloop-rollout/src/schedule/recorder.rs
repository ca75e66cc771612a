//! Writes a schedule.

use super::event::{Event, put};
use crate::RolloutError;
use crate::protocol::sync::{Mutex, MutexGuard, lock};
use crate::ticket::Call;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The first line of the file.
pub(super) const MAGIC: &[u8] = b"hotloop schedule 1\n";

/// A schedule being written. Whoever has locked it decides the order of what happens.
pub(crate) struct Recorder {
    log: Mutex<Log>,
}

/// The file of a [`Recorder`].
pub(crate) struct Log {
    path: PathBuf,
    out: BufWriter<File>,
    /// The bytes of one event.
    bytes: Vec<u8>,
    /// Batches so far.
    batches: u64,
}

impl Recorder {
    /// Replaces the file at `path` by one with these settings.
    pub(super) fn create(path: &Path, settings: &[(String, String)]) -> Result<Self, RolloutError> {
        let mut header = MAGIC.to_vec();
        put(&mut header, settings.len() as u64);
        for text in settings.iter().flat_map(|(key, value)| [key, value]) {
            put(&mut header, text.len() as u64);
            header.extend(text.as_bytes());
        }
        let create = || {
            let mut out = BufWriter::new(File::create(path)?);
            out.write_all(&header)?;
            out.flush()?;
            Ok(out)
        };
        let out = create().map_err(|error| failed(path, error))?;
        let log = Log {
            path: path.to_path_buf(),
            out,
            bytes: vec![],
            batches: 0,
        };
        Ok(Self {
            log: Mutex::new(log),
        })
    }

    /// Nothing that is recorded happens while the lock is held.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }
}

impl Log {
    /// Adds an event.
    pub(crate) fn add(&mut self, event: &Event) -> Result<(), RolloutError> {
        self.bytes.clear();
        event.write(&mut self.bytes);
        let written = self.out.write_all(&self.bytes);
        written.map_err(|error| failed(&self.path, error))
    }

    /// Adds a batch, and returns its number.
    pub(crate) fn add_batch(
        &mut self,
        queue: usize,
        call: Call,
        groups: impl Iterator<Item = usize>,
    ) -> Result<u64, RolloutError> {
        self.add(&Event::Batch {
            queue: queue as u64,
            version: call.version,
            bootstrap: call.bootstrap,
            groups: groups.map(|group| group as u64).collect(),
        })?;
        self.batches += 1;
        Ok(self.batches - 1)
    }

    /// Hands all bytes to the system, so that they outlive this process.
    pub(crate) fn flush(&mut self) -> Result<(), RolloutError> {
        self.out.flush().map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: io::Error) -> RolloutError {
    RolloutError::Schedule {
        path: path.to_path_buf(),
        reason: format!("cannot be written: {error}"),
    }
}
