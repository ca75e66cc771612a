//! A rollout from start to shutdown, as its consumer sees it.

use crate::error::left_behind;
use crate::first_ready::Floor;
use crate::hub::Hub;
use crate::schedule::{Course, Event};
use crate::start::start;
use crate::watchdog::Watch;
use crate::{Acting, Policy, RolloutConfig, RolloutError, Segment, Snapshot, Statistics, lockstep};
use hotloop_env::{Block, EnvError, Fault, Spaces};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A running rollout. Dropping it ends it and joins all of its threads and tasks, but for a thread in a
/// call of an environment, or in blocking work that one spawned, that does not return within two
/// seconds: that one is left behind, with the memory that it can reach, and ends when the call returns.
///
/// The consumer [grants](Rollout::grant) each group a segment to fill, [receives](Rollout::recv) full
/// ones, and returns their memory by dropping them: nothing steps beyond what was granted.
pub struct Rollout {
    pub(crate) hub: Arc<Hub>,
    pub(crate) control: Control,
    pub(crate) memory: usize,
    pub(crate) workers: Vec<JoinHandle<()>>,
    /// Whether a worker runs an actor itself.
    pub(crate) steps_itself: bool,
    pub(crate) watchdog: Option<JoinHandle<()>>,
    /// Nobody sends: it ends when the last task has dropped its end.
    pub(crate) tasks: flume::Receiver<()>,
    /// Taken only when stopping.
    pub(crate) runtime: Option<Runtime>,
}

/// How long an end waits for a call that goes on.
const PATIENCE: Duration = Duration::from_secs(2);

/// What differs between schedulers.
pub(crate) enum Control {
    Lockstep(lockstep::Control),
    FirstReady(Arc<Floor>),
}

impl Rollout {
    /// Starts the threads and tasks of a rollout; nothing steps before a segment is
    /// [granted](Rollout::grant).
    ///
    /// `make_block(first_lane, lanes)` builds the environments of one actor, of which there are as
    /// many as lanes, `lanes_per_actor` at a time (fewer at a group's end). There is one inference
    /// worker thread for each of `policies`. With `from` everything goes on where the snapshot was
    /// taken; it must be of a rollout with the same lanes and groups.
    pub fn start(
        config: RolloutConfig,
        spaces: Spaces,
        make_block: impl FnMut(usize, usize) -> Result<Block, EnvError>,
        policies: Vec<Box<dyn Policy>>,
        from: Option<Snapshot>,
    ) -> Result<Self, RolloutError> {
        start(config, spaces, make_block, policies, from)
    }

