//! Lockstep: all lanes of a group step together and are inferred together, in the slab's own row.
//!
//! One worker thread serves several groups in turn, whichever has arrived, so that one group steps
//! while another is inferred. An actor that is alone has nobody to step beside: its worker runs it itself,
//! which saves two wake-ups per row.

use crate::RolloutError;
use crate::batch::{Batch, Kind, Places};
use crate::hub::Hub;
use crate::policy::Policy;
use crate::protocol::{event::Event, rendezvous::Errand};
use crate::runner::{Place, Runner};
use crate::schedule::Course;
use crate::slab::{BlockRows, BlockToken, BlockTurn, Lender, SegmentBuf};
use crate::snapshot::{Boundary, GroupSnapshot, LaneSnapshot};
use crate::ticket::{Newest, Right};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Instant;

/// The lanes' states that an actor hands out, with its first lane.
pub(crate) type Saved = (usize, Vec<LaneSnapshot>);

/// The longest slice of actors that one of them wakes: what fits well into a thread's own queue.
const FAN: usize = 64;

/// How many actors one wake-up from outside the runtime stands for.
///
/// A wake from an OS thread goes through a queue that all of the runtime's threads share, under a lock;
/// a wake from inside goes to the waking thread's own queue. So the worker wakes one actor in `fan` and
/// that one the rest of its slice; with several slices for each thread there is work for all at once.
pub(crate) fn fan(actors: usize, env_threads: usize) -> usize {
    actors.div_ceil(4 * env_threads).clamp(1, FAN)
}

/// An actor's task: takes its turns until the rollout closes.
pub(crate) async fn actor(
    mut token: BlockToken,
    mut runner: Runner,
    saved: flume::Sender<Saved>,
    hub: Arc<Hub>,
) {
    token.enter().await;
    while let Some(mut turn) = token.turn().await {
        match turn.errand() {
            Errand::Step => runner.step(&mut turn, &hub).await,
            Errand::Reset => runner.reset(turn.first_row(), &hub).await,
            // The receiver outlives the tasks.
            Errand::Save => drop(saved.send((runner.first_lane(), runner.save()))),
        }
    }
}

impl Place for BlockTurn<'_> {
    #[inline]
    fn rows(&mut self) -> BlockRows<'_> {
        self.step_rows()
    }
}

/// What a worker is asked besides filling segments.
pub(crate) struct SaveRequest {
    pub(crate) group: usize,
    pub(crate) reply: flume::Sender<GroupSnapshot>,
}

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Between two segments.
    Idle,
    /// The actors write this row's observations.
    Observing { row: usize },
}

/// A group in its worker's hands.
pub(crate) struct Group {
    index: usize,
    lender: Lender,
    stage: Stage,
    /// To fill the segment at work; none between two.
    right: Option<Right>,
    /// Since when there is none.
    idle: Instant,
    decisions: u64,
    started: bool,
    boundary: Boundary,
}

impl Group {
    /// A group that begins at `from`, or with a reset.
    pub(crate) fn new(
        index: usize,
        lender: Lender,
        columns: &crate::slab::Columns,
        from: Option<&GroupSnapshot>,
    ) -> Self {
        let boundary = from.and_then(|from| from.boundary.clone());
        Self {
            index,
            lender,
            stage: Stage::Idle,
            right: None,
            idle: Instant::now(),
            decisions: from.map_or(0, |from| from.decisions),
            started: boundary.is_some(),
            boundary: boundary.unwrap_or_else(|| Boundary::new(columns)),
        }
    }

    /// Whether the schedule lets the group go on: its next row, or its first reset, which is no batch.
    fn has_turn(&self, worker: usize, course: &Course) -> bool {
        match course {
            Course::Following(player) if self.started => player
                .peek(worker)
                .is_some_and(|next| next.groups == [self.index]),
            _ => true,
        }
    }
}

