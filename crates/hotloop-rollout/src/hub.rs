//! What all parts of a rollout share: the desks where segments are granted and returned, the queue of
//! full ones, faults, counters, and how the run ended.

use crate::protocol::{
    Close,
    inbox::{Inbox, Received},
    sync::{ArrayQueue, Mutex, lock},
};
use crate::slab::SegmentBuf;
use crate::stats::Counters;
use crate::ticket::{Acting, Outstanding, Quota, Right, Ticket};
use crate::{OnFault, RolloutConfig, RolloutError};
use hotloop_env::{Fault, Spaces};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Faults that wait for the consumer; more are counted, not kept.
const FAULTS_KEPT: usize = 1024;

/// A segment on its way to the consumer.
#[derive(Debug)]
pub(crate) struct Full {
    pub(crate) buf: SegmentBuf,
    pub(crate) group: usize,
    /// Rows but for the bootstrap row.
    pub(crate) rows: usize,
    /// Ends when the consumer has received the segment.
    pub(crate) right: Right,
    /// When it was handed over.
    pub(crate) since: Instant,
}

/// Where the segments of one group wait.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) first_lane: usize,
    pub(crate) free: ArrayQueue<SegmentBuf>,
    pub(crate) tickets: ArrayQueue<Ticket>,
    /// Segments granted and not yet received.
    pub(crate) outstanding: Arc<AtomicUsize>,
}

/// Shared by the consumer, the inference workers and the actors.
pub(crate) struct Hub {
    pub(crate) config: RolloutConfig,
    pub(crate) spaces: Arc<Spaces>,
    pub(crate) desks: Vec<Desk>,
    /// Rows granted and not received yet.
    pub(crate) outstanding: Arc<AtomicUsize>,
    full: Inbox<Full>,
    pub(crate) counters: Counters,
    faults: (flume::Sender<Fault>, flume::Receiver<Fault>),
    members: Vec<Arc<dyn Close>>,
    closed: AtomicBool,
    ended: Mutex<Option<RolloutError>>,
}

impl Hub {
    /// `members` are closed when the run ends.
    pub(crate) fn new(
        config: RolloutConfig,
        spaces: Arc<Spaces>,
        segments: Vec<Vec<SegmentBuf>>,
        workers: usize,
        members: Vec<Arc<dyn Close>>,
    ) -> Self {
        let lanes = config.lanes_per_group();
        let total = segments.iter().map(Vec::len).sum();
        let desks = segments
            .into_iter()
            .enumerate()
            .map(|(group, bufs)| {
                let free = ArrayQueue::new(bufs.len());
                let tickets = ArrayQueue::new(bufs.len());
                for buf in bufs {
                    // The queue was made for as many.
                    let _ = free.push(buf);
                }
                Desk {
                    first_lane: group * lanes,
                    free,
                    tickets,
                    outstanding: Arc::default(),
                }
            })
            .collect();
        Self {
            config,
            spaces,
            desks,
            outstanding: Arc::default(),
            full: Inbox::new(total),
            counters: Counters::new(workers),
            faults: flume::bounded(FAULTS_KEPT),
            members,
            closed: AtomicBool::new(false),
            ended: Mutex::new(None),
        }
    }

    /// Moves a free segment of `group` to its tickets.
    pub(crate) fn grant(&self, group: usize, acting: Acting) -> Result<(), RolloutError> {
        if self.is_closed() {
            return Err(self.end_reason());
        }
        let desk = self.desks.get(group).ok_or(RolloutError::NoSuchGroup {
            group,
            groups: self.desks.len(),
        })?;
        let buf = desk.free.pop().ok_or(RolloutError::NoFreeSegment {
            group,
            segments: desk.free.capacity(),
        })?;
        let quota = Quota::new(
            self.config.steps * self.config.lanes_per_group(),
            Outstanding {
                rows: self.outstanding.clone(),
                segments: desk.outstanding.clone(),
            },
        );
        // There are as many places for tickets as segments.
        let _ = desk.tickets.push(Ticket {
            right: Right::new(acting, quota),
            buf,
        });
        Ok(())
    }

    /// Counts a segment of `rows` rows and gives it to the consumer.
    pub(crate) fn hand_over(&self, buf: SegmentBuf, group: usize, rows: usize, right: Right) {
        let short = rows < self.config.steps;
        self.counters.segment(buf.env_steps(rows), short);
        let full = Full {
            buf,
            group,
            rows,
            right,
            since: Instant::now(),
        };
        // There are as many places for full segments as segments.
        let _ = self.full.push(full);
    }

    /// Waits for a full segment; `None` at the deadline.
    pub(crate) fn take_full(
        &self,
        deadline: Option<Instant>,
    ) -> Result<Option<Full>, RolloutError> {
        match self.full.pop(deadline) {
            Received::Item(full) => {
                self.counters.queued(full.since.elapsed());
                Ok(Some(full))
            }
            Received::TimedOut => Ok(None),
            Received::Closed => Err(self.end_reason()),
        }
    }

    /// Counts, logs and keeps a fault, and ends the run if it is one too many.
    #[cold]
    pub(crate) fn fault(&self, fault: Fault) {
        self.counters.fault(fault.phase);
        tracing::warn!("{}, {fault}", self.config.env);
        let limit = match self.config.on_fault {
            OnFault::Restart => self.config.max_failures_in_a_row,
            OnFault::Fail => 0,
        };
        if fault.in_a_row > limit {
            self.end(RolloutError::Fault {
                env: self.config.env.clone(),
                fault: fault.clone(),
                limit,
            });
        }
        if self.faults.0.try_send(fault).is_err() {
            self.counters.fault_dropped();
        }
    }

    /// Faults that the consumer has not taken yet.
    pub(crate) fn take_faults(&self) -> impl Iterator<Item = Fault> + '_ {
        self.faults.1.try_iter()
    }

    /// Ends the run with an error; the first one counts.
    #[cold]
    pub(crate) fn end(&self, error: RolloutError) {
        lock(&self.ended).get_or_insert(error);
        self.close();
    }

    /// Lets everybody go who waits anywhere.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.members.iter().for_each(|member| member.close());
        self.full.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits for an answer from inside the rollout, for as long as there may be one.
    pub(crate) fn receive<T>(&self, answer: &flume::Receiver<T>) -> Result<T, RolloutError> {
        loop {
            match answer.recv_timeout(Duration::from_millis(20)) {
                Ok(value) => return Ok(value),
                Err(flume::RecvTimeoutError::Timeout) if !self.is_closed() => {}
                Err(_) => return Err(self.end_reason()),
            }
        }
    }

    /// Why the run ended, once it is closed.
    pub(crate) fn end_reason(&self) -> RolloutError {
        lock(&self.ended).clone().unwrap_or(RolloutError::Closed)
    }
}
