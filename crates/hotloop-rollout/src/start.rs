//! Building a rollout: environments, memory, threads and tasks.

use crate::first_ready::{self, Baton, Floor};
use crate::hub::Hub;
use crate::protocol::{Close, event::Event};
use crate::rollout::Control;
use crate::runner::Runner;
use crate::schedule::Course;
use crate::slab::{Columns, SegmentBuf, Slab, lease};
use crate::{
    Policy, Rollout, RolloutConfig, RolloutError, Scheduler, Snapshot, lockstep, watchdog,
};
use hotloop_env::{Beacons, Block, EnvError, Spaces, panic_message};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::Runtime;

/// Segments, with the slab that they lie in.
type Segments = (Arc<Slab>, Vec<SegmentBuf>);

/// As [`Rollout::start`].
pub(crate) fn start(
    config: RolloutConfig,
    spaces: Spaces,
    make_block: impl FnMut(usize, usize) -> Result<Block, EnvError>,
    policies: Vec<Box<dyn Policy>>,
    from: Option<Snapshot>,
) -> Result<Rollout, RolloutError> {
    let memory = config.check_memory(&spaces)?;
    if policies.is_empty() {
        return Err(RolloutError::Config {
            key: "policies",
            reason: "are none; at least one inference worker is needed".into(),
        });
    }
    let spaces = Arc::new(spaces);
    let columns = config.columns(&spaces)?;
    let from = from
        .map(|from| from.fit(config.effective_groups(), &columns))
        .transpose()?;
    let course = Course::open(&config, &spaces, policies.len(), from.is_some())?;
    let (runners, beacons) = build(&config, &spaces, make_block, from.as_ref())?;
    let slabs = slabs(&config, &columns)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(config.env_threads)
        .thread_name("hotloop-env");
    if runners.iter().any(Runner::waits) {
        // Environments that wait may wait for sockets and timers.
        builder.enable_all();
    } else {
        // Actors may rest.
        builder.enable_time();
    }
    let runtime = builder
        .build()
        .map_err(|error| RolloutError::Thread(error.to_string()))?;
    let scheduler = config.scheduler;
    let parts = Parts {
        config,
        spaces,
        columns,
        slabs,
        runners,
        beacons,
        course,
        policies,
        from,
        memory,
        runtime,
    };
    match scheduler {
        Scheduler::Lockstep => start_lockstep(parts),
        Scheduler::FirstReady { max_batch } => start_first_ready(parts, max_batch),
    }
}

/// The segments of each group. In first-ready mode, where groups are many and small, they lie in one slab.
fn slabs(config: &RolloutConfig, columns: &Columns) -> Result<Vec<Segments>, RolloutError> {
    let (groups, each) = (config.effective_groups(), config.segments_per_group);
    if let Scheduler::Lockstep = config.scheduler {
        return (0..groups)
            .map(|_| Slab::new(columns.clone(), each))
            .collect();
    }
    let (slab, bufs) = Slab::new(columns.clone(), groups * each)?;
    let mut bufs = bufs.into_iter();
    let group = |_| (slab.clone(), bufs.by_ref().take(each).collect());
    Ok((0..groups).map(group).collect())
}

/// What both schedulers start from.
struct Parts {
    config: RolloutConfig,
    spaces: Arc<Spaces>,
    columns: Columns,
    slabs: Vec<Segments>,
    runners: Vec<Runner>,
    beacons: Arc<Beacons>,
    course: Course,
    policies: Vec<Box<dyn Policy>>,
    from: Option<Snapshot>,
    memory: usize,
    runtime: Runtime,
}

