//! `manifest.json`: what is needed to know where a run came from and to make it again.

use crate::{Stamp, TelemetryError, write_atomic};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// The machine of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The operating system.
    pub os: String,
    /// The processor's architecture.
    pub arch: String,
    /// Hardware threads that this process may use (affinity and container limits respected).
    pub threads: usize,
}

/// Where a run came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// hotloop's version.
    pub hotloop: String,
    /// libtorch's version.
    pub libtorch: String,
    /// The environment's id.
    pub env: String,
    /// The algorithm's name.
    pub algo: String,
    /// The seed.
    pub seed: u64,
    /// The device of the networks.
    pub device: String,
    /// Threads the run uses.
    pub threads: usize,
    /// The commit of the directory it was started in, with `-dirty` if files were changed; none outside
    /// a git repository.
    pub git_commit: Option<String>,
    /// The program and its arguments.
    pub command_line: Vec<String>,
    /// When it started (RFC 3339, UTC).
    pub started: String,
    /// The machine.
    pub host: Host,
}

impl Manifest {
    /// The manifest of a run that starts now in this process. The caller knows what it trains and with
    /// what (`libtorch` is the version that the loaded library reports); the rest is looked up here.
    #[must_use]
    pub fn collect(
        libtorch: &str,
        env: &str,
        algo: &str,
        seed: u64,
        device: &str,
        threads: usize,
    ) -> Self {
        Self {
            hotloop: env!("CARGO_PKG_VERSION").to_string(),
            libtorch: libtorch.to_string(),
            env: env.to_string(),
            algo: algo.to_string(),
            seed,
            device: device.to_string(),
            threads,
            git_commit: git_commit(Path::new(".")),
            command_line: std::env::args_os()
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect(),
            started: Stamp::new(SystemTime::now()).rfc3339(),
            host: Host {
                os: std::env::consts::OS.to_string(),
                arch: std::env::consts::ARCH.to_string(),
                threads: std::thread::available_parallelism().map_or(1, usize::from),
            },
        }
    }

    /// Writes it to `path`, whole or not at all.
    ///
    /// # Errors
    ///
    /// [`TelemetryError::Io`] if it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), TelemetryError> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|e| TelemetryError::io("write", path, e.into()))?;
        text.push(b'\n');
        write_atomic(path, &text)
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// [`TelemetryError::Io`] if the file cannot be read, [`TelemetryError::Content`] if it is no
    /// manifest.
    pub fn read(path: &Path) -> Result<Self, TelemetryError> {
        let text = std::fs::read(path).map_err(|e| TelemetryError::io("read", path, e))?;
        serde_json::from_slice(&text).map_err(|e| TelemetryError::Content {
            path: path.to_path_buf(),
            reason: e.to_string(),
        })
    }
}

/// The commit checked out in `dir`; none if there is no repository or no git.
fn git_commit(dir: &Path) -> Option<String> {
    let output = Command::new("git")
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=40",
            "--exclude=*",
        ])
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let commit = text.trim();
    (!commit.is_empty()).then(|| commit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest.json");
        let manifest = Manifest::collect("2.11.0", "CartPole-v1", "ppo", u64::MAX, "cpu", 2);
        manifest.write(&path).unwrap();
        assert_eq!(Manifest::read(&path).unwrap(), manifest);
        assert!(!manifest.command_line.is_empty());
        assert!(manifest.started.starts_with("20"));
    }

    #[test]
    fn another_file_is_refused_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest.json");
        std::fs::write(&path, "{}").unwrap();
        let error = Manifest::read(&path).unwrap_err().to_string();
        assert!(error.contains("manifest.json"), "{error}");
        assert!(error.contains("missing field"), "{error}");
    }

    #[test]
    fn the_commit_is_that_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(git_commit(dir.path()), None);
        let git = |args: &[&str]| {
            let status = Command::new("git")
                .args(["-c", "user.name=a", "-c", "user.email=a@b"])
                .args(args)
                .current_dir(dir.path())
                .stdout(Stdio::null())
                .status();
            status.is_ok_and(|status| status.success())
        };
        if !git(&["init", "-q"]) {
            return; // No git here: then there is no commit, as asserted above.
        }
        std::fs::write(dir.path().join("f"), "1").unwrap();
        assert!(git(&["add", "f"]) && git(&["commit", "-q", "-m", "one"]));
        let clean = git_commit(dir.path()).unwrap();
        assert_eq!(clean.len(), 40);
        std::fs::write(dir.path().join("f"), "2").unwrap();
        assert_eq!(git_commit(dir.path()).unwrap(), format!("{clean}-dirty"));
    }
}
