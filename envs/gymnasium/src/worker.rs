//! The conversation with one worker, for those who wait and for those who poll.

use crate::message::{Inbox, Message};
use crate::process::Process;
use crate::recipe::Recipe;
use crate::shared::{Memory, Shared};
use hotloop_env::{EnvError, Spaces};
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// So many lines of its output are told.
pub(crate) const LINES: usize = 16;
/// So long a worker may take to close its environments before it is killed.
const GRACE: Duration = Duration::from_millis(500);
/// So long a picture may take.
const PICTURE: Duration = Duration::from_secs(30);

/// A worker with its half of the conversation.
pub(crate) struct Worker {
    wired: Option<Wired>,
    pub(crate) process: Process,
    inbox: Inbox,
    buffer: Box<[u8]>,
    memory: Memory,
    pub(crate) shared: Option<Shared>,
    lanes: usize,
}

/// Copies of a worker's descriptors, watched by the runtime that polls.
struct Wired {
    socket: AsyncFd<OwnedFd>,
    output: Option<AsyncFd<OwnedFd>>,
    exit: Option<AsyncFd<OwnedFd>>,
}

/// Why nothing more will come of a worker.
#[derive(Debug)]
pub(crate) struct Gone(Option<String>);

impl Worker {
    /// Starts a worker that makes `lanes` environments.
    pub(crate) fn start(recipe: &Recipe, lanes: usize) -> Result<Self, EnvError> {
        Self::begin(recipe, lanes, false)
    }

    fn begin(recipe: &Recipe, lanes: usize, probe: bool) -> Result<Self, EnvError> {
        let interpreter = recipe.interpreter();
        let failed = |error: io::Error| {
            EnvError::new(format!(
                "a worker cannot be started with {}: {error}",
                interpreter.display()
            ))
        };
        let memory = Memory::new().map_err(failed)?;
        let process = Process::start(interpreter, &memory, recipe.id()).map_err(failed)?;
        let mut worker = Self {
            wired: None,
            process,
            inbox: Inbox::default(),
            buffer: vec![0; 1 << 16].into_boxed_slice(),
            memory,
            shared: None,
            lanes,
        };
        // A worker that ended at once says more than this failure.
        let _ = worker.tell(&recipe.init(lanes, probe));
        worker
            .process
            .socket
            .set_nonblocking(true)
            .map_err(failed)?;
        Ok(worker)
    }

    fn tell(&mut self, value: &Value) -> io::Result<()> {
        let text = value.to_string();
        let size = (text.len() as u32).to_le_bytes();
        self.send(&[&size, text.as_bytes()].concat())
    }

    /// Sends bytes, which fit into the socket: a worker has at most one message to read.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.process.socket).write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let (socket, ..) = self.process.descriptors();
                    let mut wait = [interest(Some(socket), libc::POLLOUT)];
                    poll(&mut wait, Duration::from_secs(1));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Agrees on the layout of these spaces, after the worker's hello.
    pub(crate) fn agree(&mut self, spaces: &Spaces) -> io::Result<()> {
        let shared = self.memory.map(spaces, self.lanes)?;
        let layout = shared.describe(spaces);
        self.shared = Some(shared);
        self.tell(&layout)
    }

    /// The next message, if it has come.
    fn receive(&mut self) -> Result<Option<Message>, Gone> {
        loop {
            match self.inbox.take() {
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) => {}
                Err(error) => return Err(Gone(Some(error.to_string()))),
            }
            match (&self.process.socket).read(&mut self.buffer) {
                Ok(0) => return Err(Gone(None)),
                Ok(read) => self.inbox.add(&self.buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Its end was closed with words of ours unread.
                Err(_) => return Err(Gone(None)),
            }
        }
    }

    /// Waits for the next message, at most until `end` if there is one; none if none came.
    pub(crate) fn wait(&mut self, end: Option<Instant>) -> Result<Option<Message>, Gone> {
        let mut talks = true;
        loop {
            if let Some(message) = self.receive()? {
                return Ok(Some(message));
            }
            let (socket, output, exit) = self.process.descriptors();
            let mut wait = [Some(socket), Some(output).filter(|_| talks), exit]
                .map(|fd| interest(fd, libc::POLLIN));
            let left = match end {
                Some(end) => end.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return Ok(None);
            }
            poll(&mut wait, left);
            if wait[1].revents != 0 && self.process.output.drain().is_ok() {
                talks = false;
            }
            if wait[2].revents != 0 {
                return self.receive()?.map(Some).ok_or(Gone(None));
            }
        }
    }