/// Builds all blocks, in order of lanes, at the state of `from`, and where they tell what they do.
pub(crate) fn build(
    config: &RolloutConfig,
    spaces: &Arc<Spaces>,
    mut make_block: impl FnMut(usize, usize) -> Result<Block, EnvError>,
    from: Option<&Snapshot>,
) -> Result<(Vec<Runner>, Arc<Beacons>), RolloutError> {
    let groups = config.effective_groups();
    let actors = (0..groups).map(|group| config.actors(group).count()).sum();
    let beacons = Arc::new(Beacons::new(actors));
    let mut runners = vec![];
    for group in 0..groups {
        for lanes in config.actors(group) {
            let (first, count) = (lanes.start, lanes.len());
            let failed = |message: String| RolloutError::Build {
                first,
                end: lanes.end,
                message,
            };
            let block = make_block(first, count).map_err(|error| failed(error.to_string()))?;
            if block.lanes() != count {
                return Err(failed(format!(
                    "a block of {count} lanes was asked for, and one of {} was made",
                    block.lanes()
                )));
            }
            let place = (beacons.clone(), runners.len());
            let mut runner = Runner::new(block, first, config, spaces.clone(), place);
            if let Some(from) = from {
                let before = group * config.lanes_per_group();
                let saved = &from.groups[group].lanes[first - before..][..count];
                runner.load(saved, config.max_failures_in_a_row)?;
            }
            runners.push(runner);
        }
    }
    Ok((runners, beacons))
}

fn start_lockstep(parts: Parts) -> Result<Rollout, RolloutError> {
    let (config, workers) = (&parts.config, parts.policies.len());
    let signals: Vec<Arc<Event>> = (0..workers).map(|_| Arc::default()).collect();
    let actors = parts.columns.lanes.div_ceil(config.lanes_per_actor);
    let fan = lockstep::fan(actors, config.env_threads);

    let mut members: Vec<Arc<dyn Close>> = vec![];
    let mut tokens = vec![];
    let mut groups: Vec<Vec<lockstep::Group>> = (0..workers).map(|_| vec![]).collect();
    let mut segments = vec![];
    for (index, (slab, bufs)) in parts.slabs.into_iter().enumerate() {
        let signal = signals[index % workers].clone();
        let (rendezvous, lender, blocks) = lease(&slab, config.lanes_per_actor, fan, signal);
        let from = parts.from.as_ref().map(|from| &from.groups[index]);
        groups[index % workers].push(lockstep::Group::new(index, lender, &parts.columns, from));
        tokens.extend(blocks);
        members.push(rendezvous);
        segments.push(bufs);
    }
    let hub = Arc::new(Hub::new(
        parts.config,
        parts.spaces,
        segments,
        workers,
        parts.beacons,
        parts.course,
        members,
    ));
    let (saved, all_saved) = flume::unbounded();
    let waits = parts.runners.iter().any(Runner::waits);
    let actor_tasks = tokens
        .into_iter()
        .zip(parts.runners)
        .map(|(token, runner)| {
            let first_lane = runner.first_lane();
            let actor = lockstep::actor(token, runner, saved.clone(), hub.clone());
            (first_lane, actor)
        });
    let (mut alone, tasks) = match actor_tasks.len() {
        1 if !waits => run_alone(actor_tasks),
        _ => (None, spawn_actors(&parts.runtime, &hub, actor_tasks)),
    };
    let steps_itself = alone.is_some();
    let mut control = lockstep::Control {
        workers: vec![],
        saved: all_saved,
        actors,
    };
    let mut work: Vec<Box<dyn FnOnce() + Send>> = vec![];
    for (index, (policy, groups)) in parts.policies.into_iter().zip(groups).enumerate() {
        let (requests, receiver) = flume::unbounded();
        control.workers.push((signals[index].clone(), requests));
        let worker = lockstep::Worker {
            index,
            policy,
            groups,
            hub: hub.clone(),
            signal: signals[index].clone(),
            requests: receiver,
            // Group 0 is worker 0's.
            alone: alone.take(),
        };
        work.push(Box::new(move || worker.run()));
    }
    let rollout = Rollout {
        hub,
        control: Control::Lockstep(control),
        memory: parts.memory,
        workers: vec![],
        steps_itself,
        watchdog: None,
        tasks,
        runtime: Some(parts.runtime),
    };
    with_threads(rollout, work)
}

