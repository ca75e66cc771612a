//! A rollout from start to shutdown, as its consumer sees it.

use crate::hub::Hub;
use crate::lockstep;
use crate::policy::Policy;
use crate::protocol::{Close, event::Event, rendezvous::Rendezvous};
use crate::runner::{Runner, panic_message};
use crate::slab::{BlockToken, Columns, Slab, lease};
use crate::snapshot::{GroupSnapshot, Snapshot};
use crate::{RolloutConfig, RolloutError, Scheduler, Segment, Statistics};
use hotloop_env::{EnvError, Fault, Spaces, VectorEnv};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A running rollout. Dropping it ends it and joins all of its threads and tasks.
///
/// The consumer [grants](Rollout::grant) each group a segment to fill, [receives](Rollout::recv) full
/// ones, and returns their memory by dropping them: nothing steps beyond what was granted.
pub struct Rollout {
    hub: Arc<Hub>,
    control: Control,
    memory: usize,
    workers: Vec<JoinHandle<()>>,
    /// Nobody sends: it ends when the last task has dropped its end.
    tasks: flume::Receiver<()>,
    runtime: Option<Runtime>,
}

/// What differs between schedulers.
enum Control {
    Lockstep(lockstep::Control),
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
        make_block: impl FnMut(usize, usize) -> Result<Box<dyn VectorEnv>, EnvError>,
        policies: Vec<Box<dyn Policy>>,
        from: Option<Snapshot>,
    ) -> Result<Self, RolloutError> {
        let memory = config.memory(&spaces)?;
        if policies.is_empty() {
            return Err(RolloutError::Config {
                key: "policies",
                reason: "are none; at least one inference worker is needed".into(),
            });
        }
        let spaces = Arc::new(spaces);
        let lanes = config.lanes_per_group();
        let columns = Columns::new(&spaces, config.steps, lanes).ok_or(RolloutError::Memory {
            needed: memory,
            available: 0,
        })?;
        let from = from
            .map(|from| check(from, &config, &columns))
            .transpose()?;
        let runners = build(&config, &spaces, make_block, from.as_ref())?;
        let mut slabs = vec![];
        for _ in 0..config.effective_groups() {
            slabs.push(Slab::new(columns.clone(), config.segments_per_group)?);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.env_threads)
            .thread_name("hotloop-env")
            .build()
            .map_err(|error| RolloutError::Thread(error.to_string()))?;
        let parts = Parts {
            config,
            spaces,
            columns,
            slabs,
            runners,
            policies,
            from,
        };
        let mut rollout = match parts.config.scheduler {
            Scheduler::Lockstep => start_lockstep(parts, &runtime)?,
            Scheduler::FirstReady { .. } => {
                return Err(RolloutError::Config {
                    key: "scheduler",
                    reason: "first-ready is not available yet".into(),
                });
            }
        };
        rollout.memory = memory;
        rollout.runtime = Some(runtime);
        Ok(rollout)
    }

    /// The bytes of all segments.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.hub.desks.len()
    }

    /// Lets `group` fill one more of its segments, acting with policy `version`. It is an error if
    /// none is free: all are granted already, or the consumer still holds them.
    pub fn grant(&self, group: usize, version: u64) -> Result<(), RolloutError> {
        self.hub.grant(group, version)?;
        match &self.control {
            Control::Lockstep(control) => control.granted(group),
        }
        Ok(())
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
        let hub = &self.hub;
        hub.consumer
            .wait_until(deadline, || {
                if hub.is_closed() {
                    return Some(Err(hub.end_reason()));
                }
                hub.take_full()
                    .map(|full| Ok(Segment::new(full, hub.clone())))
            })
            .transpose()
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
        for worker in self.workers.drain(..) {
            // A panic has been caught inside and is the error that `recv` returns.
            let _ = worker.join();
        }
        // Until the last task has dropped its sender.
        while self.tasks.recv().is_ok() {}
        if let Some(runtime) = self.runtime.take() {
            if tokio::runtime::Handle::try_current().is_ok() {
                // Joining the runtime's threads is not allowed inside another runtime; they have
                // nothing left to do.
                runtime.shutdown_background();
            } else {
                drop(runtime);
            }
        }
    }
}

