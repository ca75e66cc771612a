//! Small files that are there whole or not at all.

use crate::TelemetryError;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes `bytes` to `path`: a reader, or a crash at any moment, sees the old content or the new one,
/// never a part. On failure the old content stays and the temporary file is removed.
///
/// # Errors
///
/// [`TelemetryError::Io`] with the path and the system's reason.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), TelemetryError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    write_through(&temporary, path, bytes).map_err(|error| {
        // The write failed already; a leftover is all that a second failure could add.
        let _ = fs::remove_file(&temporary);
        TelemetryError::io("write", path, error)
    })
}

fn write_through(temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    // The content must be on disk before the name points to it.
    file.sync_all()?;
    fs::rename(temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_content_replaces_the_old_and_nothing_is_left_beside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write_atomic(&path, b"old").unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_names_the_path_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        // A directory in the file's place makes the last step, the rename, fail.
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("kept"), b"kept").unwrap();
        let error = write_atomic(&path, b"new").unwrap_err().to_string();
        assert!(error.contains("taken"), "{error}");
        assert_eq!(fs::read(path.join("kept")).unwrap(), b"kept");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
