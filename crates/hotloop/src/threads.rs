//! Named threads: whatever touches libtorch runs on one.

use crate::Error;
use hotloop_learn::device;
use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// Runs `work` on a thread of this name, with one intra-op thread of libtorch, and waits for it. A
/// panic goes on in the caller.
pub(crate) fn run<T: Send>(
    name: &'static str,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    scope(|s| {
        let started = Builder::new().name(name.into()).spawn_scoped(s, || {
            device::set_threads_once();
            work()
        });
        match started {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => Err(Error::Thread {
                name,
                reason: error.to_string(),
            }),
        }
    })
}
