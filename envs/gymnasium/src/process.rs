//! A worker as a process: started in a session of its own, ended with all that it has started, and reaped.

use crate::aside::aside;
use crate::group;
use crate::output::Output;
use crate::shared::Memory;
use crate::worker::LINES;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const BOOTSTRAP: &str = include_str!("../python/bootstrap.py");

/// So long the end of a process that was killed is waited for where others wait, too.
const MOMENT: Duration = Duration::from_millis(100);

/// A worker process and what connects this one with it.
pub(crate) struct Process {
    child: Option<Child>,
    /// How it ended, once it has been reaped.
    ended: Option<ExitStatus>,
    pub(crate) socket: UnixStream,
    pub(crate) output: Output,
    /// Readable once the process has ended, where the system has such a thing.
    exit: Option<OwnedFd>,
    /// The worker's group is killed when this end is closed, by this program or by its end.
    lifeline: Option<PipeWriter>,
}

/// Libraries of worker processes use one thread each: there is a worker for every core.
const ONE_THREAD: [&str; 3] = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"];

impl Process {
    /// Starts a worker with this interpreter, which shares `memory`.
    pub(crate) fn start(interpreter: &Path, memory: &Memory, name: &str) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let (life, lifeline) = io::pipe()?;
        let (said, output) = io::pipe()?;
        let said = Output::new(said)?;
        let shared = [
            theirs.as_raw_fd(),
            life.as_raw_fd(),
            memory.descriptor().as_raw_fd(),
        ];
        let mut command = Command::new(interpreter);
        command
            .args(["-u", "-c", BOOTSTRAP])
            .args(shared.map(|fd| fd.to_string()))
            // For those who look at a list of processes.
            .arg(name)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        for variable in ONE_THREAD {
            if std::env::var_os(variable).is_none() {
                command.env(variable, "1");
            }
        }
        // Pictures are asked for as arrays; there may be no screen and no loudspeaker.
        for variable in ["SDL_VIDEODRIVER", "SDL_AUDIODRIVER"] {
            if std::env::var_os(variable).is_none() {
                command.env(variable, "dummy");
            }
        }
        // SAFETY: between fork and exec only calls are made that are safe there: no memory is taken, no lock.
        unsafe { command.pre_exec(move || prepare(shared)) };
        let child = command.spawn()?;
        let exit = exit_of(&child);
        Ok(Self {
            child: Some(child),
            ended: None,
            socket,
            output: said,
            exit,
            lifeline: Some(lifeline),
        })
    }

    /// Descriptors that tell something when they become readable: the answer, the output, the end.
    pub(crate) fn descriptors(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>, Option<BorrowedFd<'_>>) {
        let exit = self.exit.as_ref().map(AsFd::as_fd);
        (self.socket.as_fd(), self.output.descriptor(), exit)
    }

    /// The process's number.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Ends the worker and all that it has started, after it had `grace` to end by itself.
    pub(crate) fn end(&mut self, grace: Duration) {
        if let Some(child) = self.child.take() {
            self.ended = end(child, grace);
        }
    }

    /// The same, on a thread that nobody waits for but the end of the program.
    pub(crate) fn end_aside(&mut self, grace: Duration) {
        let Some(child) = self.child.take() else {
            return;
        };
        // Until then: it would be killed without the one, and trip over the end of the other.
        let kept = (
            self.lifeline.take(),
            self.output.descriptor().try_clone_to_owned(),
        );
        aside(move || {
            end(child, grace);
            drop(kept);
        });
    }

    /// As [`end`](Self::end), for one that hangs: it says first where, if it can, on its error output.
    pub(crate) fn end_hung(&mut self) {
        if let Some(child) = &self.child {
            // SAFETY: a signal to a child that has not been reaped.
            unsafe { libc::kill(pid(child), libc::SIGABRT) };
        }
        self.end(Duration::from_millis(100));
    }

    /// How it ended, and its last words.
    pub(crate) fn last_words(&mut self) -> String {
        let how = match self.ended {
            None => "it does not end although it was killed".to_string(),
            Some(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => signal_name(signal),
                (None, Some(code)) => format!("it ended with exit code {code}"),
                (None, None) => status.to_string(),
            },
        };
        match self.output.last_lines(LINES) {
            words if words.is_empty() => how,
            words => format!("{how}; its last output:\n{words}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Which signal is sent when a descriptor becomes ready: Linux's own, which libc does not name everywhere.
#[cfg(target_os = "linux")]
const F_SETSIG: libc::c_int = 10;

/// In the child, before it becomes the worker: only calls that are safe between fork and exec.
fn prepare(shared: [RawFd; 3]) -> io::Result<()> {
    let check = |result: i32| match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let no_core = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: calls of the system with arguments of their types; the limit outlives the call.
    unsafe {
        // Not to be reached by the terminal's Ctrl-C, and a group of its own to be ended as one.
        check(libc::setsid())?;
        libc::setrlimit(libc::RLIMIT_CORE, &no_core);
        for fd in shared {
            check(libc::fcntl(fd, libc::F_SETFD, 0))?;
        }
        // When the other end of the lifeline is closed the kernel kills the group, whatever its processes are, and
        // even while native code holds an interpreter.
        #[cfg(target_os = "linux")]
        {
            let life = shared[1];
            check(libc::fcntl(life, libc::F_SETOWN, -libc::getpid()))?;
            check(libc::fcntl(life, F_SETSIG, libc::SIGKILL))?;
            let flags = libc::fcntl(life, libc::F_GETFL);
            check(flags)?;
            check(libc::fcntl(life, libc::F_SETFL, flags | libc::O_ASYNC))?;
        }
    }
    Ok(())
}

/// Ends a child and all that it has started, after it had `grace` to end by itself.
fn end(mut child: Child, grace: Duration) -> Option<ExitStatus> {
    let due = Instant::now() + grace;
    while !has_ended(&child) && Instant::now() < due {
        sleep(Duration::from_millis(1));
    }
    // Before it is reaped: until then its number is no other group's.
    group::end_before_trackers(pid(&child));
    signal(&child, libc::SIGKILL);
    let ended = wait(&mut child, MOMENT);
    if ended.is_none() {
        // The system has first to finish something for it.
        aside(move || {
            let _ = child.wait();
        });
    }
    ended
}

/// Waits at most so long for the end of a child.
fn wait(child: &mut Child, time: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + time;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < end => sleep(Duration::from_millis(1)),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Whether a child has ended; it is not reaped.
fn has_ended(child: &Child) -> bool {
    // SAFETY: a structure of the system's, for which all zeros are valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: asks about our own child, and writes into `info`.
    let result = unsafe { libc::waitid(libc::P_PID, child.id(), &mut info, flags) };
    // SAFETY: it was written by waitid, or is all zeros.
    result != 0 || unsafe { info.si_pid() } != 0
}

fn pid(child: &Child) -> libc::pid_t {
    // Numbers of processes are small on every system.
    libc::pid_t::try_from(child.id()).unwrap_or(libc::pid_t::MAX)
}

/// Sends a signal to the whole group of a worker.
fn signal(child: &Child, signal: i32) {
    // SAFETY: a signal to a group whose leader is our child. That it may be gone is no fault.
    unsafe { libc::kill(-pid(child), signal) };
}

#[cfg(target_os = "linux")]
fn exit_of(child: &Child) -> Option<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: the child has not been reaped, so the number is its own.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid(child), 0) };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the descriptor is new and nobody else's.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(not(target_os = "linux"))]
fn exit_of(_: &Child) -> Option<OwnedFd> {
    None
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV (a fault in native code)",
        libc::SIGBUS => "SIGBUS (a fault in native code)",
        libc::SIGILL => "SIGILL (a fault in native code)",
        libc::SIGFPE => "SIGFPE (a fault in native code)",
        libc::SIGABRT => "SIGABRT (abort)",
        libc::SIGKILL => "SIGKILL (by somebody, or by the system for want of memory)",
        libc::SIGTERM => "SIGTERM",
        _ => return format!("it was ended by signal {signal}"),
    };
    format!("it was ended by {name}")
}
