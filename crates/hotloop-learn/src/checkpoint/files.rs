//! The few file operations a checkpoint needs, behind a trait so that tests can make them fail.

use std::{fs::File, io, io::Write, path::Path};

/// Operations on files, each of which may fail.
pub(super) trait Files {
    /// Creates or replaces `path` with `bytes` and flushes it to the disk.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Renames, replacing what is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Flushes a directory, so that renames in it survive a power cut.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// The real thing.
pub(super) struct Disk;

impl Files for Disk {
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // Windows cannot open a directory as a file; its renames are journalled.
        if cfg!(unix) {
            File::open(dir)?.sync_all()
        } else {
            Ok(())
        }
    }
}