impl Drop for Rollout {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A checked start.
struct Parts {
    config: RolloutConfig,
    spaces: Arc<Spaces>,
    columns: Columns,
    slabs: Vec<(Arc<Slab>, Vec<crate::slab::SegmentBuf>)>,
    runners: Vec<Runner>,
    policies: Vec<Box<dyn Policy>>,
    from: Option<Snapshot>,
}

/// Builds all blocks, in order of lanes, at the state of `from`.
fn build(
    config: &RolloutConfig,
    spaces: &Arc<Spaces>,
    mut make_block: impl FnMut(usize, usize) -> Result<Box<dyn VectorEnv>, EnvError>,
    from: Option<&Snapshot>,
) -> Result<Vec<Runner>, RolloutError> {
    let lanes = config.lanes_per_group();
    let mut runners = vec![];
    for group in 0..config.effective_groups() {
        for start in (0..lanes).step_by(config.lanes_per_actor) {
            let end = (start + config.lanes_per_actor).min(lanes);
            let first = group * lanes + start;
            let failed = |message: String| RolloutError::Build {
                first,
                end: group * lanes + end,
                message,
            };
            let env = make_block(first, end - start).map_err(|error| failed(error.to_string()))?;
            if env.lanes() != end - start {
                return Err(failed(format!(
                    "a block of {} lanes was asked for, and one of {} was made",
                    end - start,
                    env.lanes()
                )));
            }
            let mut runner = Runner::new(env, spaces.clone(), config.seed, first);
            if let Some(from) = from {
                runner.load(&from.groups[group].lanes[start..end])?;
            }
            runners.push(runner);
        }
    }
    Ok(runners)
}

/// Refuses a snapshot of another shape.
fn check(
    mut from: Snapshot,
    config: &RolloutConfig,
    columns: &Columns,
) -> Result<Snapshot, RolloutError> {
    let differs = |what: &str, found: usize, expected: usize| {
        Err(RolloutError::Snapshot(format!(
            "it has {found} {what}, the rollout {expected}"
        )))
    };
    if from.groups.len() != config.effective_groups() {
        return differs("groups", from.groups.len(), config.effective_groups());
    }
    for group in &mut from.groups {
        if group.lanes.len() != columns.lanes {
            return differs("lanes in a group", group.lanes.len(), columns.lanes);
        }
        if let Some(boundary) = &group.boundary {
            let sizes = [
                (
                    "bytes of observations",
                    boundary.observations.len(),
                    columns.observation,
                ),
                ("bytes of masks", boundary.masks.len(), columns.mask),
                ("valid flags", boundary.valid.len(), 1),
            ];
            for (what, found, width) in sizes {
                if found != columns.lanes * width {
                    return differs(what, found, columns.lanes * width);
                }
            }
        }
        group.reset_unsaved();
    }
    Ok(from)
}

fn start_lockstep(parts: Parts, runtime: &Runtime) -> Result<Rollout, RolloutError> {
    let Parts {
        config,
        spaces,
        columns,
        slabs,
        runners,
        policies,
        from,
    } = parts;
    let workers = policies.len();
    let signals: Vec<Arc<Event>> = (0..workers).map(|_| Arc::default()).collect();
    let actors = columns.lanes.div_ceil(config.lanes_per_actor);
    let fan = lockstep::fan(actors, config.env_threads);

    let mut members: Vec<Arc<dyn Close>> = vec![];
    let mut tokens: Vec<BlockToken> = vec![];
    let mut groups: Vec<Vec<lockstep::Group>> = (0..workers).map(|_| vec![]).collect();
    let mut bufs = vec![];
    for (index, (slab, segments)) in slabs.into_iter().enumerate() {
        let rendezvous = Arc::new(Rendezvous::new(
            actors,
            fan,
            signals[index % workers].clone(),
        ));
        let (lender, blocks) = lease(&slab, &rendezvous, config.lanes_per_actor);
        let from: Option<&GroupSnapshot> = from.as_ref().map(|from| &from.groups[index]);
        groups[index % workers].push(lockstep::Group::new(index, lender, &columns, from));
        tokens.extend(blocks);
        members.push(rendezvous);
        bufs.push(segments);
    }
    let hub = Arc::new(Hub::new(config, spaces, bufs, workers, members));

    let (saved, all_saved) = flume::unbounded();
    let (task, tasks) = flume::bounded(0);
    for (token, runner) in tokens.into_iter().zip(runners) {
        let watch = Watch {
            hub: hub.clone(),
            first_lane: runner.first_lane(),
            _task: task.clone(),
        };
        let actor = lockstep::actor(token, runner, saved.clone(), hub.clone());
        runtime.spawn(async move {
            let _watch = watch;
            actor.await;
        });
    }
    let mut rollout = Rollout {
        hub: hub.clone(),
        control: Control::Lockstep(lockstep::Control {
            workers: vec![],
            saved: all_saved,
            actors,
        }),
        memory: 0,
        workers: vec![],
        tasks,
        runtime: None,
    };
    for (index, (policy, groups)) in policies.into_iter().zip(groups).enumerate() {
        let (requests, receiver) = flume::unbounded();
        let signal = signals[index].clone();
        let Control::Lockstep(control) = &mut rollout.control;
        control.workers.push((signal.clone(), requests));
        let worker = lockstep::Worker {
            index,
            policy,
            groups,
            hub: hub.clone(),
            signal,
            requests: receiver,
        };
        rollout.workers.push(spawn(&hub, index, || worker.run())?);
    }
    Ok(rollout)
}

/// Starts inference worker `index`; its panic ends the run.
fn spawn(
    hub: &Arc<Hub>,
    index: usize,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, RolloutError> {
    let hub = hub.clone();
    std::thread::Builder::new()
        .name(format!("hotloop-infer-{index}"))
        .spawn(move || {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
                hub.end(RolloutError::Panic {
                    who: format!("inference worker {index}"),
                    message: panic_message(payload.as_ref()),
                });
            }
        })
        .map_err(|error| RolloutError::Thread(error.to_string()))
}

/// Goes with an actor's task, and ends the run if it ends with a panic.
struct Watch {
    hub: Arc<Hub>,
    first_lane: usize,
    _task: flume::Sender<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.hub.end(RolloutError::Panic {
                who: format!("the actor of lane {} and following", self.first_lane),
                message: "its message is in the log".into(),
            });
        }
    }
}
