//! First-ready: every block goes its own way, and inference takes whichever blocks are ready.
//!
//! A block's [`Baton`] goes round: from its actor, when it has written an observation, through the
//! ready queue to an inference worker, and back. Whoever has the baton owns the segment that the block
//! fills; between two segments it is parked at the block's station, until there is a ticket.
#![allow(
    clippy::vec_box,
    clippy::borrowed_box,
    reason = "batons are boxed to move from queue to queue"
)]

use crate::hub::Hub;
use crate::policy::Policy;
use crate::protocol::{
    Close,
    event::Event,
    handoff::Handoff,
    inbox::{Inbox, Received},
    pairing::pair,
    relay::Relay,
    sync::ArrayQueue,
};
use crate::replay::Reunion;
use crate::runner::{Place, Runner};
use crate::schedule::Course;
use crate::slab::{BlockRows, Columns, SegmentBuf};
use crate::snapshot::{Boundary, GroupSnapshot, LaneSnapshot};
use crate::staging::Staging;
use crate::ticket::{Call, Newest, Ticket};
use crate::{RolloutConfig, RolloutError};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

/// Everything about a block that its actor and the workers hand to each other.
pub(crate) struct Baton {
    pub(crate) block: usize,
    /// The segment being filled; none between two.
    ticket: Option<Ticket>,
    /// Since when there is none.
    idle: Instant,
    /// How the row is to be decided; set by the worker who does.
    pub(crate) call: Call,
    /// The row to be decided on, or to be acted on.
    pub(crate) row: usize,
    pub(crate) decisions: u64,
    /// False until the first reset.
    started: bool,
    boundary: Boundary,
    /// Who wants the lanes' states: then that is all the actor is to do.
    save: Option<flume::Sender<(Box<Baton>, Vec<LaneSnapshot>)>>,
}

impl Baton {
    /// The baton of a block that begins at `from`, or with a reset.
    pub(crate) fn new(block: usize, columns: &Columns, from: Option<&GroupSnapshot>) -> Box<Self> {
        let boundary = from.and_then(|from| from.boundary.clone());
        Box::new(Self {
            block,
            ticket: None,
            idle: Instant::now(),
            call: Call {
                version: 0,
                bootstrap: false,
            },
            row: 0,
            decisions: from.map_or(0, |from| from.decisions),
            started: boundary.is_some(),
            boundary: boundary.unwrap_or_else(|| Boundary::new(columns)),
            save: None,
        })
    }

    fn ticket(&mut self) -> &mut Ticket {
        self.ticket
            .as_mut()
            .expect("a baton leaves its station only with a segment")
    }

    pub(crate) fn buf(&mut self) -> &mut SegmentBuf {
        &mut self.ticket().buf
    }

    /// Decides how the row is to be decided.
    fn choose_call(&mut self, newest: &mut Newest<'_>, config: &RolloutConfig) {
        let row = self.row;
        let Ticket { buf, right } = self.ticket();
        self.call = right.call(buf, row, newest, config);
    }

    /// Has the row decided as was recorded. An error if it cannot be.
    pub(crate) fn follow(&mut self, call: Call) -> Result<(), String> {
        let row = self.row;
        self.call = call;
        call.follow(self.buf(), row)
    }
}

impl Place for Baton {
    fn rows(&mut self) -> BlockRows<'_> {
        let row = self.row;
        self.buf().step_rows(row)
    }
}

/// Where a block's baton is handed to its actor, or waits for a ticket.
pub(crate) struct Station {
    to_actor: Handoff<Box<Baton>>,
    parked: ArrayQueue<Box<Baton>>,
    parking: Event,
}

/// All stations and the queue of batons that are ready for inference.
pub(crate) struct Floor {
    stations: Vec<Station>,
    pub(crate) ready: Inbox<Box<Baton>>,
    /// One for each worker.
    relays: Vec<Relay>,
    reunion: Reunion,
}

impl Close for Floor {
    fn close(&self) {
        self.ready.close();
        self.relays.iter().for_each(Relay::close);
        for station in &self.stations {
            station.to_actor.close();
            station.parking.notify();
        }
    }
}

/// Why a baton always finds a place: there is one of each block.
const ONE_BATON: &str = "there is one baton for each block, and room for all";