/// The task of an actor that its worker runs itself.
pub(crate) type Alone = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One inference worker.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) groups: Vec<Group>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) signal: Arc<Event>,
    pub(crate) requests: flume::Receiver<SaveRequest>,
    /// The only actor, if it is run here.
    pub(crate) alone: Option<Alone>,
}

impl Worker {
    /// Serves the groups until the rollout closes.
    pub(crate) fn run(mut self) {
        self.step();
        while !self.hub.is_closed() {
            let mut progress = false;
            for g in 0..self.groups.len() {
                match self.advance(g) {
                    Ok(advanced) => progress |= advanced,
                    Err(error) => return self.hub.end(error),
                }
            }
            if !progress {
                self.step();
                self.sleep();
            }
        }
    }

    /// Lets the actor that is run here do what it can.
    fn step(&mut self) {
        if let Some(actor) = &mut self.alone {
            let start = Instant::now();
            // It waits for its turn and for nothing else, so nobody has to wake it; closing ends the worker.
            let _ = actor.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            self.hub.counters.workers[self.index]
                .0
                .stepped(start.elapsed());
        }
    }

    /// Sleeps until some group can go on.
    fn sleep(&mut self) {
        let start = Instant::now();
        let (groups, hub, requests, index) = (&self.groups, &self.hub, &self.requests, self.index);
        self.signal.wait(|| {
            let due = |group: &Group| {
                group.lender.arrived()
                    && group.has_turn(index, &hub.course)
                    && (group.stage != Stage::Idle || !hub.desks[group.index].tickets.is_empty())
            };
            (hub.is_closed() || !requests.is_empty() || groups.iter().any(due)).then_some(())
        });
        hub.counters.workers[self.index].0.waited(start.elapsed());
    }

    /// Takes group `g` to its next wait. False if it is still waiting.
    fn advance(&mut self, g: usize) -> Result<bool, RolloutError> {
        if let Ok(request) = self.requests.try_recv() {
            self.save(request);
        }
        let group = &mut self.groups[g];
        if !group.has_turn(self.index, &self.hub.course) {
            return Ok(false);
        }
        match group.stage {
            Stage::Idle => {
                if !group.lender.arrived() {
                    return Ok(false);
                }
                let Some(ticket) = self.hub.desks[group.index].tickets.pop() else {
                    return Ok(false);
                };
                group.right = Some(ticket.right);
                self.hub.counters.ungranted(group.idle.elapsed());
                let mut buf = ticket.buf;
                if group.started {
                    group.boundary.begin(&mut buf);
                    self.decide(g, buf, 0)?;
                } else {
                    group.started = true;
                    buf.first_starts().fill(1);
                    buf.set_first_depths(0);
                    group.lender.lend(buf, Errand::Reset, 0);
                    group.stage = Stage::Observing { row: 0 };
                }
            }
            Stage::Observing { row } => {
                let Some(mut buf) = group.lender.reclaim() else {
                    return Ok(false);
                };
                if row > 0 {
                    buf.mark_starts(row - 1);
                }
                self.decide(g, buf, row)?;
            }
        }
        Ok(true)
    }

