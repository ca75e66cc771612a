//! Lends a segment to a group's actors for one turn.

use super::memory::{BlockRows, FirstRow, Slab};
use super::segment::SegmentBuf;
use crate::protocol::event::Event;
use crate::protocol::rendezvous::{Errand, Rendezvous, Seen, Turn};
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;

/// The worker's side: lends the segment and gets it back when all actors have arrived.
#[derive(Debug)]
pub(crate) struct Lender {
    slab: Arc<Slab>,
    rendezvous: Arc<Rendezvous>,
    lent: Option<SegmentBuf>,
}

/// An actor's side: the right to the columns of its lanes, turn by turn. There is one for each actor,
/// and their lanes do not overlap.
#[derive(Debug)]
pub(crate) struct BlockToken {
    slab: Arc<Slab>,
    rendezvous: Arc<Rendezvous>,
    seat: usize,
    lanes: Range<usize>,
    seen: Option<Seen>,
}

/// The two sides, and their meeting place, for a group whose segments are `slab`'s: a token for each
/// `lanes_per_actor` of its lanes, and a lender for the worker that sleeps at `worker`. For `fan` see
/// [`Rendezvous::new`].
pub(crate) fn lease(
    slab: &Arc<Slab>,
    lanes_per_actor: usize,
    fan: usize,
    worker: Arc<Event>,
) -> (Arc<Rendezvous>, Lender, Vec<BlockToken>) {
    let lanes = slab.columns().lanes;
    let actors = lanes.div_ceil(lanes_per_actor);
    let rendezvous = Arc::new(Rendezvous::new(actors, fan, worker));
    let token = |seat| BlockToken {
        slab: slab.clone(),
        rendezvous: rendezvous.clone(),
        seat,
        lanes: seat * lanes_per_actor..((seat + 1) * lanes_per_actor).min(lanes),
        seen: None,
    };
    let tokens = (0..actors).map(token).collect();
    let lender = Lender {
        slab: slab.clone(),
        rendezvous: rendezvous.clone(),
        lent: None,
    };
    (rendezvous, lender, tokens)
}

impl Lender {
    /// Whether all actors have arrived.
    pub(crate) fn arrived(&self) -> bool {
        self.rendezvous.all_arrived()
    }

    fn free(&self) -> bool {
        self.lent.is_none() && self.arrived()
    }

    /// Gives `buf` to the actors for one turn. If the rollout is closing nobody takes it.
    pub(crate) fn lend(&mut self, buf: SegmentBuf, errand: Errand, row: usize) {
        assert!(
            self.free(),
            "a segment is lent when all actors have arrived"
        );
        assert!(
            Arc::ptr_eq(&buf.slab, &self.slab),
            "the actors' tokens reach the memory of this slab only"
        );
        // A group has no more than that: see `RolloutConfig::validate`.
        let segment = buf.index as u16;
        // Locked away before anybody is told, so that no borrow of it can exist during the turn.
        self.lent = Some(buf);
        self.rendezvous.announce(Turn {
            errand,
            segment,
            row: row as u32,
        });
    }

    /// Has all actors hand out their lanes' states.
    pub(crate) fn save(&mut self) {
        assert!(self.free(), "states are saved when all actors have arrived");
        self.rendezvous.announce(Turn {
            errand: Errand::Save,
            segment: 0,
            row: 0,
        });
    }

    /// Takes the segment back, if one is lent and all actors have arrived.
    pub(crate) fn reclaim(&mut self) -> Option<SegmentBuf> {
        if self.rendezvous.all_arrived() {
            self.lent.take()
        } else {
            None
        }
    }
}

impl BlockToken {
    /// Takes part from now on. Must be called in the task that will call [`BlockToken::turn`].
    pub(crate) async fn enter(&mut self) {
        poll_fn(|cx| {
            if self.seen.is_none() {
                self.seen = Some(self.rendezvous.enter(self.seat, cx));
            }
            std::task::Poll::Ready(())
        })
        .await;
    }

    /// Waits for the next turn; `None` when the rollout is closing.
    pub(crate) async fn turn(&mut self) -> Option<BlockTurn<'_>> {
        let (rendezvous, seat) = (&self.rendezvous, self.seat);
        let seen = self.seen.as_mut()?;
        let turn = poll_fn(|_| rendezvous.poll_turn(seat, seen)).await?;
        Some(BlockTurn { token: self, turn })
    }
}

/// One turn of one actor. Dropping it, in a panic as well, is the arrival that the worker waits for.
#[derive(Debug)]
pub(crate) struct BlockTurn<'a> {
    token: &'a mut BlockToken,
    turn: Turn,
}

impl BlockTurn<'_> {
    pub(crate) fn errand(&self) -> Errand {
        self.turn.errand
    }

    /// What the block works on; only in a turn to step.
    #[inline]
    pub(crate) fn step_rows(&mut self) -> BlockRows<'_> {
        assert!(self.turn.errand == Errand::Step, "the turn is not a step");
        let token = &*self.token;
        // SAFETY: the worker announces a step only with the segment locked away in the `Lender`, for a
        // row below T, and takes it back only when this turn has been dropped, which ends `'_`. The
        // announcement and the arrival, as releases, order our accesses between those of the worker.
        // Other actors of the group have other lanes, and `&mut self` allows one borrow at a time.
        unsafe {
            token.slab.block_rows(
                self.turn.segment.into(),
                self.turn.row as usize,
                &token.lanes,
            )
        }
    }

    /// The lanes' part of row 0; only in a turn to reset.
    pub(crate) fn first_row(&mut self) -> FirstRow<'_> {
        assert!(self.turn.errand == Errand::Reset, "the turn is not a reset");
        let token = &*self.token;
        // SAFETY: as in `step_rows`.
        unsafe { token.slab.first_row(self.turn.segment.into(), &token.lanes) }
    }
}

impl Drop for BlockTurn<'_> {
    fn drop(&mut self) {
        self.token.rendezvous.arrive();
    }
}