impl Floor {
    /// A floor with all batons parked.
    pub(crate) fn new(batons: Vec<Box<Baton>>, workers: usize) -> Self {
        let blocks = batons.len();
        let stations = batons.into_iter().map(|baton| {
            let parked = ArrayQueue::new(1);
            put(parked.push(baton));
            Station {
                to_actor: Handoff::new(),
                parked,
                parking: Event::new(),
            }
        });
        Self {
            stations: stations.collect(),
            ready: Inbox::new(blocks),
            relays: (0..workers).map(|_| Relay::new(blocks)).collect(),
            reunion: Reunion::new(blocks),
        }
    }

    /// Sends the baton of `block` on its way, if it is parked and there is a ticket.
    pub(crate) fn granted(&self, block: usize, hub: &Hub) {
        let parked = &self.stations[block].parked;
        if let Some((baton, ticket)) = pair(parked, &hub.desks[block].tickets) {
            self.begin(baton, ticket, hub);
        }
    }

    /// Parks a baton that has no segment, until there is a ticket.
    fn park(&self, baton: Box<Baton>, hub: &Hub) {
        let block = baton.block;
        put(self.stations[block].parked.push(baton));
        self.granted(block, hub);
        self.stations[block].parking.notify();
    }

    /// Begins the next segment.
    fn begin(&self, mut baton: Box<Baton>, ticket: Ticket, hub: &Hub) {
        hub.counters.ungranted(baton.idle.elapsed());
        baton.row = 0;
        let buf = &mut baton.ticket.insert(ticket).buf;
        if baton.started {
            baton.boundary.begin(buf);
            put(self.ready.push(baton));
        } else {
            buf.first_starts().fill(1);
            buf.set_first_depths(0);
            given(self.stations[baton.block].to_actor.give(baton));
        }
    }

    /// The state of `block`, which must have no segment.
    pub(crate) fn save(&self, block: usize, hub: &Hub) -> Result<GroupSnapshot, RolloutError> {
        let station = &self.stations[block];
        // Its last segment may have been received before it was parked.
        let parked = station.parking.wait(|| {
            if hub.is_closed() {
                return Some(None);
            }
            station.parked.pop().map(Some)
        });
        let mut baton = parked.ok_or_else(|| hub.end_reason())?;
        let (reply, answer) = flume::bounded(1);
        baton.save = Some(reply);
        given(station.to_actor.give(baton));
        let (baton, lanes) = hub.receive(&answer)?;
        let snapshot = GroupSnapshot {
            decisions: baton.decisions,
            boundary: baton.started.then(|| baton.boundary.clone()),
            lanes,
        };
        self.park(baton, hub);
        Ok(snapshot)
    }
}

fn put(outcome: Result<(), Box<Baton>>) {
    assert!(outcome.is_ok(), "{ONE_BATON}");
}

fn given(before: Option<Box<Baton>>) {
    assert!(before.is_none(), "{ONE_BATON}");
}

/// An actor's task: takes its turns until the rollout closes.
pub(crate) async fn actor(block: usize, mut runner: Runner, floor: Arc<Floor>, hub: Arc<Hub>) {
    let station = &floor.stations[block];
    while let Some(mut baton) = poll_fn(|cx| station.to_actor.poll_take(cx)).await {
        if let Some(reply) = baton.save.take() {
            // Whoever asked may have given up; then the rollout is closing.
            let _ = reply.send((baton, runner.save()));
            continue;
        }
        if baton.started {
            runner.step(&mut *baton, &hub).await;
            baton.row += 1;
        } else {
            runner.reset(baton.buf().first_row(), &hub).await;
            baton.started = true;
        }
        put(floor.ready.push(baton));
    }
}

/// The task that wakes the actors whose rows worker `index` has decided on.
pub(crate) async fn relay(index: usize, floor: Arc<Floor>) {
    let wake = |block: usize| floor.stations[block].to_actor.wake();
    poll_fn(|cx| floor.relays[index].poll(cx, wake)).await;
}

