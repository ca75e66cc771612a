//! What each thread of a run did with its time.
//!
//! Threads that know say so themselves: inference workers and the learner time what they do. Of the
//! others the system tells how long they ran, and how long they were ready and waited for a core.

use hotloop_rollout::WorkerStatistics;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time of one thread, or the mean of several with one name. All shares are of wall time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadTime {
    /// The thread's name.
    pub name: String,
    /// How many there are.
    pub threads: usize,
    /// Share of the time on a core, whatever it did there; `None` where the system does not tell.
    pub on_core: Option<f64>,
    /// What it did, or waited for, and for which share of the time: they add up to 1.
    pub did: Vec<(&'static str, f64)>,
}

/// How the learner's own thread spent its time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LearnerTime {
    /// Updates and publishing.
    pub(crate) training: Duration,
    /// In the queue of segments.
    pub(crate) waiting: Duration,
}

/// What the system knows of a thread: seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ran {
    on_core: f64,
    /// Ready, but another thread had the core.
    ready: f64,
}

/// The threads of this process at the moment when counting began.
pub(crate) struct Account {
    since: Instant,
    before: BTreeMap<String, Ran>,
}

impl Account {
    /// Counts from now on.
    pub(crate) fn open() -> Self {
        Self {
            since: Instant::now(),
            before: threads(),
        }
    }

    /// What happened since then. `workers` must have been counted from then on, too.
    pub(crate) fn close(
        &self,
        learner: LearnerTime,
        workers: &[WorkerStatistics],
    ) -> Vec<ThreadTime> {
        let wall = self.since.elapsed().as_secs_f64();
        let mut found: BTreeMap<String, Vec<Ran>> = BTreeMap::new();
        for (id, now) in threads() {
            let before = self.before.get(&id).copied().unwrap_or_default();
            let name = id.rsplit_once('/').map_or(id.as_str(), |(name, _)| name);
            found.entry(role(name)).or_default().push(Ran {
                on_core: (now.on_core - before.on_core) / wall,
                ready: (now.ready - before.ready) / wall,
            });
        }
        let mean = |name: &str| {
            let all = found.get(name)?;
            let of = |field: fn(&Ran) -> f64| all.iter().map(field).sum::<f64>() / all.len() as f64;
            Some((all.len(), of(|r| r.on_core), of(|r| r.ready)))
        };
        let told = |name: String, (did, doing), (waited, waiting), rest| {
            let (did, waited): (Duration, Duration) = (did, waited);
            ThreadTime {
                on_core: mean(&name).map(|(_, on_core, _)| on_core),
                did: whole(
                    [
                        (doing, did.as_secs_f64() / wall),
                        (waiting, waited.as_secs_f64() / wall),
                    ],
                    rest,
                ),
                name,
                threads: 1,
            }
        };
        let seen = |name: &str, doing, waiting| {
            mean(name).map(|(threads, on_core, ready)| ThreadTime {
                name: name.to_string(),
                threads,
                on_core: Some(on_core),
                did: whole([(doing, on_core), ("waiting for a core", ready)], waiting),
            })
        };
        let mut all = Vec::new();
        all.extend(seen(
            ENV,
            "stepping environments",
            "waiting for actions or tickets",
        ));
        all.extend(workers.iter().enumerate().map(|(index, worker)| {
            told(
                format!("hotloop-infer-{index}"),
                (worker.deciding, "choosing actions"),
                (worker.waiting, "waiting for environments or tickets"),
                match worker.stepping.is_zero() {
                    true => "handing rows over",
                    false => "stepping environments",
                },
            )
        }));
        all.push(told(
            "hotloop-learner".to_string(),
            (learner.training, "training"),
            (learner.waiting, "waiting for segments"),
            "keeping books",
        ));
        all.extend(seen(SHARD, "computing gradients", "waiting for rows"));
        all
    }
}

const ENV: &str = "hotloop-env";
const SHARD: &str = "learner";

/// Threads that do the same have one name, but for their number.
fn role(name: &str) -> String {
    match name.rsplit_once('-') {
        Some((SHARD, _)) => SHARD.to_string(),
        _ => name.to_string(),
    }
}

/// The shares with what is missing to 1, so that they add up to it: clocks of several threads differ by
/// a little.
fn whole(parts: [(&'static str, f64); 2], rest: &'static str) -> Vec<(&'static str, f64)> {
    let sum: f64 = parts.iter().map(|(_, share)| share.max(0.0)).sum();
    let scale = if sum > 1.0 { 1.0 / sum } else { 1.0 };
    let parts = parts.map(|(what, share)| (what, share.max(0.0) * scale));
    let left = (1.0 - parts.iter().map(|(_, share)| share).sum::<f64>()).max(0.0);
    parts.into_iter().chain([(rest, left)]).collect()
}

/// Every thread of this process by name and number; none where the system does not tell.
fn threads() -> BTreeMap<String, Ran> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks
        .filter_map(|task| {
            let path = task.ok()?.path();
            let name = std::fs::read_to_string(path.join("comm")).ok()?;
            let ran = parse(&std::fs::read_to_string(path.join("schedstat")).ok()?)?;
            let id = path.file_name()?.to_string_lossy().into_owned();
            Some((format!("{}/{id}", name.trim()), ran))
        })
        .collect()
}

/// `schedstat` of proc(5): nanoseconds on a core, nanoseconds ready, number of time slices.
fn parse(text: &str) -> Option<Ran> {
    let mut numbers = text.split_whitespace().map(|n| n.parse::<u64>().ok());
    let mut seconds = || Some(numbers.next()?? as f64 / 1e9);
    Some(Ran {
        on_core: seconds()?,
        ready: seconds()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_s_time_adds_up_to_the_whole() {
        let account = Account::open();
        let busy = std::thread::Builder::new().name(ENV.into()).spawn(|| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(40) {}
            std::thread::sleep(Duration::from_millis(200));
        });
        std::thread::sleep(Duration::from_millis(60));
        let worker = WorkerStatistics {
            deciding: Duration::from_millis(10),
            waiting: Duration::from_millis(20),
            ..WorkerStatistics::default()
        };
        let learner = LearnerTime {
            // A clock that ran a little longer than ours.
            training: Duration::from_secs(2),
            waiting: Duration::from_secs(1),
        };
        let times = account.close(learner, &[worker]);
        for time in &times {
            let sum: f64 = time.did.iter().map(|(_, share)| share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{time:?}");
            assert!(time.did.iter().all(|(_, share)| *share >= 0.0), "{time:?}");
        }
        let of = |name: &str| times.iter().find(|time| time.name == name).unwrap();
        assert!((of("hotloop-learner").did[0].1 - 2.0 / 3.0).abs() < 1e-9);
        assert!(of("hotloop-infer-0").did[1].1 > of("hotloop-infer-0").did[0].1);
        if cfg!(target_os = "linux") {
            assert!(of(ENV).on_core.unwrap() > 0.0, "{times:?}");
        }
        busy.unwrap().join().unwrap();
    }

    #[test]
    fn what_the_system_writes_is_read() {
        let ran = parse("1500000000 250000000 12\n").unwrap();
        assert_eq!((ran.on_core, ran.ready), (1.5, 0.25));
        assert_eq!(parse("nothing"), None);
        assert_eq!(role("learner-3"), SHARD);
        assert_eq!(role("hotloop-infer-1"), "hotloop-infer-1");
    }
}
