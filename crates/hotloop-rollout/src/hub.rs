//! What all parts of a rollout share: the desks where segments are granted and returned, the queue of
//! full ones, faults, counters, and how the run ended.

use crate::protocol::{
    Close,
    event::Event,
    inbox::{Inbox, Received},
    sync::{ArrayQueue, Mutex, lock},
};
use crate::schedule::{self, Course};
use crate::slab::SegmentBuf;
use crate::stats::Counters;
use crate::ticket::{Acting, Outstanding, Quota, Right, Ticket};
use crate::told::Told;
use crate::watchdog::Stuck;
use crate::{OnFault, RolloutConfig, RolloutError, Scheduler};
use hotloop_env::{Beacons, Fault, Spaces};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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
    /// Segments granted so far.
    granted: AtomicU64,
    /// Whether all lanes are set aside, so that no more segments are taken.
    retired: AtomicBool,
}

/// Shared by the consumer, the inference workers and the actors.
pub(crate) struct Hub {
    pub(crate) config: RolloutConfig,
    pub(crate) spaces: Arc<Spaces>,
    pub(crate) desks: Vec<Desk>,
    /// Rows granted and not received yet.
    pub(crate) outstanding: Arc<AtomicUsize>,
    pub(crate) full: Inbox<Full>,
    pub(crate) counters: Counters,
    faults: (flume::Sender<Fault>, flume::Receiver<Fault>),
    members: Vec<Arc<dyn Close>>,
    closed: AtomicBool,
    /// Notified when the run ends.
    pub(crate) closing: Event,
    /// Where each actor's block is at work, in order of lanes.
    pub(crate) beacons: Arc<Beacons>,
    pub(crate) course: Course,
    /// In a replay: segments that came before their turn to be received.
    pub(crate) early: Mutex<Vec<Full>>,
    ended: Mutex<Option<RolloutError>>,
    told: Told,
}

impl Hub {
    /// `members` are closed when the run ends.
    pub(crate) fn new(
        config: RolloutConfig,
        spaces: Arc<Spaces>,
        segments: Vec<Vec<SegmentBuf>>,
        workers: usize,
        beacons: Arc<Beacons>,
        course: Course,
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
                    granted: AtomicU64::new(0),
                    retired: AtomicBool::new(false),
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
            closing: Event::new(),
            beacons,
            course,
            early: Mutex::new(vec![]),
            ended: Mutex::new(None),
            told: Told::default(),
        }
    }

    /// Moves a free segment of `group` to its tickets; false if the group takes no more.
    pub(crate) fn grant(&self, group: usize, acting: Acting) -> Result<bool, RolloutError> {
        if self.is_closed() {
            return Err(self.end_reason());
        }
        let desk = self.desks.get(group).ok_or(RolloutError::NoSuchGroup {
            group,
            groups: self.desks.len(),
        })?;
        if self.refuses(group, desk)? {
            return Ok(false);
        }
        let buf = desk.free.pop().ok_or(RolloutError::NoFreeSegment {
            group,
            segments: desk.free.capacity(),
        })?;
        desk.granted.fetch_add(1, Ordering::Relaxed);
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
        Ok(true)
    }

    /// Whether a grant is refused, because all of the group's lanes were set aside.
    fn refuses(&self, group: usize, desk: &Desk) -> Result<bool, RolloutError> {
        let granted = desk.granted.load(Ordering::Relaxed);
        if let Course::Following(player) = &self.course {
            // When they are seen to be depends on time.
            return Ok(player.refuses(group, granted));
        }
        let retired = desk.retired.load(Ordering::Relaxed);
        if retired && let Course::Recording(recorder) = &self.course {
            let group = group as u64;
            recorder
                .lock()
                .add(&schedule::Event::Refused { group, granted })?;
        }
        Ok(retired)
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
        if let Course::Following(player) = &self.course {
            return self.take_recorded(player, deadline);
        }
        match self.full.pop(deadline) {
            Received::Item(full) => {
                self.counters.queued(full.since.elapsed());
                if let Course::Recording(recorder) = &self.course {
                    let group = full.group as u64;
                    recorder.lock().add(&schedule::Event::Received { group })?;
                }
                Ok(Some(full))
            }
            Received::TimedOut => Ok(None),
            Received::Closed => Err(self.end_reason()),
        }
    }

    /// Counts, logs and keeps a fault. True if it is one too many: then its lane is to be set aside. Ends
    /// the run if it is to fail, or too few lanes are left.
    #[cold]
    pub(crate) fn fault(&self, fault: Fault) -> bool {
        let env = || self.config.env.clone();
        self.counters.fault(&fault);
        let told = Fault {
            message: self.told.tell(&fault.message).into_owned(),
            ..fault
        };
        tracing::warn!("{}, {told}", self.config.env);
        // Failures in a row are counted one by one: this is true once for each lane.
        let aside = fault.in_a_row == self.config.max_failures_in_a_row + 1;
        if self.config.on_fault == OnFault::Fail {
            self.end(RolloutError::Fault {
                env: env(),
                fault: fault.clone(),
            });
        } else if aside {
            let lanes = self.config.lanes;
            let left = lanes - self.counters.set_aside();
            tracing::warn!(
                "{}, lane {} is set aside for good after {} failures in a row; {left} of {lanes} lanes are left",
                self.config.env,
                fault.lane,
                fault.in_a_row
            );
            if 2 * left < lanes {
                self.end(RolloutError::TooFewLanes {
                    env: env(),
                    left,
                    lanes,
                    fault: fault.clone(),
                });
            }
        }
        if self.faults.0.try_send(fault).is_err() {
            self.counters.fault_dropped();
        }
        aside
    }

    /// The block that begins at `first_lane` has no lane left. In first-ready mode, where it is a group
    /// of its own, it takes no more segments.
    #[cold]
    pub(crate) fn retire(&self, first_lane: usize) {
        if let Scheduler::FirstReady { .. } = self.config.scheduler {
            let group = first_lane / self.config.lanes_per_group();
            self.desks[group].retired.store(true, Ordering::Relaxed);
        }
    }

    /// The lane that a call which does not return is of, or those of the whole block.
    pub(crate) fn lanes_of(&self, stuck: Stuck) -> Range<usize> {
        let mut blocks = (0..self.desks.len()).flat_map(|group| self.config.actors(group));
        let block = blocks.nth(stuck.block).unwrap_or_default();
        match stuck.at.lane {
            Some(lane) => block.start + lane..block.start + lane + 1,
            None => block,
        }
    }

    /// The error that names a call which does not return.
    pub(crate) fn stuck(&self, stuck: Stuck) -> RolloutError {
        RolloutError::Stuck {
            env: self.config.env.clone(),
            lanes: self.lanes_of(stuck),
            step: stuck.at.step,
            phase: stuck.at.phase,
            time: stuck.time,
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
        if let Course::Following(player) = &self.course {
            player.close();
        }
        self.members.iter().for_each(|member| member.close());
        self.full.close();
        self.closing.notify();
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
