//! Reads a schedule, and says whose turn it is.

use super::event::{Event, take};
use super::recorder::MAGIC;
use crate::RolloutError;
use crate::batch::Batch;
use crate::protocol::sync::{Mutex, lock};
use crate::protocol::{Close, event::Event as Alarm};
use crate::ticket::Call;
use hotloop_env::FaultPhase;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a consumer that waits looks whether that can end.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// A recorded batch.
#[derive(Debug)]
struct Recorded {
    call: Call,
    groups: Range<usize>,
    hash: Option<u64>,
}

/// What the consumer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consumed {
    Received(usize),
    Refused { group: usize, granted: u64 },
    Published(u64),
}

/// How far a replay has come.
#[derive(Debug, Default)]
struct Progress {
    /// Batches taken, of each queue.
    taken: Vec<usize>,
    decided: usize,
    published: usize,
    /// Events of the consumer.
    consumed: usize,
}

/// A batch to be decided as it was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Following<'a> {
    pub(crate) number: u64,
    pub(crate) call: Call,
    pub(crate) groups: &'a [usize],
}

impl Following<'_> {
    /// The error of a batch that cannot be decided as it was, because of `group`.
    pub(crate) fn differs(&self, group: usize, reason: String) -> RolloutError {
        RolloutError::Replay(format!("batch {}: group {group} {reason}", self.number))
    }
}

/// A schedule being replayed.
#[derive(Debug)]
pub(crate) struct Player {
    batches: Vec<Recorded>,
    /// Those of all batches.
    groups: Vec<usize>,
    /// The batches of each queue.
    queues: Vec<Vec<usize>>,
    /// For each publication the number of batches before it.
    barriers: Vec<usize>,
    consumed: Vec<Consumed>,
    /// By lane and turn.
    given_up: HashMap<(usize, u64), FaultPhase>,
    progress: Mutex<Progress>,
    changed: Alarm,
    closed: AtomicBool,
}

impl Player {
    /// Reads the file at `path`, whose settings must be these.
    pub(super) fn open(
        path: &Path,
        settings: &[(String, String)],
        groups: usize,
    ) -> Result<Self, RolloutError> {
        let failed = |reason: String| RolloutError::Schedule {
            path: path.to_path_buf(),
            reason,
        };
        let bytes =
            std::fs::read(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
        let mut rest = bytes
            .strip_prefix(MAGIC)
            .ok_or_else(|| failed("is not a schedule, or one of another version".into()))?;
        let recorded =
            read_settings(&mut rest).ok_or_else(|| failed("ends before its first event".into()))?;
        compare(&recorded, settings).map_err(failed)?;
        let mut player = Self {
            batches: vec![],
            groups: vec![],
            queues: vec![],
            barriers: vec![],
            consumed: vec![],
            given_up: HashMap::new(),
            progress: Mutex::default(),
            changed: Alarm::new(),
            closed: AtomicBool::new(false),
        };
        loop {
            let at = bytes.len() - rest.len();
            let spoilt = |what: String| failed(format!("is spoilt: {what} at byte {at}"));
            let event = Event::read(&mut rest)
                .map_err(|kind| spoilt(format!("there is no event of kind {kind}")))?;
            let Some(event) = event else { break };
            player
                .add(event, groups)
                .ok_or_else(|| spoilt("an event of a group or batch that there is not".into()))?;
        }
        lock(&player.progress).taken = vec![0; player.queues.len()];
        Ok(player)
    }

    /// Takes in an event; `None` if it is of something that there is not.
    fn add(&mut self, event: Event, groups: usize) -> Option<()> {
        let group = |group: u64| usize::try_from(group).ok().filter(|group| *group < groups);
        match event {
            Event::Batch {
                queue,
                version,
                bootstrap,
                groups: of,
            } => {
                let start = self.groups.len();
                for one in of {
                    self.groups.push(group(one)?);
                }
                // There are no more queues than groups.
                let queue = group(queue)?;
                if self.queues.len() <= queue {
                    self.queues.resize(queue + 1, vec![]);
                }
                self.queues[queue].push(self.batches.len());
                self.batches.push(Recorded {
                    call: Call { version, bootstrap },
                    groups: start..self.groups.len(),
                    hash: None,
                });
            }
            Event::Check { batch, hash } => {
                let batch = self.batches.get_mut(usize::try_from(batch).ok()?)?;
                batch.hash = Some(hash);
            }
            Event::GaveUp {
                lane,
                turn,
                resetting,
            } => {
                let phase = match resetting {
                    true => FaultPhase::Reset,
                    false => FaultPhase::Step,
                };
                self.given_up
                    .insert((usize::try_from(lane).ok()?, turn), phase);
            }
            Event::Received { group: of } => self.consumed.push(Consumed::Received(group(of)?)),
            Event::Refused { group: of, granted } => self.consumed.push(Consumed::Refused {
                group: group(of)?,
                granted,
            }),
            Event::Published { version } => {
                self.barriers.push(self.batches.len());
                self.consumed.push(Consumed::Published(version));
            }
        }
        Some(())
    }

    /// The next batch of `queue`; none while it must wait for a publication, or at the log's end.
    fn next_of(&self, queue: usize, progress: &Progress) -> Option<usize> {
        let taken = *progress.taken.get(queue)?;
        let &batch = self.queues[queue].get(taken)?;
        let open = self.barriers.get(progress.published);
        open.is_none_or(|&barrier| batch < barrier).then_some(batch)
    }

    fn following(&self, batch: usize) -> Following<'_> {
        let recorded = &self.batches[batch];
        Following {
            number: batch as u64,
            call: recorded.call,
            groups: &self.groups[recorded.groups.clone()],
        }
    }

