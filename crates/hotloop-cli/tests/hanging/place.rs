//! A folder in which commands run, told where their environments are to hang.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing that is waited for takes as long on a machine that is not broken.
const LONG: Duration = Duration::from_secs(60);

/// The folder; what runs in it is known by a variable that has its name.
pub(crate) struct Place(TempDir);

/// A command at work; killed if nobody waits for its end.
pub(crate) struct Running<'a> {
    place: &'a Place,
    child: Child,
}

/// What a command left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("tmp")).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Environments hang there from now on; with "once", the next one alone; with "raise" they raise instead.
    pub(crate) fn hang(&self, at: &str, how: &str) {
        fs::write(self.path(&format!("hang-{at}")), how).unwrap();
    }

    /// They hang there no more.
    pub(crate) fn go_on(&self, at: &str) {
        for file in [format!("hang-{at}"), "hangs".into()] {
            let _ = fs::remove_file(self.path(&file));
        }
    }

    /// A script for the shell.
    pub(crate) fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(0o755)).unwrap();
    }

    /// Puts one text in the place of another in a file.
    pub(crate) fn change(&self, file: &str, from: &str, to: &str) {
        let text = self.read(file);
        assert!(text.contains(from), "{text}");
        fs::write(self.path(file), text.replace(from, to)).unwrap();
    }

    /// What lies in the folder, its run and the folder of temporary files, with the run's own texts.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut names = vec![];
        for dir in ["", "run", "run/checkpoints", "tmp"] {
            for entry in fs::read_dir(self.path(dir)).into_iter().flatten() {
                let name = format!("{dir}/{}", entry.unwrap().file_name().display());
                if !["/stdout", "/stderr"].contains(&&*name) {
                    names.push(name);
                }
            }
        }
        names.sort();
        for text in ["run/config.toml", "run/metrics.jsonl"] {
            names.push(self.read(text));
        }
        names
    }

    /// The text of a file; nothing where there is none.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// What the last command has said.
    pub(crate) fn said(&self) -> String {
        self.read("stderr")
    }

    pub(crate) fn start(&self, args: &[&str]) -> Running<'_> {
        self.start_by(Command::new(env!("CARGO_BIN_EXE_hotloop")), args)
    }

    /// The same, as `nohup` starts it.
    pub(crate) fn start_without_hangup(&self, args: &[&str]) -> Running<'_> {
        let mut nohup = Command::new("nohup");
        nohup.arg(env!("CARGO_BIN_EXE_hotloop"));
        self.start_by(nohup, args)
    }

    fn start_by(&self, mut command: Command, args: &[&str]) -> Running<'_> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = std::env::var_os("HOTLOOP_PYTHON");
        let python = python.map_or(workspace.join(".venv/bin/python"), PathBuf::from);
        let toys = workspace.join("crates/hotloop-cli/tests/hanging");
        let child = command
            .args(args)
            .current_dir(self.0.path())
            .env("RUST_LOG", "warn")
            .env("HOTLOOP_PYTHON", python)
            .env("PYTHONPATH", toys)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TMPDIR", self.path("tmp"))
            .env("HOTLOOP_TEST_PLACE", self.0.path())
            .stdin(Stdio::null())
            .stdout(File::create(self.path("stdout")).unwrap())
            .stderr(File::create(self.path("stderr")).unwrap())
            .spawn()
            .unwrap();
        Running { place: self, child }
    }

    /// The processes that were started here and have not ended.
    fn processes(&self) -> Vec<String> {
        let mark = format!("HOTLOOP_TEST_PLACE={}", self.0.path().display());
        let marked = |pid: &String| {
            // Of a zombie it is empty, of a process of somebody else it cannot be read.
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| variable == mark.as_bytes())
        };
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.map(|entry| entry.file_name().display().to_string());
        pids.filter(marked).collect()
    }
}

impl Running<'_> {
    /// Waits until something is so, while the command is at work.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&Place) -> bool) {
        let start = Instant::now();
        while !is_so(self.place) {
            let said = self.place.said();
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "before it {what}: {said}"
            );
            assert!(start.elapsed() < LONG, "it never {what}: {said}");
            sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn signal(&self, signal: i32) {
        let id = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: a signal to a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    }

    /// Waits for its end, and that no process of it is left.
    pub(crate) fn ends(mut self) -> Ended {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let said = self.place.said();
            assert!(start.elapsed() < LONG, "it does not end: {said}");
            sleep(Duration::from_millis(2));
        };
        let ended = Instant::now();
        while !self.place.processes().is_empty() {
            let left = self.place.processes();
            assert!(ended.elapsed() < Duration::from_secs(5), "left: {left:?}");
            sleep(Duration::from_millis(10));
        }
        Ended {
            code: status.code(),
            stdout: self.place.read("stdout"),
            stderr: self.place.said(),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // It has ended, but for a test that fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
