//! A folder in which commands run, told where their environments are to hang; watched, and looked after when they have
//! ended.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing that is waited for takes as long on a machine that is not broken.
const LONG: Duration = Duration::from_secs(120);

/// The folder; what runs in it is known by a variable that has its name.
pub(crate) struct Place {
    dir: TempDir,
    /// Names in /dev/shm when it was made.
    shared: Vec<String>,
}

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
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
            shared: names(Path::new("/dev/shm")),
        };
        fs::create_dir(place.path("tmp")).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
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

    /// In a process group of its own, as a shell does.
    fn start_by(&self, mut command: Command, args: &[&str]) -> Running<'_> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = std::env::var_os("HOTLOOP_PYTHON");
        let python = python.map_or(workspace.join(".venv/bin/python"), PathBuf::from);
        let toys = workspace.join("crates/hotloop-cli/tests/python");
        command
            .args(args)
            .process_group(0)
            .current_dir(self.dir.path())
            .env("RUST_LOG", "warn")
            .env("HOTLOOP_PYTHON", python)
            .env("PYTHONPATH", toys)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TMPDIR", self.path("tmp"))
            .env("HOTLOOP_TEST_PLACE", self.dir.path())
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

    /// Whether a file of the run is being written at this moment, or was left half written.
    pub(crate) fn has_temporary_files(&self) -> bool {
        let of = |dir: &str| names(&self.path(dir));
        let run = [of("run"), of("run/checkpoints")].concat();
        run.iter().any(|name| name.ends_with(".tmp"))
    }

    /// No process, no shared memory and nothing in the folder for temporary files is left.
    fn is_clean(&self) -> Result<(), String> {
        let mark = format!("HOTLOOP_TEST_PLACE={}", self.dir.path().display());
        let marked = |pid: &String| {
            // Of a zombie it is empty, of a process of somebody else it cannot be read.
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| variable == mark.as_bytes())
        };
        let mut processes = names(Path::new("/proc"));
        processes.retain(marked);
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
            let said = self.place.said();
            assert!(start.elapsed() < LONG, "it does not end: {said}");
            sleep(Duration::from_millis(2));
        };
        let ended = Instant::now();
        while let Err(left) = self.place.is_clean() {
            assert!(ended.elapsed() < LONG, "left: {left}");
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

/// The names in a folder; none if there is no such folder.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().display().to_string())
        .collect()
}