/// One inference worker.
pub(crate) struct Worker {
    index: usize,
    policy: Box<dyn Policy>,
    floor: Arc<Floor>,
    hub: Arc<Hub>,
    staging: Staging,
    batons: Vec<Box<Baton>>,
    /// The most blocks in one batch.
    blocks: usize,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        policy: Box<dyn Policy>,
        floor: Arc<Floor>,
        hub: Arc<Hub>,
        max_batch: usize,
    ) -> Self {
        let lanes = hub.config.lanes_per_group();
        let blocks = (max_batch / lanes).min(hub.desks.len());
        let state = hub.config.state.map_or(0, |state| state.bytes);
        Self {
            index,
            policy,
            staging: Staging::new(&hub.spaces, blocks * lanes, state),
            batons: Vec::with_capacity(blocks),
            floor,
            hub,
            blocks,
        }
    }

    /// Serves whichever blocks are ready until the rollout closes.
    pub(crate) fn run(mut self) {
        let (hub, floor) = (self.hub.clone(), self.floor.clone());
        let waited = &hub.counters.workers[self.index].0;
        loop {
            let start = Instant::now();
            let served = if let Course::Following(player) = &hub.course {
                let Some(taken) = floor.reunion.take(player, &floor.ready, &mut self.batons) else {
                    return;
                };
                waited.waited(start.elapsed());
                taken.and_then(|number| self.finish(number))
            } else {
                let Received::Item(first) = floor.ready.pop(None) else {
                    return;
                };
                waited.waited(start.elapsed());
                self.serve(first)
            };
            if let Err(error) = served {
                return hub.end(error);
            }
        }
    }

    /// Decides for a block and for all others that are ready, and sends them on.
    pub(crate) fn serve(&mut self, first: Box<Baton>) -> Result<(), RolloutError> {
        self.batons.push(first);
        while self.batons.len() < self.blocks
            && let Some(baton) = self.floor.ready.try_pop()
        {
            self.batons.push(baton);
        }
        let number = self.choose_calls()?;
        self.finish(number)
    }

    /// Chooses for each row how it is to be decided, and brings together what is decided alike. Returns
    /// the number of the first batch.
    fn choose_calls(&mut self) -> Result<u64, RolloutError> {
        let hub = &*self.hub;
        let mut log = match &hub.course {
            Course::Recording(recorder) => Some(recorder.lock()),
            _ => None,
        };
        let mut newest = Newest::new(&mut *self.policy);
        for baton in &mut self.batons {
            baton.choose_call(&mut newest, &hub.config);
        }
        // In the order of blocks, so that memory is walked through and not jumped about in.
        self.batons
            .sort_unstable_by_key(|baton| (baton.call, baton.block));
        let mut first = None;
        if let Some(log) = &mut log {
            for batons in self.batons.chunk_by(|a, b| a.call == b.call) {
                let blocks = batons.iter().map(|baton| baton.block);
                let number = log.add_batch(0, batons[0].call, blocks)?;
                first = first.or(Some(number));
            }
        }
        Ok(first.unwrap_or(0))
    }

    /// Decides on the rows at hand and sends their blocks on. `number` is that of their first batch.
    fn finish(&mut self, number: u64) -> Result<(), RolloutError> {
        self.decide(number)?;
        let mut batons = std::mem::take(&mut self.batons);
        batons.drain(..).for_each(|baton| self.send_on(baton));
        self.batons = batons;
        self.floor.relays[self.index].run();
        self.hub.course.decided();
        Ok(())
    }

    /// One call of the policy for each version, and for rows that are only evaluated.
    fn decide(&mut self, first: u64) -> Result<(), RolloutError> {
        let hub = &*self.hub;
        let calls = self.batons.chunk_by_mut(|a, b| a.call == b.call);
        for (batons, number) in calls.zip(first..) {
            let start = Instant::now();
            let mut batch = self.staging.gather(batons, hub);
            hub.course.check(number, &batch)?;
            let lanes = batch.len();
            let decided = self.policy.decide(&mut batch);
            decided.map_err(|error| RolloutError::Policy {
                worker: self.index,
                group: batons[0].block,
                row: batons[0].row,
                error,
            })?;
            self.staging.scatter(batons);
            hub.counters.workers[self.index]
                .0
                .decided(lanes, start.elapsed());
        }
        Ok(())
    }

    /// Gives a decided row to its actor, and an evaluated segment to the consumer.
    fn send_on(&self, mut baton: Box<Baton>) {
        if !baton.call.bootstrap {
            baton.decisions += 1;
            let block = baton.block;
            let to_actor = &self.floor.stations[block].to_actor;
            given(to_actor.leave(baton));
            if self.floor.relays[self.index].list(block).is_err() {
                to_actor.wake();
            }
            return;
        }
        let row = baton.row;
        if let Some(Ticket { mut buf, right }) = baton.ticket.take() {
            baton.boundary.keep(&mut buf, row, &self.hub.spaces);
            baton.idle = Instant::now();
            self.hub.hand_over(buf, baton.block, row, right);
        }
        self.floor.park(baton, &self.hub);
    }
}
