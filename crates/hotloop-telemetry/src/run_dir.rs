//! The directory of a run: made and tried out before anything starts.

use crate::{Stamp, TelemetryError};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// The directory of one run. It holds `config.toml`, `manifest.json`, `metrics.jsonl` and
/// `checkpoints/`.
///
/// One that was made or reopened is locked for this process until its last clone is dropped, or the
/// process ends in whatever way: two runs never write to one directory.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: Option<Arc<File>>,
}

/// The file whose lock says that somebody writes to the directory.
const LOCK: &str = ".lock";

/// The longest name of a file or directory on the file systems in use (`NAME_MAX`), in bytes.
const NAME_MAX: usize = 255;

impl RunDir {
    /// Makes the directory of a new run, with missing parents, and writes a file there to see that it
    /// can be used. `given` is the user's choice; without one it is a new directory
    /// `runs/<env>-<algo>-<seed>-<time>` under the current one.
    ///
    /// # Errors
    ///
    /// The path is empty, the root, a file, too long, not writable or holds another run.
    pub fn create(
        given: Option<&Path>,
        env: &str,
        algo: &str,
        seed: u64,
    ) -> Result<Self, TelemetryError> {
        match given {
            Some(path) => Self::create_at(path, probe),
            None => Self::create_new(Path::new("runs"), &default_name(env, algo, seed)),
        }
    }

    /// The directory of a run that exists.
    ///
    /// # Errors
    ///
    /// It is no directory or holds no run.
    pub fn open(path: &Path) -> Result<Self, TelemetryError> {
        let run = Self::unlocked(path);
        if !path.is_dir() {
            return Err(place(path, "there is no such directory"));
        }
        if !run.holds_a_run() {
            let reason = "it holds no run (config.toml and manifest.json are looked for); \
                          give the directory that `train` named";
            return Err(place(path, reason));
        }
        Ok(run)
    }

    /// As [`RunDir::open`], for a run that is to go on: tries out that the directory can be written, and
    /// locks it.
    ///
    /// # Errors
    ///
    /// As [`RunDir::open`], and if it cannot be written or a run is at work in it.
    pub fn reopen(path: &Path) -> Result<Self, TelemetryError> {
        let run = Self::open(path)?;
        probe(path).map_err(|e| TelemetryError::io("write to the run directory", path, e))?;
        run.lock()
    }

    fn unlocked(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            _lock: None,
        }
    }

    fn lock(self) -> Result<Self, TelemetryError> {
        let path = self.path.join(LOCK);
        let failed = |e| TelemetryError::io("lock", &path, e);
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(failed)?;
        match lock_for(&file, || sleep(Duration::from_millis(10))) {
            Ok(()) => Ok(Self {
                _lock: Some(Arc::new(file)),
                ..self
            }),
            Err(TryLockError::WouldBlock) => {
                let reason = "another run is at work in it; wait until that has ended, or give \
                              another directory";
                Err(place(&self.path, reason))
            }
            // Some network file systems know no locks: a run there is worth more than the check.
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => Ok(self),
            Err(TryLockError::Error(e)) => Err(failed(e)),
        }
    }

    fn create_at(
        path: &Path,
        probe: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<Self, TelemetryError> {
        let run = Self::vacant(path)?;
        fs::create_dir_all(path)
            .map_err(|e| TelemetryError::io("create the run directory", path, e))?;
        run.furnish(probe)
    }

    /// Finds out whether [`RunDir::create`] can make `path`, as far as that can be known without making
    /// it: so that a run refused for another reason leaves nothing behind.
    ///
    /// # Errors
    ///
    /// As [`RunDir::create`].
    pub fn check(path: &Path) -> Result<(), TelemetryError> {
        Self::vacant(path)?;
        let here = Path::new(".");
        let ancestor = path.ancestors().find(|a| a.exists()).unwrap_or(here);
        probe(ancestor).map_err(|e| TelemetryError::io("create the run directory", path, e))
    }

    /// The directory of a new run, which may exist, but may not be anything else.
    fn vacant(path: &Path) -> Result<Self, TelemetryError> {
        check_path(path)?;
        if path.exists() && !path.is_dir() {
            let reason = "it is a file; give a directory, which may be a new one";
            return Err(place(path, reason));
        }
        let run = Self::unlocked(path);
        if run.holds_a_run() {
            let reason = "it holds a run already; give another directory, \
                          or go on with that run by --resume";
            return Err(place(path, reason));
        }
        Ok(run)
    }

    fn create_new(parent: &Path, name: &str) -> Result<Self, TelemetryError> {
        let error = |path: &Path, e| TelemetryError::io("create the run directory", path, e);
        fs::create_dir_all(parent).map_err(|e| error(parent, e))?;
        // Runs that start in the same second are told apart by a number.
        for attempt in 1.. {
            let path = match attempt {
                1 => parent.join(name),
                n => parent.join(format!("{name}-{n}")),
            };
            match fs::create_dir(&path) {
                Ok(()) => return Self::unlocked(&path).furnish(probe),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(error(&path, e)),
            }
        }
        unreachable!("a directory holds fewer names than u64 has numbers")
    }

    fn furnish(self, probe: impl Fn(&Path) -> io::Result<()>) -> Result<Self, TelemetryError> {
        probe(&self.path)
            .map_err(|e| TelemetryError::io("write to the run directory", &self.path, e))?;
        let run = self.lock()?;
        // Another run may have begun, and even ended, since this was found out before.
        Self::vacant(&run.path)?;
        let checkpoints = run.checkpoints();
        fs::create_dir_all(&checkpoints)
            .map_err(|e| TelemetryError::io("create", checkpoints, e))?;
        Ok(run)
    }

    fn holds_a_run(&self) -> bool {
        self.config().exists() || self.manifest().exists()
    }

    /// Its path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved configuration.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    /// The [`Manifest`](crate::Manifest).
    #[must_use]
    pub fn manifest(&self) -> PathBuf {
        self.path.join("manifest.json")
    }

    /// The metrics, one JSON object a line.
    #[must_use]
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// The directory of the checkpoints.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }
}

