//! Threads that touch libtorch, and the work that is handed to them.

use crate::{device, error::LearnError};
use hotloop_env::panic_message;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::JoinHandle,
};

type Task = Box<dyn FnOnce() + Send>;

/// Threads of one intra-op thread each, named `learner-0`, `learner-1`, …. Dropping it joins them.
#[derive(Debug)]
pub(crate) struct Pool {
    tasks: Option<flume::Sender<Task>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `threads` threads.
    pub(crate) fn new(threads: usize) -> Result<Self, LearnError> {
        let (tasks, inbox) = flume::unbounded::<Task>();
        let mut pool = Self {
            tasks: Some(tasks),
            threads: Vec::with_capacity(threads),
        };
        for i in 0..threads {
            let (inbox, name) = (inbox.clone(), format!("learner-{i}"));
            let thread = std::thread::Builder::new()
                .name(name.clone())
                .spawn(move || {
                    device::set_threads_once();
                    while let Ok(task) = inbox.recv() {
                        task();
                    }
                })
                .map_err(|source| LearnError::Io {
                    action: "start thread",
                    path: name.into(),
                    source,
                })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// The threads running.
    pub(crate) fn threads(&self) -> &[JoinHandle<()>] {
        &self.threads
    }

    /// Does all of `work`, by whichever threads are free; the results are in the order of the work. A
    /// piece that panics is an error with its text. A piece that is alone is done by the caller: for a small
    /// minibatch two wake-ups take longer than they could save.
    pub(crate) fn run<T, F>(&self, work: Vec<F>) -> Vec<Result<T, LearnError>>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, LearnError> + Send + 'static,
    {
        if work.len() == 1 {
            device::set_threads_once();
            return work.into_iter().map(|work| caught(0, work)).collect();
        }
        let (outbox, done) = flume::bounded(work.len());
        let stopped = || LearnError::Spec {
            what: "the learner's threads",
            reason: "they have stopped".into(),
        };
        let mut results: Vec<_> = work.iter().map(|_| Err(stopped())).collect();
        for (shard, work) in work.into_iter().enumerate() {
            let outbox = outbox.clone();
            let task = move || {
                // There is room for every result, and nobody to tell if nobody waits.
                let _ = outbox.send((shard, caught(shard, work)));
            };
            if let Some(tasks) = &self.tasks {
                // If the threads have stopped, so says the result that stays in place.
                let _ = tasks.send(Box::new(task));
            }
        }
        drop(outbox);
        for (shard, result) in done {
            results[shard] = result;
        }
        results
    }
}

/// What a piece of work comes to; its panic is an error.
fn caught<T>(shard: usize, work: impl FnOnce() -> Result<T, LearnError>) -> Result<T, LearnError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(LearnError::ShardPanicked {
            shard,
            message: panic_message(panic.as_ref()),
        })
    })
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.tasks = None;
        for thread in self.threads.drain(..) {
            // A worker's panics are caught and reported where they happen.
            let _ = thread.join();
        }
    }
}
