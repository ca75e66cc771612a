//! How many threads a run starts, and which: a process of its own, since it counts them all.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use hotloop_env::End;
use hotloop_tests::{Script, Watch, trainer};
use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

/// The threads of this process by name; those of the test harness are named after their tests.
fn threads() -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        // One may end while it is looked at.
        if let Ok(name) = fs::read_to_string(task.unwrap().path().join("comm")) {
            *names.entry(name.trim().to_string()).or_insert(0) += 1;
        }
    }
    names
}

/// The threads after the third update of a run, but for those that were there before.
fn during(settings: &[&str]) -> BTreeMap<String, usize> {
    let before = threads();
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let watch = Watch({
        let seen = Arc::clone(&seen);
        move |update: &hotloop_telemetry::Update| {
            if update.update == 3 {
                *seen.lock().unwrap() = threads();
            }
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let spec = Script::count(7, End::Truncated).spec();
    let run = trainer(&spec, settings)
        .run_dir(dir.path().join("run"))
        .sink(watch);
    run.build().unwrap().train().unwrap();
    assert_eq!(threads(), before, "every thread is gone after the run");
    let mut seen = Arc::try_unwrap(seen).unwrap().into_inner().unwrap();
    for (name, count) in before {
        if let Some(now) = seen.get_mut(&name) {
            *now -= count;
        }
    }
    seen.retain(|_, count| *count > 0);
    seen
}

#[test]
fn br_55_threads_are_those_that_were_asked_for() {
    // Networks and batches of more than enough work for a pool, if there were one.
    let work = [
        "network.hidden=[128, 128]",
        "rollout.envs=32",
        "steps=2048",
        "algo.shards=4",
    ];
    let with = |threads: &str| during(&[&work[..], &[threads]].concat());
    // One thread for the run, and one that watches; for each one asked for, one each of environments, inference and shards,
    // which take turns. None is anybody else's.
    let expected = |threads: usize| -> BTreeMap<String, usize> {
        let mut names = BTreeMap::from([
            ("hotloop-learner".to_string(), 1),
            ("hotloop-env".to_string(), threads),
            ("hotloop-watch".to_string(), 1),
        ]);
        for i in 0..threads {
            names.insert(format!("hotloop-infer-{i}"), 1);
            names.insert(format!("learner-{i}"), 1);
        }
        names
    };
    assert_eq!(with("threads=2"), expected(2));
    assert_eq!(with("threads=1"), expected(1));

    // 0 is all that this process is allowed, not all that the machine has.
    // SAFETY: `set` is a plain bit set that is fully initialised before it is handed over; it is of this
    // thread, and inherited by those that it starts.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set));
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first.unwrap(), &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
    assert_eq!(with("threads=0"), expected(1));
}