fn start_first_ready(parts: Parts, max_batch: usize) -> Result<Rollout, RolloutError> {
    let (mut batons, mut segments) = (vec![], vec![]);
    for (block, (_, bufs)) in parts.slabs.into_iter().enumerate() {
        let from = parts.from.as_ref().map(|from| &from.groups[block]);
        batons.push(Baton::new(block, &parts.columns, from));
        segments.push(bufs);
    }
    let workers = parts.policies.len();
    let floor = Arc::new(Floor::new(batons, workers));
    let hub = Arc::new(Hub::new(
        parts.config,
        parts.spaces,
        segments,
        workers,
        parts.beacons,
        parts.course,
        vec![floor.clone()],
    ));
    let actor_tasks = parts
        .runners
        .into_iter()
        .enumerate()
        .map(|(block, runner)| {
            let first_lane = runner.first_lane();
            let actor = first_ready::actor(block, runner, floor.clone(), hub.clone());
            (first_lane, actor)
        });
    // These end with the floor's closing, or with the runtime at the latest.
    for index in 0..workers {
        parts
            .runtime
            .spawn(first_ready::relay(index, floor.clone()));
    }
    let tasks = spawn_actors(&parts.runtime, &hub, actor_tasks);
    let mut work: Vec<Box<dyn FnOnce() + Send>> = vec![];
    for (index, policy) in parts.policies.into_iter().enumerate() {
        let worker = first_ready::Worker::new(index, policy, floor.clone(), hub.clone(), max_batch);
        work.push(Box::new(move || worker.run()));
    }
    let rollout = Rollout {
        hub,
        control: Control::FirstReady(floor),
        memory: parts.memory,
        workers: vec![],
        steps_itself: false,
        watchdog: None,
        tasks,
        runtime: Some(parts.runtime),
    };
    with_threads(rollout, work)
}

/// The only actor, to be run by its worker; the receiver ends when it has ended.
fn run_alone<A: Future<Output = ()> + Send + 'static>(
    actors: impl Iterator<Item = (usize, A)>,
) -> (Option<lockstep::Alone>, flume::Receiver<()>) {
    let (task, tasks) = flume::bounded(0);
    let alone = actors.last().map(|(_, actor)| -> lockstep::Alone {
        Box::pin(async move {
            let _task = task;
            actor.await;
        })
    });
    (alone, tasks)
}

/// Spawns the actors; the receiver ends when the last has ended.
fn spawn_actors<A: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    hub: &Arc<Hub>,
    actors: impl Iterator<Item = (usize, A)>,
) -> flume::Receiver<()> {
    let (task, tasks) = flume::bounded(0);
    for (first_lane, actor) in actors {
        let watch = Watch {
            hub: hub.clone(),
            first_lane,
            _task: task.clone(),
        };
        runtime.spawn(async move {
            let _watch = watch;
            actor.await;
        });
    }
    tasks
}

/// Starts the inference workers and the watchdog. If one cannot be started the others, and the actors,
/// are joined.
fn with_threads(
    mut rollout: Rollout,
    work: Vec<Box<dyn FnOnce() + Send>>,
) -> Result<Rollout, RolloutError> {
    for (index, run) in work.into_iter().enumerate() {
        let worker = spawn_worker(&rollout.hub, index, run)?;
        rollout.workers.push(worker);
    }
    if let Some(limit) = rollout.hub.config.stuck_after {
        let hub = rollout.hub.clone();
        let thread = std::thread::Builder::new()
            .name("hotloop-watch".into())
            .spawn(move || watchdog::run(&hub, limit))
            .map_err(|error| RolloutError::Thread(error.to_string()))?;
        rollout.watchdog = Some(thread);
    }
    Ok(rollout)
}

/// Starts inference worker `index`; its panic ends the run.
fn spawn_worker(
    hub: &Arc<Hub>,
    index: usize,
    run: Box<dyn FnOnce() + Send>,
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
    /// Dropped with the task, whose end is known by it.
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