    /// The batch that is next in `queue`, if it may be decided now.
    pub(crate) fn peek(&self, queue: usize) -> Option<Following<'_>> {
        let progress = lock(&self.progress);
        self.next_of(queue, &progress)
            .map(|batch| self.following(batch))
    }

    /// Takes the batch that [`Player::peek`] or [`Player::wait`] returned.
    pub(crate) fn take(&self, queue: usize) -> Following<'_> {
        let mut progress = lock(&self.progress);
        let batch = self.queues[queue][progress.taken[queue]];
        progress.taken[queue] += 1;
        self.following(batch)
    }

    /// Waits until there is a batch to be decided in `queue`; `None` when the rollout closes.
    pub(crate) fn wait(&self, queue: usize) -> Option<Following<'_>> {
        self.changed.wait(|| {
            if self.closed.load(Ordering::Acquire) {
                return Some(None);
            }
            self.peek(queue).map(Some)
        })
    }

    /// A batch that was taken has been decided, and what it filled handed over.
    pub(super) fn decided(&self) {
        lock(&self.progress).decided += 1;
        self.changed.notify();
    }

    /// Compares what batch `number` sees with what it saw.
    pub(super) fn check(
        &self,
        number: u64,
        hash: u64,
        batch: &Batch<'_>,
    ) -> Result<(), RolloutError> {
        if self.batches[number as usize]
            .hash
            .is_none_or(|recorded| recorded == hash)
        {
            return Ok(());
        }
        Err(RolloutError::Replay(format!(
            "batch {number}, of {} lanes from lane {} on, decided with version {}, sees other \
             observations than the recorded one: an environment, a policy or the learner does not do \
             the same twice",
            batch.len(),
            batch.places().lane(0),
            batch.version(),
        )))
    }

    /// What `lane` was doing when it was given up in turn `turn` of its block, if it was.
    pub(crate) fn gives_up(&self, lane: usize, turn: u64) -> Option<FaultPhase> {
        self.given_up.get(&(lane, turn)).copied()
    }

    /// The group whose segment is received next; none if something else comes next.
    pub(crate) fn receives(&self) -> Option<usize> {
        match self.next_consumed() {
            Some(Consumed::Received(group)) => Some(group),
            _ => None,
        }
    }

    /// Whether a grant to `group`, which was granted `granted` segments before, is refused now. Then it is
    /// done.
    pub(crate) fn refuses(&self, group: usize, granted: u64) -> bool {
        let refused = self.next_consumed() == Some(Consumed::Refused { group, granted });
        if refused {
            self.consume();
        }
        refused
    }

    fn next_consumed(&self) -> Option<Consumed> {
        let done = lock(&self.progress).consumed;
        self.consumed.get(done).copied()
    }

    /// The consumer did what it did next.
    pub(crate) fn consume(&self) {
        lock(&self.progress).consumed += 1;
    }

    /// Waits until `version` may be published: until all batches recorded before are decided. False when
    /// the rollout closes. `stalled` looks whether that cannot be any more.
    pub(crate) fn wait_to_publish(
        &self,
        version: u64,
        mut stalled: impl FnMut() -> Result<(), RolloutError>,
    ) -> Result<bool, RolloutError> {
        if self.next_consumed() != Some(Consumed::Published(version)) {
            return Err(self.strayed(&format!("published version {version}")));
        }
        loop {
            let ready = self.changed.wait_until(Some(Instant::now() + LOOK), || {
                if self.closed.load(Ordering::Acquire) {
                    return Some(false);
                }
                let progress = lock(&self.progress);
                (progress.decided >= self.barriers[progress.published]).then_some(true)
            });
            match ready {
                Some(ready) => return Ok(ready),
                None => stalled()?,
            }
        }
    }

    /// The version has been published: batches that waited for it may be taken.
    pub(crate) fn published(&self) {
        let mut progress = lock(&self.progress);
        progress.published += 1;
        progress.consumed += 1;
        drop(progress);
        self.changed.notify();
    }

    /// An error if nothing can go on while the consumer waits: all batches taken are decided, and of
    /// every queue the next needs a group that fills no segment, as `fills` says.
    pub(crate) fn check_stalled(
        &self,
        mut fills: impl FnMut(usize) -> bool,
    ) -> Result<(), RolloutError> {
        let progress = lock(&self.progress);
        if progress.taken.iter().sum::<usize>() > progress.decided {
            return Ok(());
        }
        let mut first = None;
        for queue in 0..self.queues.len() {
            let Some(batch) = self.next_of(queue, &progress) else {
                continue;
            };
            let groups = self.following(batch).groups;
            match groups.iter().find(|group| !fills(**group)) {
                None => return Ok(()),
                Some(group) => first = first.or(Some((batch, *group))),
            }
        }
        let reason = match first {
            Some((batch, group)) => format!(
                "batch {batch} needs group {group}, which was not granted a segment that it was granted \
                 when this was recorded"
            ),
            None => "the log has no more batches that could be decided now".into(),
        };
        Err(RolloutError::Replay(reason))
    }

    /// The error of a consumer that does something else than what was recorded.
    pub(crate) fn strayed(&self, doing: &str) -> RolloutError {
        let number = lock(&self.progress).consumed;
        RolloutError::Replay(match self.consumed.get(number) {
            None => format!(
                "the log ends where the run {doing}: the recorded one was stopped here, or its process \
                 ended"
            ),
            Some(recorded) => format!(
                "event {number} of the consumer differs: the run {doing}, the recorded one {}",
                match recorded {
                    Consumed::Received(group) => format!("received a segment of group {group}"),
                    Consumed::Refused { group, .. } =>
                        format!("was refused a grant to group {group}"),
                    Consumed::Published(version) => format!("published version {version}"),
                }
            ),
        })
    }
}

impl Close for Player {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify();
    }
}

fn read_settings(bytes: &mut &[u8]) -> Option<Vec<(String, String)>> {
    let count = take(bytes)?;
    let mut text = || {
        let length = usize::try_from(take(bytes)?).ok()?;
        let (text, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    (0..count).map(|_| Some((text()?, text()?))).collect()
}

/// Says which setting differs first.
fn compare(recorded: &[(String, String)], now: &[(String, String)]) -> Result<(), String> {
    let find = |all: &[(String, String)], key: &str| {
        let found = all.iter().find(|(name, _)| name == key);
        found.map_or("not set".to_string(), |(_, value)| value.clone())
    };
    for (key, _) in recorded.iter().chain(now) {
        let (then, now) = (find(recorded, key), find(now, key));
        if then != now {
            return Err(format!(
                "was recorded with {key} = {then}, and now it is {now}; replay it with the settings of \
                 the recorded run"
            ));
        }
    }
    Ok(())
}