/// Locks the file, or finds that it stays locked through twenty pauses: a child process that another
/// thread starts holds the files of its parent open for a moment.
fn lock_for(file: &File, mut pause: impl FnMut()) -> Result<(), TryLockError> {
    for _ in 0..20 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => pause(),
            settled => return settled,
        }
    }
    file.try_lock()
}

fn place(path: &Path, reason: &str) -> TelemetryError {
    TelemetryError::Place {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}

/// Refuses what cannot be the directory of a run whatever the disk holds.
fn check_path(path: &Path) -> Result<(), TelemetryError> {
    let blank = path.to_str().is_some_and(|text| text.trim().is_empty());
    if blank {
        return Err(place(path, "the path is empty; name a directory"));
    }
    let root = path.components().all(|c| {
        matches!(
            c,
            Component::RootDir | Component::Prefix(_) | Component::CurDir
        )
    });
    if root && path.is_absolute() {
        return Err(place(
            path,
            "runs are not written to the root of the file system; name a directory in it",
        ));
    }
    match path.components().find(|c| c.as_os_str().len() > NAME_MAX) {
        Some(long) => Err(place(
            path,
            &format!(
                "a name in it has {} bytes; file systems take {NAME_MAX} at most",
                long.as_os_str().len()
            ),
        )),
        None => Ok(()),
    }
}

/// Writes and removes a file; on a full disk it is made but cannot be written, and removed all the same.
fn probe(dir: &Path) -> io::Result<()> {
    let path = dir.join(format!(".probe.{}", std::process::id()));
    let written = fs::write(&path, b"hotloop");
    let removed = fs::remove_file(path);
    written.and(removed)
}

/// `CartPole-v1-ppo-1-20260131-090507`, with everything that a file name should not hold replaced.
fn default_name(env: &str, algo: &str, seed: u64) -> String {
    let env: String = env
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() => c,
            '-' | '_' | '.' => c,
            _ => '-',
        })
        .take(100)
        .collect();
    let time = Stamp::new(SystemTime::now()).file_name();
    format!("{env}-{algo}-{seed}-{time}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> String {
        let error = RunDir::create(Some(path), "E-v0", "ppo", 1)
            .unwrap_err()
            .to_string();
        assert_eq!(RunDir::check(path).unwrap_err().to_string(), error);
        error
    }

    #[test]
    fn br_63_missing_parents_are_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c");
        RunDir::check(&path).unwrap();
        assert_eq!(
            fs::read_dir(&dir).unwrap().count(),
            0,
            "a check makes nothing"
        );
        let run = RunDir::create(Some(&path), "E-v0", "ppo", 1).unwrap();
        assert_eq!(run.path(), path);
        assert!(run.checkpoints().is_dir());
        // The file that tried it out is gone.
        let mut left: Vec<_> = fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, [LOCK, "checkpoints"]);
    }

    #[test]
    fn br_63_an_empty_path_is_not_the_root() {
        for path in ["", " ", "/", "//", "/."] {
            let error = refused(Path::new(path));
            assert!(error.contains("run directory"), "{error}");
            assert!(
                error.contains("the path is empty") || error.contains("root of the file system"),
                "{path:?}: {error}"
            );
        }
        assert!(!Path::new("/checkpoints").exists());
    }

    #[test]
    fn br_63_a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert!(refused(&file).contains("it is a file"));
        let beneath = refused(&file.join("run"));
        assert!(beneath.contains("file/run"), "{beneath}");
        assert!(beneath.contains("Not a directory"), "{beneath}");
        assert_eq!(fs::read(&file).unwrap(), b"kept");
    }

    #[test]
    fn br_63_too_long_a_name_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = refused(&dir.path().join("x".repeat(300)));
        assert!(error.contains("has 300 bytes"), "{error}");
    }

    #[test]
    fn br_63_a_directory_that_cannot_be_written_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for (kind, text) in [
            (io::ErrorKind::PermissionDenied, "permission denied"),
            (io::ErrorKind::ReadOnlyFilesystem, "read-only filesystem"),
        ] {
            let error = RunDir::create_at(dir.path(), |_| Err(kind.into()))
                .unwrap_err()
                .to_string();
            assert!(error.contains(&dir.path().display().to_string()), "{error}");
            assert!(error.contains(text), "{error}");
        }
        // /proc takes no directories, not even from root.
        #[cfg(target_os = "linux")]
        assert!(refused(Path::new("/proc/hotloop")).contains("/proc/hotloop"));
    }

    #[test]
    fn a_run_is_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let run = RunDir::create(Some(&path), "E-v0", "ppo", 1).unwrap();
        fs::write(run.config(), "seed = 1").unwrap();
        assert!(refused(&path).contains("--resume"));
    }

    #[test]
    fn two_runs_never_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let run = RunDir::create(Some(&path), "E-v0", "ppo", 1).unwrap();
        // It has written nothing yet, so that only the lock tells.
        let error = RunDir::create(Some(&path), "E-v0", "ppo", 2).unwrap_err();
        assert!(
            error.to_string().contains("another run is at work"),
            "{error}"
        );
        fs::write(run.config(), "seed = 1").unwrap();
        let error = RunDir::reopen(&path).unwrap_err();
        assert!(
            error.to_string().contains("another run is at work"),
            "{error}"
        );
        // Looking is allowed.
        assert_eq!(RunDir::open(&path).unwrap().path(), path);
        drop(run);
        RunDir::reopen(&path).unwrap();
    }

    #[test]
    fn a_lock_that_is_given_up_in_a_moment_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::create(dir.path().join(LOCK)).unwrap();
        let (run, again) = (open(), open());
        run.try_lock().unwrap();
        // As a child between fork and exec: it holds the file after the run has dropped it.
        let mut child = Some(run.try_clone().unwrap());
        drop(run);
        lock_for(&again, || drop(child.take())).unwrap();
        assert!(child.is_none(), "it was locked at first");
    }

    #[test]
    fn what_holds_no_run_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let error = RunDir::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("holds no run"), "{error}");
        let error = RunDir::open(&dir.path().join("gone")).unwrap_err();
        assert!(error.to_string().contains("no such directory"), "{error}");
    }

    #[test]
    fn runs_that_start_in_the_same_second_get_directories_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().join("runs");
        let first = RunDir::create_new(&parent, "a").unwrap();
        let second = RunDir::create_new(&parent, "a").unwrap();
        assert_eq!(first.path(), parent.join("a"));
        assert_eq!(second.path(), parent.join("a-2"));
    }

    #[test]
    fn an_env_id_with_a_slash_makes_one_directory() {
        let name = default_name("ALE/Pong v5", "ppo", 7);
        assert!(name.starts_with("ALE-Pong-v5-ppo-7-20"), "{name}");
    }
}