    /// The bytes of all segments.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.hub.desks.len()
    }

    /// Lets `group` fill one more of its segments, acting with the policy versions of `acting`. It is an
    /// error if none is free: all are granted already, or the consumer still holds them.
    ///
    /// False if the group takes no more segments, because all of its lanes were set aside (first-ready
    /// mode only). Every grant that was taken is answered by one segment.
    pub fn grant(&self, group: usize, acting: Acting) -> Result<bool, RolloutError> {
        if !self.hub.grant(group, acting)? {
            return Ok(false);
        }
        match &self.control {
            Control::Lockstep(control) => control.granted(group),
            Control::FirstReady(floor) => floor.granted(group, &self.hub),
        }
        Ok(true)
    }

    /// Rows granted, each of as many lanes as a group has, and not received yet. A short segment counts
    /// as a whole one until it is received.
    pub fn outstanding(&self) -> usize {
        self.hub.outstanding.load(Ordering::Acquire)
    }

    /// Segments that `group` was granted and that were not received yet.
    pub fn tickets(&self, group: usize) -> usize {
        let desk = self.hub.desks.get(group);
        desk.map_or(0, |desk| desk.outstanding.load(Ordering::Acquire))
    }

    /// Waits for the next full segment, in the order of completion. If nothing was granted that is not
    /// received yet, it waits until something is granted, from another thread, and full.
    pub fn recv(&self) -> Result<Segment, RolloutError> {
        loop {
            if let Some(segment) = self.recv_until(None)? {
                return Ok(segment);
            }
        }
    }

    /// As [`Rollout::recv`], but gives up after `timeout` with `None`, so that a caller can look at
    /// other things meanwhile.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Segment>, RolloutError> {
        self.recv_until(Some(Instant::now() + timeout))
    }

    fn recv_until(&self, deadline: Option<Instant>) -> Result<Option<Segment>, RolloutError> {
        let full = self.hub.take_full(deadline)?;
        Ok(full.map(|full| Segment::new(full, self.hub.clone())))
    }

    /// Calls `publish`, which makes `version` the one that policies call the newest. Where the schedule is
    /// recorded, or replayed, versions must be published here: so it is known which batches came before,
    /// and a replay waits for these.
    ///
    /// # Errors
    /// Only with a schedule: if it cannot be written, or if the replay cannot follow.
    pub fn publish<T>(&self, version: u64, publish: impl FnOnce() -> T) -> Result<T, RolloutError> {
        match &self.hub.course {
            Course::Free => Ok(publish()),
            Course::Recording(recorder) => {
                // Held meanwhile, so that no batch comes between.
                let mut log = recorder.lock();
                let outcome = publish();
                log.add(&Event::Published { version })?;
                log.flush()?;
                Ok(outcome)
            }
            Course::Following(player) => {
                self.hub.wait_to_publish(player, version)?;
                let outcome = publish();
                player.published();
                if let Control::Lockstep(control) = &self.control {
                    control.schedule_changed();
                }
                Ok(outcome)
            }
        }
    }

    /// The state of all lanes. Every granted segment must have been received.
    pub fn snapshot(&self) -> Result<Snapshot, RolloutError> {
        if let Some(group) = self
            .hub
            .desks
            .iter()
            .position(|desk| desk.outstanding.load(Ordering::Acquire) > 0)
        {
            return Err(RolloutError::NotAtBoundary { group });
        }
        let groups = (0..self.groups())
            .map(|group| match &self.control {
                Control::Lockstep(control) => control.save(group, &self.hub),
                Control::FirstReady(floor) => floor.save(group, &self.hub),
            })
            .collect::<Result<_, _>>()?;
        Ok(Snapshot { groups })
    }

    /// Failures of environments since the last call. Some that were not fetched in time may be missing;
    /// [`Rollout::statistics`] counts all.
    pub fn faults(&self) -> Vec<Fault> {
        self.hub.take_faults().collect()
    }

    /// Counts and times so far.
    pub fn statistics(&self) -> Statistics {
        self.hub.counters.read()
    }

    /// Ends the rollout, wherever it stands, and joins all of its threads and tasks.
    pub fn shutdown(mut self) -> Statistics {
        self.stop();
        self.statistics()
    }

    fn stop(&mut self) {
        self.hub.close();
        let all_ended = self.join_tasks();
        if !all_ended && self.steps_itself {
            // The call that does not return is a worker's.
            self.workers.clear();
        }
        for thread in self.workers.drain(..).chain(self.watchdog.take()) {
            // A panic has been caught inside and is the error that `recv` returns.
            let _ = thread.join();
        }
        if let Course::Recording(recorder) = &self.hub.course
            && let Err(error) = recorder.lock().flush()
        {
            tracing::error!("{error}");
        }
        if let Some(runtime) = self.runtime.take() {
            if !all_ended || tokio::runtime::Handle::try_current().is_ok() {
                // A thread that is left behind cannot be joined; and joining is not allowed inside
                // another runtime, where the threads have nothing left to do.
                runtime.shutdown_background();
            } else {
                // Blocking work that an environment left running may never end.
                runtime.shutdown_timeout(PATIENCE);
            }
        }
    }
}

impl Rollout {
    /// Waits until the last task has ended and dropped its sender; false if one is in a call that does not
    /// return.
    fn join_tasks(&self) -> bool {
        let patience = match self.hub.end_reason() {
            RolloutError::Stuck { .. } => Duration::from_millis(100),
            _ => PATIENCE,
        };
        let mut watch = Watch::new(self.hub.beacons.blocks(), patience);
        loop {
            let before = Instant::now();
            let ended = self.tasks.recv_timeout(watch.period());
            if ended == Err(flume::RecvTimeoutError::Disconnected) {
                return true;
            }
            if let Some(stuck) = watch.look(&self.hub.beacons, before.elapsed()) {
                let (env, lanes) = (&self.hub.config.env, self.hub.lanes_of(stuck));
                let (step, phase) = (stuck.at.step, stuck.at.phase);
                tracing::warn!("{}", left_behind(env, &lanes, step, phase));
                return false;
            }
        }
    }
}

impl Drop for Rollout {
    fn drop(&mut self) {
        self.stop();
    }
}
