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

use crate::RolloutError;
use crate::batch::{Batch, Kind, Places};
use crate::hub::{Full, Hub, Ticket};
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
use crate::runner::{Place, Runner};
use crate::slab::{BlockRows, Columns, SegmentBuf};
use crate::snapshot::{Boundary, GroupSnapshot, LaneSnapshot};
use hotloop_env::Spaces;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

/// Everything about a block that its actor and the workers hand to each other.
pub(crate) struct Baton {
    block: usize,
    /// The segment being filled; none between two.
    buf: Option<SegmentBuf>,
    version: u64,
    /// The row to be decided on, or to be acted on.
    row: usize,
    decisions: u64,
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
            buf: None,
            version: 0,
            row: 0,
            decisions: from.map_or(0, |from| from.decisions),
            started: boundary.is_some(),
            boundary: boundary.unwrap_or_else(|| Boundary::new(columns)),
            save: None,
        })
    }

    fn buf(&mut self) -> &mut SegmentBuf {
        self.buf
            .as_mut()
            .expect("a baton leaves its station only with a segment")
    }

    /// Whether the row is only to be evaluated.
    fn bootstrap(&self) -> bool {
        self.buf
            .as_ref()
            .is_some_and(|buf| self.row == buf.shape().steps)
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
    ready: Inbox<Box<Baton>>,
    /// One for each worker.
    relays: Vec<Relay>,
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
        }
    }

    /// Sends the baton of `block` on its way, if it is parked and there is a ticket.
    pub(crate) fn granted(&self, block: usize, hub: &Hub) {
        let parked = &self.stations[block].parked;
        if let Some((baton, ticket)) = pair(parked, &hub.desks[block].tickets) {
            self.begin(baton, ticket);
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
    fn begin(&self, mut baton: Box<Baton>, ticket: Ticket) {
        baton.version = ticket.version;
        baton.row = 0;
        let buf = baton.buf.insert(ticket.buf);
        if baton.started {
            baton.boundary.begin(buf.first_row());
            put(self.ready.push(baton));
        } else {
            put(self.stations[baton.block].to_actor.give(baton));
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
        put(station.to_actor.give(baton));
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

/// The batch in which a worker gathers rows: all memory that it needs.
struct Staging {
    /// Words, so that records are aligned for any element.
    observations: Vec<u64>,
    masks: Vec<u8>,
    valid: Vec<u8>,
    actions: Vec<u64>,
    log_probs: Vec<f32>,
    values: Vec<f32>,
    lanes: Vec<usize>,
    counters: Vec<u64>,
}

impl Staging {
    fn new(spaces: &Spaces, lanes: usize) -> Self {
        let words = |bytes: usize| vec![0u64; (lanes * bytes).div_ceil(size_of::<u64>())];
        Self {
            observations: words(spaces.observation.record_bytes()),
            masks: vec![0; lanes * spaces.action.mask_bytes()],
            valid: vec![0; lanes],
            actions: words(spaces.action.record_bytes()),
            log_probs: vec![0.0; lanes],
            values: vec![0.0; lanes],
            lanes: vec![0; lanes],
            counters: vec![0; lanes],
        }
    }

    /// Has `policy` decide on the rows of `batons`, which all have one version, and all or none of
    /// which are to be evaluated only.
    fn decide(
        &mut self,
        batons: &mut [Box<Baton>],
        policy: &mut dyn Policy,
        hub: &Hub,
    ) -> Result<usize, crate::PolicyError> {
        let spaces = &*hub.spaces;
        let (observation, mask, action) = (
            spaces.observation.record_bytes(),
            spaces.action.mask_bytes(),
            spaces.action.record_bytes(),
        );
        let (bootstrap, version) = (batons[0].bootstrap(), batons[0].version);
        let observations: &mut [u8] = bytemuck::cast_slice_mut(&mut self.observations);
        let actions: &mut [u8] = bytemuck::cast_slice_mut(&mut self.actions);
        let mut end = 0;
        for baton in batons.iter_mut() {
            let (row, counter, first_lane) = (
                baton.row,
                baton.decisions,
                hub.desks[baton.block].first_lane,
            );
            let places = baton.buf().decision_row(row);
            let (start, n) = (end, places.valid.len());
            end += n;
            observations[start * observation..end * observation]
                .copy_from_slice(places.observations);
            self.masks[start * mask..end * mask].copy_from_slice(places.masks);
            self.valid[start..end].copy_from_slice(places.valid);
            self.counters[start..end].fill(counter);
            for (i, lane) in self.lanes[start..end].iter_mut().enumerate() {
                *lane = first_lane + i;
            }
        }
        let decided = if bootstrap { 0 } else { end };
        policy.decide(&mut Batch {
            spaces,
            observations: &observations[..end * observation],
            masks: &self.masks[..end * mask],
            valid: &self.valid[..end],
            actions: &mut actions[..decided * action],
            log_probs: &mut self.log_probs[..decided],
            values: &mut self.values[..end],
            places: Places(Kind::Each {
                lanes: &self.lanes[..end],
                counters: &self.counters[..end],
            }),
            version,
            bootstrap,
        })?;
        let mut start = 0;
        for baton in batons.iter_mut() {
            let row = baton.row;
            let places = baton.buf().decision_row(row);
            let end = start + places.values.len();
            places.values.copy_from_slice(&self.values[start..end]);
            if !bootstrap {
                places
                    .log_probs
                    .copy_from_slice(&self.log_probs[start..end]);
                places
                    .actions
                    .copy_from_slice(&actions[start * action..end * action]);
            }
            start = end;
        }
        Ok(end)
    }
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
        Self {
            index,
            policy,
            staging: Staging::new(&hub.spaces, blocks * lanes),
            batons: Vec::with_capacity(blocks),
            floor,
            hub,
            blocks,
        }
    }

    /// Serves whichever blocks are ready until the rollout closes.
    pub(crate) fn run(mut self) {
        loop {
            let start = Instant::now();
            let Received::Item(first) = self.floor.ready.pop(None) else {
                return;
            };
            self.hub.counters.workers[self.index]
                .0
                .waited(start.elapsed());
            self.batons.push(first);
            while self.batons.len() < self.blocks
                && let Some(baton) = self.floor.ready.try_pop()
            {
                self.batons.push(baton);
            }
            if let Err(error) = self.decide() {
                return self.hub.end(error);
            }
            while let Some(baton) = self.batons.pop() {
                self.send_on(baton);
            }
            self.floor.relays[self.index].run();
        }
    }

    /// Decides on all rows at hand: one call of the policy for each version, and for rows that are
    /// only evaluated.
    fn decide(&mut self) -> Result<(), RolloutError> {
        let key = |baton: &Box<Baton>| (baton.version, baton.bootstrap());
        self.batons.sort_unstable_by_key(key);
        let (staging, policy, hub) = (&mut self.staging, &mut *self.policy, &*self.hub);
        for batons in self.batons.chunk_by_mut(|a, b| key(a) == key(b)) {
            let start = Instant::now();
            let lanes =
                staging
                    .decide(batons, policy, hub)
                    .map_err(|error| RolloutError::Policy {
                        worker: self.index,
                        group: batons[0].block,
                        row: batons[0].row,
                        error,
                    })?;
            hub.counters.workers[self.index]
                .0
                .decided(lanes, start.elapsed());
        }
        Ok(())
    }

    /// Gives a decided row to its actor, and an evaluated segment to the consumer.
    fn send_on(&self, mut baton: Box<Baton>) {
        if !baton.bootstrap() {
            baton.decisions += 1;
            let block = baton.block;
            let to_actor = &self.floor.stations[block].to_actor;
            put(to_actor.leave(baton));
            if self.floor.relays[self.index].list(block).is_err() {
                to_actor.wake();
            }
            return;
        }
        let row = baton.row;
        if let Some(mut buf) = baton.buf.take() {
            let last = buf.decision_row(row);
            baton
                .boundary
                .keep(last.observations, last.masks, last.valid);
            self.hub.hand_over(Full {
                buf,
                group: baton.block,
                version: baton.version,
            });
        }
        self.floor.park(baton, &self.hub);
    }
}