    /// The next message, or the task is woken when it comes. Must be called within a runtime.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, Gone>> {
        if self.wired.is_none() {
            match Wired::new(&self.process) {
                Ok(wired) => self.wired = Some(wired),
                Err(error) => return Poll::Ready(Err(Gone(Some(error.to_string())))),
            }
        }
        loop {
            match self.receive() {
                Ok(Some(message)) => return Poll::Ready(Ok(message)),
                Err(gone) => return Poll::Ready(Err(gone)),
                Ok(None) => {}
            }
            let Some(wired) = &mut self.wired else {
                return Poll::Pending;
            };
            // What is said aside must not fill its pipe.
            while let Some(output) = &wired.output {
                match output.poll_read_ready(cx) {
                    Poll::Ready(Ok(mut ready)) => match self.process.output.drain() {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
                        _ => {
                            drop(ready);
                            wired.output = None;
                        }
                    },
                    Poll::Ready(Err(_)) => wired.output = None,
                    Poll::Pending => break,
                }
            }
            if let Some(exit) = &wired.exit
                && exit.poll_read_ready(cx).is_ready()
            {
                return Poll::Ready(self.receive().and_then(|last| last.ok_or(Gone(None))));
            }
            match ready!(wired.socket.poll_read_ready(cx)) {
                // It was empty just now; if it has filled since, it says so again.
                Ok(mut ready) => ready.clear_ready(),
                Err(error) => return Poll::Ready(Err(Gone(Some(error.to_string())))),
            }
        }
    }

    /// The picture of a lane: width, height, and three bytes for each pixel.
    pub(crate) fn picture(&mut self, lane: usize) -> Result<(u32, u32, Vec<u8>), EnvError> {
        let lane = u32::try_from(lane).unwrap_or(u32::MAX).to_le_bytes();
        // If it has ended, waiting for its answer finds out, and how.
        let _ = self.send(&[b"d", lane.as_slice()].concat());
        let why = match self.wait(Some(Instant::now() + PICTURE)) {
            Ok(Some(Message::Picture(width, height, rgb))) => return Ok((width, height, rgb)),
            Ok(Some(Message::NoPicture(said))) => said,
            Ok(Some(other)) => format!("its worker said {other:?}, and gave no picture"),
            Ok(None) => {
                let (limit, said) = (PICTURE.as_secs(), self.abandon());
                format!(
                    "render() has not returned within {limit} s; its worker was ended, and said:\n{said}"
                )
            }
            Err(gone) => format!("its worker is gone within render(): {}", self.bury(gone)),
        };
        Err(EnvError::new(why))
    }

    /// Ends a worker of which nothing more will come, and tells how it ended.
    pub(crate) fn bury(&mut self, gone: Gone) -> String {
        self.wired = None;
        match gone.0 {
            Some(reason) => {
                self.process.end(Duration::ZERO);
                reason
            }
            None => {
                self.process.end(GRACE);
                self.process.last_words()
            }
        }
    }

    /// Ends a worker that does not answer, and tells where it was.
    pub(crate) fn abandon(&mut self) -> String {
        self.wired = None;
        self.process.end_hung();
        self.process.output.last_lines(LINES)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.wired = None;
        // It reads the end of the conversation, and closes its environments.
        let _ = self.process.socket.shutdown(std::net::Shutdown::Both);
        self.process.end_aside(GRACE);
    }
}

impl Wired {
    fn new(process: &Process) -> io::Result<Self> {
        let (socket, output, exit) = process.descriptors();
        let watch = |fd: BorrowedFd<'_>| {
            let fd = fd.try_clone_to_owned()?;
            // SAFETY: it owns the descriptor, which stays open and the same until it is dropped.
            let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
            watched.map_err(io::Error::from)
        };
        Ok(Self {
            socket: watch(socket)?,
            output: Some(watch(output)?),
            exit: exit.map(watch).transpose()?,
        })
    }
}

/// What `poll` is to look for; it passes over a descriptor of -1.
fn interest(fd: Option<BorrowedFd<'_>>, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd: fd.map_or(-1, |fd| fd.as_raw_fd()),
        events,
        revents: 0,
    }
}

/// Waits until one of these is ready, at most so long.
fn poll(wait: &mut [libc::pollfd], time: Duration) {
    let millis = i32::try_from(time.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: a slice of the length given. An interruption is seen as nothing being ready.
    unsafe { libc::poll(wait.as_mut_ptr(), wait.len() as libc::nfds_t, millis) };
}

/// The spaces of the recipe's environment, from a worker that makes one.
pub(crate) fn probe(recipe: &Recipe) -> Result<Spaces, EnvError> {
    let mut worker = Worker::begin(recipe, 1, true)?;
    let deadline = recipe.reset_deadline();
    match worker.wait(deadline.and_then(|deadline| Instant::now().checked_add(deadline))) {
        Ok(Some(Message::Hello(hello))) => {
            Ok(Spaces::new(hello.observation.into(), hello.action.into())?)
        }
        Ok(Some(Message::Refused(reason))) => Err(EnvError::new(reason)),
        Ok(Some(other)) => Err(EnvError::new(format!("its worker began with {other:?}"))),
        Ok(None) => {
            let seconds = deadline.unwrap_or_default().as_secs_f64();
            let what =
                format!("it was not made and reset within {seconds} s (rollout.reset_deadline)");
            Err(EnvError::new(match worker.abandon() {
                said if said.is_empty() => what,
                said => format!("{what}; its worker was ended, and said:\n{said}"),
            }))
        }
        Err(gone) => Err(EnvError::new(format!(
            "its worker ({}, which has to be Python 3.9 or newer with Gymnasium) ended before it was made: {}",
            recipe.interpreter().display(),
            worker.bury(gone)
        ))),
    }
}
