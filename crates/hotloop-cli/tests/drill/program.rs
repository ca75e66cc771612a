//! The program under drill: started in a folder of its own, watched, and looked after when it has ended.

use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing that is waited for takes as long on a machine that is not broken.
const LONG: Duration = Duration::from_secs(120);

/// A folder with all that runs in it leave. What they start is known by a variable that has its name.
pub(crate) struct Place {
    dir: TempDir,
    /// Names in /dev/shm when it was made.
    shared: Vec<String>,
}

/// A run at work; it is killed if nobody waits for its end.
pub(crate) struct Running<'a> {
    place: &'a Place,
    child: Child,
}

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        Self {
            dir,
            shared: names(Path::new("/dev/shm")),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts `hotloop train ARGS` here, in a process group of its own, as a shell does.
    pub(crate) fn train(&self, args: &[&str]) -> Running<'_> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = std::env::var_os("HOTLOOP_PYTHON");
        let python = python.map_or(workspace.join(".venv/bin/python"), PathBuf::from);
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotloop"));
        command
            .arg("train")
            .args(args)
            .current_dir(self.dir.path())
            .process_group(0)
            .env_remove("RUST_LOG")
            .env("HOTLOOP_PYTHON", python)
            .env(
                "PYTHONPATH",
                workspace.join("crates/hotloop-cli/tests/drill"),
            )
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TMPDIR", self.path("tmp"))
            .env("HOTLOOP_DRILL_PLACE", self.dir.path())
            .stdin(Stdio::null())
            .stdout(File::create(self.path("stdout")).unwrap())
            .stderr(File::create(self.path("stderr")).unwrap());
        // SAFETY: a call that is safe between fork and exec. Under nohup the signal would be passed over.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Running { place: self, child }
    }

    /// What the last run printed to standard output, which is JSON.
    pub(crate) fn report(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path("stdout")).unwrap()).unwrap()
    }

    /// The manifest of the last checkpoint, if there is one.
    pub(crate) fn checkpoint(&self) -> Option<Value> {
        let manifest = fs::read(self.path("run/checkpoints/last.json")).ok()?;
        Some(serde_json::from_slice(&manifest).unwrap())
    }

    /// Whether a file is being written at this moment, or was left half written.
    pub(crate) fn has_temporary_files(&self) -> bool {
        let of = |dir: &str| names(&self.path(dir));
        let run = [of("run"), of("run/checkpoints")].concat();
        run.iter().any(|name| name.ends_with(".tmp"))
    }

    /// No process, no shared memory and nothing in the folder for temporary files is left.
    fn is_clean(&self) -> Result<(), String> {
        let mark = format!("HOTLOOP_DRILL_PLACE={}", self.dir.path().display());
        let marked = |pid: &String| {
            // Of a zombie it is empty, of a process of somebody else it cannot be read.
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|v| v == mark.as_bytes())
        };
        let processes: Vec<_> = names(Path::new("/proc"))
            .into_iter()
            .filter(marked)
            .collect();
        let mut shared = names(Path::new("/dev/shm"));
        shared.retain(|name| !self.shared.contains(name));
        let temporary = names(&self.path("tmp"));
        if processes.is_empty() && shared.is_empty() && temporary.is_empty() {
            return Ok(());
        }
        Err(format!(
            "processes {processes:?}, /dev/shm {shared:?}, temporary files {temporary:?}"
        ))
    }
}

impl Running<'_> {
    /// Waits until something is so, while the run goes on.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&Place) -> bool) {
        let start = Instant::now();
        while !is_so(self.place) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended before {what}: {}", self.said());
            assert!(start.elapsed() < LONG, "no {what}: {}", self.said());
            sleep(Duration::from_millis(1));
        }
    }

    /// Sends a signal as a terminal does, to all of the group; SIGKILL to the program alone.
    pub(crate) fn signal(&self, signal: i32) {
        let id = libc::pid_t::try_from(self.child.id()).unwrap();
        let to = if signal == libc::SIGKILL { id } else { -id };
        // SAFETY: a signal to a child of ours that has not been waited for, or to the group that it leads.
        assert_eq!(unsafe { libc::kill(to, signal) }, 0);
    }

    /// Waits for its end, and that nothing of it is left.
    pub(crate) fn ends(mut self) -> Ended {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < LONG, "it does not end: {}", self.said());
            sleep(Duration::from_millis(2));
        };
        let stderr = self.said();
        let ended = Instant::now();
        while let Err(left) = self.place.is_clean() {
            assert!(
                ended.elapsed() < Duration::from_secs(5),
                "left: {left}; {stderr}"
            );
            sleep(Duration::from_millis(20));
        }
        Ended { status, stderr }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.place.path("stderr")).unwrap()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // It has ended, but for a test that fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The names in a folder; none if there is no such folder.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