    /// Decides on a row and lets the actors act on it; the last row is only evaluated, and the segment
    /// handed over.
    fn decide(&mut self, g: usize, mut buf: SegmentBuf, row: usize) -> Result<(), RolloutError> {
        let group = &mut self.groups[g];
        let Some(right) = group.right.take() else {
            unreachable!("a group has a segment only with the right to fill it");
        };
        let mut newest = Newest::new(&mut *self.policy);
        let (course, config) = (&self.hub.course, &self.hub.config);
        let (number, call) = match course {
            Course::Free => (0, right.call(&mut buf, row, &mut newest, config)),
            Course::Recording(recorder) => {
                let mut log = recorder.lock();
                let call = right.call(&mut buf, row, &mut newest, config);
                let number = log.add_batch(self.index, call, std::iter::once(group.index))?;
                (number, call)
            }
            Course::Following(player) => {
                let next = player.take(self.index);
                let right_row = next.call.follow(&mut buf, row);
                right_row.map_err(|reason| next.differs(group.index, reason))?;
                (next.number, next.call)
            }
        };
        let start = Instant::now();
        let places = buf.decision_row(row, call.bootstrap);
        let mut batch = Batch {
            spaces: &self.hub.spaces,
            observations: places.observations,
            depths: places.depths,
            masks: places.masks,
            valid: places.valid,
            starts: places.starts,
            actions: places.actions,
            log_probs: places.log_probs,
            values: places.values,
            states: places.states,
            places: Places(Kind::Run {
                first_lane: self.hub.desks[group.index].first_lane,
                counter: group.decisions,
            }),
            version: call.version,
            bootstrap: call.bootstrap,
        };
        course.check(number, &batch)?;
        let decided = self.policy.decide(&mut batch);
        let lanes = batch.len();
        self.hub.counters.workers[self.index]
            .0
            .decided(lanes, start.elapsed());
        decided.map_err(|error| RolloutError::Policy {
            worker: self.index,
            group: group.index,
            row,
            error,
        })?;
        if call.bootstrap {
            group.boundary.keep(&mut buf, row, &self.hub.spaces);
            group.stage = Stage::Idle;
            group.idle = Instant::now();
            self.hub.hand_over(buf, group.index, row, right);
        } else {
            group.right = Some(right);
            group.decisions += 1;
            group.stage = Stage::Observing { row: row + 1 };
            group.lender.lend(buf, Errand::Step, row);
        }
        self.hub.course.decided();
        Ok(())
    }

    /// Answers with the group's part of a snapshot and has its actors hand out the rest.
    fn save(&mut self, request: SaveRequest) {
        let Some(group) = self.groups.iter_mut().find(|g| g.index == request.group) else {
            return;
        };
        // Before the first segment its actors may still be on their way.
        let (lender, hub) = (&mut group.lender, &self.hub);
        self.signal
            .wait(|| (lender.arrived() || hub.is_closed()).then_some(()));
        if self.hub.is_closed() {
            return;
        }
        lender.save();
        // Whoever asked may have given up.
        let _ = request.reply.send(GroupSnapshot {
            decisions: group.decisions,
            boundary: group.started.then(|| group.boundary.clone()),
            lanes: vec![],
        });
    }
}

/// The consumer's side: wakes workers, and collects what they and their actors save.
pub(crate) struct Control {
    /// One for each worker; group `g` is served by worker `g % workers`.
    pub(crate) workers: Vec<(Arc<Event>, flume::Sender<SaveRequest>)>,
    pub(crate) saved: flume::Receiver<Saved>,
    /// The number of actors of each group.
    pub(crate) actors: usize,
}

impl Control {
    /// Tells the worker of `group` that there is a ticket.
    pub(crate) fn granted(&self, group: usize) {
        self.workers[group % self.workers.len()].0.notify();
    }

    /// Tells all workers that batches which waited for a publication may be decided.
    pub(crate) fn schedule_changed(&self) {
        self.workers.iter().for_each(|(signal, _)| signal.notify());
    }

    /// The state of `group`, which must be idle.
    pub(crate) fn save(&self, group: usize, hub: &Hub) -> Result<GroupSnapshot, RolloutError> {
        let (signal, requests) = &self.workers[group % self.workers.len()];
        let (reply, answer) = flume::bounded(1);
        requests
            .send(SaveRequest { group, reply })
            .map_err(|_| hub.end_reason())?;
        signal.notify();
        let mut snapshot = hub.receive(&answer)?;
        let mut blocks = (0..self.actors)
            .map(|_| hub.receive(&self.saved))
            .collect::<Result<Vec<_>, _>>()?;
        blocks.sort_unstable_by_key(|(first_lane, _)| *first_lane);
        snapshot.lanes = blocks.into_iter().flat_map(|(_, lanes)| lanes).collect();
        Ok(snapshot)
    }
}
