//! The meeting of a group's actors with their inference worker, turn after turn.
//!
//! The worker announces a turn; every actor does its part and arrives; when the last has arrived the
//! worker goes on. Between the announcement and the last arrival the actors own the rows of the turn,
//! otherwise the worker does. Actors wait here and nowhere else.

use super::Close;
use super::event::Event;
use super::seat::Seat;
use super::sync::{Apart, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};

/// What actors are to do in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Reset all lanes; first observations go into row 0.
    Reset = 0,
    /// Step all lanes with the decisions of the row.
    Step = 1,
    /// Hand out the state of all lanes.
    Save = 2,
}

/// One turn: what to do, in which segment and row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What to do.
    pub errand: Errand,
    /// The segment's number in the group's slab.
    pub segment: u16,
    /// The row.
    pub row: u32,
}

/// A turn in one word, so that an actor learns all of it in one load: bit 0 says that the meeting is
/// closed, bits 1–2 the errand, 3–15 count turns, so that no two in succession look the same, 16–31
/// the segment, 32–63 the row.
const CLOSED: u64 = 1;
const COUNT: u64 = 1 << 3;
const COUNT_MASK: u64 = 0xfff8;

impl Turn {
    fn pack(self, previous: u64) -> u64 {
        (previous.wrapping_add(COUNT) & COUNT_MASK)
            | (self.errand as u64) << 1
            | (self.segment as u64) << 16
            | (self.row as u64) << 32
    }

    fn unpack(word: u64) -> Self {
        Self {
            errand: match word >> 1 & 3 {
                0 => Errand::Reset,
                1 => Errand::Step,
                _ => Errand::Save,
            },
            segment: (word >> 16) as u16,
            row: (word >> 32) as u32,
        }
    }
}

/// The meeting place of one group.
#[derive(Debug)]
pub struct Rendezvous {
    turn: Apart<AtomicU64>,
    pending: Apart<AtomicUsize>,
    seats: Box<[Seat]>,
    fan: usize,
    worker: Arc<Event>,
}

impl Rendezvous {
    /// A meeting of `actors` actors with the worker that sleeps at `worker`. The worker wakes every
    /// `fan`-th actor, and each of these the `fan - 1` that follow it.
    pub fn new(actors: usize, fan: usize, worker: Arc<Event>) -> Self {
        Self {
            turn: Apart(AtomicU64::new(0)),
            pending: Apart(AtomicUsize::new(actors)),
            seats: (0..actors).map(|_| Seat::default()).collect(),
            fan,
            worker,
        }
    }

    /// An actor's first arrival; its waker is left for good. Returns the turn it has seen.
    pub fn enter(&self, seat: usize, cx: &Context<'_>) -> Seen {
        self.seats[seat].sit(cx.waker());
        self.arrive();
        Seen(0)
    }

    /// The next turn for the actor at `seat`, or `None` when the meeting is closed.
    pub fn poll_turn(&self, seat: usize, seen: &mut Seen) -> Poll<Option<Turn>> {
        // Acquire: what the worker wrote before it announced the turn is seen by the actor.
        let word = self.turn.0.load(Ordering::Acquire);
        if word & CLOSED != 0 {
            return Poll::Ready(None);
        }
        if word == seen.0 {
            return Poll::Pending;
        }
        seen.0 = word;
        if seat.is_multiple_of(self.fan) {
            let end = (seat + self.fan).min(self.seats.len());
            self.seats[seat + 1..end].iter().for_each(Seat::wake);
        }
        Poll::Ready(Some(Turn::unpack(word)))
    }

    /// An actor has done its part of the turn.
    pub fn arrive(&self) {
        // Release: the worker, which reads the 0 that all these make, sees what every actor wrote.
        if self.pending.0.fetch_sub(1, Ordering::Release) == 1 {
            self.worker.notify();
        }
    }

    /// Whether every actor has arrived: the rows are the worker's.
    pub fn all_arrived(&self) -> bool {
        self.pending.0.load(Ordering::Acquire) == 0
    }

    /// Announces a turn: the rows are the actors' until all have arrived. Only the group's worker may,
    /// and only when all have arrived. False if the meeting is closed; then nobody comes.
    pub fn announce(&self, turn: Turn) -> bool {
        debug_assert!(self.all_arrived());
        self.pending.0.store(self.seats.len(), Ordering::Relaxed);
        let previous = self.turn.0.load(Ordering::Relaxed);
        // Only closing can come between, and it must not be overwritten.
        let announced = previous & CLOSED == 0
            && self
                .turn
                .0
                .compare_exchange(
                    previous,
                    turn.pack(previous),
                    Ordering::Release,
                    Ordering::Relaxed,
                )
                .is_ok();
        if announced {
            self.seats.iter().step_by(self.fan).for_each(Seat::wake);
        }
        announced
    }
}

impl Close for Rendezvous {
    fn close(&self) {
        self.turn.0.fetch_or(CLOSED, Ordering::AcqRel);
        // Not only every `fan`-th: an actor that leaves wakes nobody.
        self.seats.iter().for_each(Seat::wake_early);
        self.worker.notify();
    }
}

/// The last turn that an actor has seen.
#[derive(Debug)]
pub struct Seen(u64);
