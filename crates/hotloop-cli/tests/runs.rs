//! Whole runs through the command line: what they leave, how they go on, how they stop.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests panic as tests do")]

mod common;

use common::{Done, command, done, hotloop};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The settings of a run so small that it takes a moment even in a debug build.
const TINY: &[&str] = &[
    "train",
    "CartPole-v1",
    "--set",
    "rollout.envs=8",
    "--set",
    "rollout.horizon=16",
    "--set",
    "network.hidden=[8]",
    "--set",
    "algo.epochs=1",
];

fn train(dir: &Path, args: &[&str]) -> Done {
    hotloop(dir, &[TINY, args].concat())
}

fn json(done: &Done) -> Value {
    let last = done.stdout.lines().last();
    let line = last.unwrap_or_else(|| panic!("nothing on standard output: {done:?}"));
    serde_json::from_str(line).unwrap()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn metrics(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_run_leaves_what_is_needed_to_know_evaluate_and_repeat_it() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "--steps",
        "1e3",
        "--seed",
        "3",
        "--run-dir",
        "a/run",
        "--json",
    ];
    let first = train(dir.path(), &args);
    assert_eq!(first.code, 0, "{first:?}");
    assert_eq!(first.stdout.lines().count(), 1, "{}", first.stdout);
    let report = json(&first);
    for (key, value) in [
        ("run_dir", Value::from("a/run")),
        ("env", "CartPole-v1".into()),
        ("algo", "ppo".into()),
        ("seed", 3.into()),
        ("device", "cpu".into()),
        ("updates", 8.into()),
    ] {
        assert_eq!(report[key], value, "{key} of {report}");
    }
    for key in [
        "env_steps",
        "episodes",
        "wall_s",
        "steps_per_s",
        "return_mean_100",
    ] {
        assert!(
            report[key].as_f64().is_some_and(|x| x > 0.0),
            "{key} of {report}"
        );
    }
    assert_eq!(report["weights_hash"].as_str().map(str::len), Some(64));

    let run = dir.path().join("a/run");
    let manifest = read_json(&run.join("manifest.json"));
    assert_eq!(manifest["hotloop"], env!("CARGO_PKG_VERSION"));
    assert!(
        manifest["libtorch"]
            .as_str()
            .is_some_and(|v| v.starts_with("2."))
    );
    assert_eq!(
        (&manifest["seed"], &manifest["device"]),
        (&3.into(), &"cpu".into())
    );
    assert!(
        manifest["command_line"]
            .as_array()
            .is_some_and(|c| c.contains(&"--seed".into()))
    );
    let updates: Vec<_> = metrics(&run).iter().map(|m| m["update"].clone()).collect();
    assert_eq!(updates, (1..=8).map(Value::from).collect::<Vec<_>>());

    // The resolved configuration alone repeats the run, with any number of threads.
    for threads in ["1", "2"] {
        let again = hotloop(
            dir.path(),
            &["train", "a/run/config.toml", "--threads", threads, "--json"],
        );
        assert_eq!(
            json(&again)["weights_hash"],
            report["weights_hash"],
            "{again:?}"
        );
    }
    let other = train(dir.path(), &["--steps", "1000", "--seed", "4", "--json"]);
    assert_ne!(json(&other)["weights_hash"], report["weights_hash"]);

    let eval = hotloop(dir.path(), &["eval", "a/run", "--episodes", "5", "--json"]);
    assert_eq!((eval.code, eval.stderr.as_str()), (0, ""));
    let eval = json(&eval);
    assert_eq!(eval["episodes"], 5);
    for key in [
        "return_mean",
        "return_std",
        "return_min",
        "return_max",
        "length_mean",
    ] {
        assert!(eval[key].as_f64().is_some(), "{key} of {eval}");
    }
    let best = hotloop(dir.path(), &["eval", "a/run", "--best"]);
    assert_eq!(best.code, 2);
    assert!(best.stderr.contains("eval.every"), "{}", best.stderr);
}

#[test]
fn without_json_a_person_is_told_how_to_evaluate() {
    let dir = tempfile::tempdir().unwrap();
    let done = train(dir.path(), &["--steps", "200"]);
    assert_eq!(done.code, 0, "{done:?}");
    let next = done.stdout.lines().last().unwrap();
    let run = next.split_once(" eval ").expect(next).1;
    assert!(run.starts_with("runs/CartPole-v1-ppo-1-"), "{next}");
    // Progress in a log file: lines without control sequences, on standard error.
    assert!(done.stderr.contains("100%"), "{}", done.stderr);
    assert!(!done.stderr.contains('\r') && !done.stderr.contains('\u{1b}'));
    let eval = hotloop(dir.path(), &["eval", run, "--episodes", "2"]);
    assert!(eval.stdout.starts_with("return  "), "{eval:?}");
}

#[test]
fn a_run_is_never_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--steps", "200", "--run-dir", "run"];
    assert_eq!(train(dir.path(), &args).code, 0);
    let before = fs::read(dir.path().join("run/config.toml")).unwrap();
    let again = train(dir.path(), &[&args[..], &["--seed", "9"]].concat());
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("--resume"), "{}", again.stderr);
    assert_eq!(
        fs::read(dir.path().join("run/config.toml")).unwrap(),
        before
    );
}

/// Starts a run that would take hours, and returns once it has made its first updates.
fn start_long_run(dir: &Path, extra: &[&str]) -> Child {
    let args = [
        TINY,
        &["--steps", "1e12", "--run-dir", "run", "--json"],
        extra,
    ]
    .concat();
    let mut child = command(dir, &args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = child.stderr.take().unwrap();
    let mut lines = BufReader::new(stderr);
    let mut line = String::new();
    while !line.contains("steps/s") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the run ended");
    }
    child.stderr = Some(lines.into_inner());
    child
}

fn signal(child: &Child, signal: libc::c_int) {
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: sends a signal to a child that has not been waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn br_50_ctrl_c_leaves_a_checkpoint_from_which_the_run_goes_on() {
    for (number, mode) in [(libc::SIGINT, "sync"), (libc::SIGTERM, "overlap")] {
        let dir = tempfile::tempdir().unwrap();
        let mode = format!("rollout.mode={mode}");
        let child = start_long_run(dir.path(), &["--set", &mode]);
        signal(&child, number);
        let stopped = done(child.wait_with_output().unwrap());
        assert_eq!(stopped.code, 130, "{stopped:?}");
        let notices = stopped.stderr.matches("stopping after this update").count();
        assert_eq!(notices, 1, "{}", stopped.stderr);
        assert!(!stopped.stderr.contains("panicked"), "{}", stopped.stderr);
        let report = json(&stopped);
        assert_eq!(report["ended"], "interrupted");

        // Another eight updates, then the hash is that of a run that was never stopped.
        let steps = report["env_steps"].as_u64().unwrap() + 1024;
        let steps = steps.to_string();
        let resumed = hotloop(
            dir.path(),
            &["train", "--resume", "run", "--steps", &steps, "--json"],
        );
        assert_eq!(resumed.code, 0, "{resumed:?}");
        let resumed = json(&resumed);
        let whole = train(
            dir.path(),
            &[
                "--steps",
                &steps,
                "--set",
                &mode,
                "--run-dir",
                "whole",
                "--json",
            ],
        );
        let whole = json(&whole);
        for key in ["weights_hash", "env_steps", "updates", "episodes"] {
            assert_eq!(resumed[key], whole[key], "{key}: {resumed} {whole}");
        }
        let (a, b) = (
            metrics(&dir.path().join("run")),
            metrics(&dir.path().join("whole")),
        );
        let counts =
            |all: &[Value]| -> Vec<_> { all.iter().map(|m| m["env_steps"].clone()).collect() };
        assert_eq!(counts(&a), counts(&b));
        // The last one, too, where its rollout was over before the update before it was told of.
        for update in &b {
            let share = |of: &str| update["shares"][of].as_f64().unwrap();
            assert!(share("inference") > 0.0, "{update}");
        }
    }
}

#[test]
fn br_50_a_second_ctrl_c_ends_at_once_and_spoils_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = start_long_run(dir.path(), &["--set", "checkpoint.every=1"]);
    while !dir.path().join("run/checkpoints/last.json").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, libc::SIGINT);
    signal(&child, libc::SIGTERM);
    let stopped = done(child.wait_with_output().unwrap());
    assert_eq!(stopped.code, 130, "{stopped:?}");
    assert!(!stopped.stderr.contains("panicked"), "{}", stopped.stderr);
    let eval = hotloop(dir.path(), &["eval", "run", "--episodes", "1"]);
    assert_eq!(eval.code, 0, "{eval:?}");
}

#[test]
fn br_50_ctrl_c_in_async_mode_keeps_what_was_learned() {
    let dir = tempfile::tempdir().unwrap();
    let child = start_long_run(dir.path(), &["--set", "rollout.mode=async"]);
    signal(&child, libc::SIGINT);
    let stopped = done(child.wait_with_output().unwrap());
    assert_eq!(stopped.code, 130, "{stopped:?}");
    let stopped = json(&stopped);
    let steps = (stopped["env_steps"].as_u64().unwrap() + 500).to_string();
    let resumed = hotloop(
        dir.path(),
        &["train", "--resume", "run", "--steps", &steps, "--json"],
    );
    assert_eq!(resumed.code, 0, "{resumed:?}");
    let updates: Vec<_> = metrics(&dir.path().join("run"))
        .iter()
        .map(|line| line["update"].as_u64().unwrap())
        .collect();
    assert_eq!(
        updates,
        (1..=json(&resumed)["updates"].as_u64().unwrap()).collect::<Vec<_>>()
    );
}

/// Whether a thread of the child has this name yet.
fn has_thread(child: &Child, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let mut names =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.any(|found| found.trim_end() == name)
}

#[test]
fn br_50_ctrl_c_in_bench_and_eval_leaves_nothing_behind() {
    let (dir, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = train(dir.path(), &["--steps", "500", "--run-dir", "run"]);
    assert_eq!(made.code, 0, "{made:?}");
    let left = || fs::read_dir(temporary.path()).unwrap().count();
    let eval = ["eval", "run", "--episodes", "1000000"];
    let part = ["bench", "rollout", "--seconds", "3600"];
    let whole = [
        "bench",
        "train",
        "--steps",
        "1e12",
        "--set",
        "rollout.envs=8",
    ];
    for (args, at, word) in [
        (&eval[..], "hotloop-signals", "interrupted"),
        (&part, "hotloop-env", "interrupted"),
        (&whole, "hotloop-env", "stopping after this update"),
    ] {
        let mut child = command(dir.path(), args)
            .env("TMPDIR", temporary.path())
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Where there is something to clean up it is waited for.
        let kept = usize::from(args == whole);
        while !has_thread(&child, at) || left() < kept {
            assert!(child.try_wait().unwrap().is_none(), "{args:?} ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(&child, libc::SIGINT);
        let stopped = done(child.wait_with_output().unwrap());
        assert_eq!(stopped.code, 130, "{stopped:?}");
        assert_eq!(stopped.stderr.lines().count(), 1, "{stopped:?}");
        assert!(stopped.stderr.starts_with(word), "{stopped:?}");
        assert_eq!(stopped.stdout, "");
        assert_eq!(left(), 0);
    }
}

#[test]
fn a_replay_whose_updates_hang_on_the_steps_needs_the_recorded_ones() {
    let dir = tempfile::tempdir().unwrap();
    let run = |extra: &[&str]| {
        train(
            dir.path(),
            &[&["--set", "rollout.mode=async"][..], extra].concat(),
        )
    };
    let linear = ["--set", "algo.entropy_schedule=linear"];
    let recorded = run(&[&linear[..], &["--steps", "1500", "--record-schedule", "s"]].concat());
    assert_eq!(recorded.code, 0, "{recorded:?}");
    let replay = ["--steps", "1000", "--replay-schedule", "s"];
    for (settings, named) in [
        (
            &linear[..],
            "recorded with steps = 1500, and now it is 1000",
        ),
        (&[], "recorded with algo.entropy_schedule"),
    ] {
        let other = run(&[settings, &replay].concat());
        assert_eq!(other.code, 2, "{other:?}");
        assert!(other.stderr.contains(named), "{other:?}");
    }
    // Without a schedule fewer steps are the beginning of the same.
    let recorded = run(&["--steps", "1500", "--record-schedule", "s"]);
    assert_eq!(recorded.code, 0, "{recorded:?}");
    let shorter = run(&replay);
    assert_eq!(shorter.code, 0, "{shorter:?}");
}

#[test]
fn a_recorded_schedule_is_replayed_to_the_same_weights() {
    let dir = tempfile::tempdir().unwrap();
    for scheduler in ["lockstep", "first-ready"] {
        let scheduler = format!("rollout.scheduler={scheduler}");
        let settings = [
            "--steps",
            "2000",
            "--set",
            "rollout.mode=async",
            "--set",
            &scheduler,
            "--json",
        ];
        let record = train(
            dir.path(),
            &[&settings[..], &["--record-schedule", "s"]].concat(),
        );
        assert_eq!(record.code, 0, "{record:?}");
        for free in [&[][..], &["--set", "checkpoint.every=3"]] {
            let replay = [&settings[..], &["--replay-schedule", "s"], free].concat();
            let replay = train(dir.path(), &replay);
            assert_eq!(replay.code, 0, "{replay:?}");
            for key in ["weights_hash", "updates", "env_steps", "episodes"] {
                assert_eq!(json(&record)[key], json(&replay)[key], "{key}: {replay:?}");
            }
        }
        let other = [
            &settings[..],
            &["--replay-schedule", "s", "--set", "algo.gamma=0.5"],
        ]
        .concat();
        let other = train(dir.path(), &other);
        assert_eq!(other.code, 2, "{other:?}");
        assert!(other.stderr.contains("algo.gamma"), "{other:?}");
    }
}

#[test]
fn a_directory_in_place_of_the_metrics_is_refused_before_anything_steps() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        train(dir.path(), &["--steps", "500", "--run-dir", "run"]).code,
        0
    );
    let metrics = dir.path().join("run/metrics.jsonl");
    fs::remove_file(&metrics).unwrap();
    fs::create_dir(&metrics).unwrap();
    let resumed = hotloop(dir.path(), &["train", "--resume", "run", "--steps", "1000"]);
    assert_eq!(resumed.code, 2, "{resumed:?}");
    assert!(resumed.stderr.contains("metrics.jsonl"), "{resumed:?}");
}

#[test]
fn until_return_stops_at_an_evaluation_and_keeps_the_best() {
    let dir = tempfile::tempdir().unwrap();
    let done = train(
        dir.path(),
        &[
            "--steps",
            "1e12",
            "--until-return",
            "5",
            "--set",
            "eval.every=2",
            "--run-dir",
            "run",
            "--json",
        ],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let report = json(&done);
    assert_eq!(
        (&report["ended"], &report["updates"]),
        (&"return_reached".into(), &2.into())
    );
    assert!(done.stderr.contains("evaluation after"), "{}", done.stderr);
    let best = hotloop(
        dir.path(),
        &["eval", "run", "--best", "--episodes", "1", "--json"],
    );
    assert_eq!(best.code, 0, "{best:?}");
}

#[test]
fn bench_measures_each_part_and_names_its_settings() {
    let dir = tempfile::tempdir().unwrap();
    let small = [
        "--set",
        "rollout.horizon=8",
        "--set",
        "network.hidden=[8]",
        "--actors",
        "4",
        "--envs-per-actor",
        "2",
        "--seconds",
        "0.001",
        "--steps",
        "128",
        "--json",
    ];
    for scenario in ["rollout", "acting", "inference", "learner", "train"] {
        let bench = hotloop(dir.path(), &[&["bench", scenario][..], &small].concat());
        assert_eq!(bench.code, 0, "{scenario}: {bench:?}");
        let report = json(&bench);
        assert_eq!(report["scenario"], scenario);
        assert!(
            report["steps_per_s"]
                .as_f64()
                .is_some_and(|rate| rate > 0.0),
            "{report}"
        );
        assert_eq!(report["settings"]["envs"], 8, "{report}");
        assert_eq!(report["settings"]["env"], "CartPole-v1", "{report}");
    }
    for mode in ["sync", "overlap", "async"] {
        let bench = hotloop(
            dir.path(),
            &[&["bench", "train", "--mode", mode][..], &small].concat(),
        );
        let report = json(&bench);
        assert_eq!(report["settings"]["mode"], mode, "{report}");
        let threads = report["threads"].as_array().unwrap();
        for name in [
            "hotloop-env",
            "hotloop-infer-0",
            "hotloop-learner",
            "learner",
        ] {
            let thread = threads.iter().find(|thread| thread["name"] == name);
            let did = thread.unwrap_or_else(|| panic!("no {name} in {report}"))["did"].as_array();
            let whole: f64 = did
                .unwrap()
                .iter()
                .map(|part| part[1].as_f64().unwrap())
                .sum();
            assert!((whole - 1.0).abs() < 1e-6, "{name}: {report}");
        }
    }
    let unusual = ["algo.name=appo", "network.recurrent=gru"];
    let unusual = unusual.map(|set| ["--set", set]).concat();
    let bench = hotloop(
        dir.path(),
        &[&["bench", "rollout"], &small[..], &unusual].concat(),
    );
    let settings = &json(&bench)["settings"];
    assert_eq!(settings["algo.name"], "appo", "{settings}");
    assert_eq!(settings["network.recurrent"], "gru", "{settings}");
    assert_eq!(settings["network.recurrent_size"], 64, "{settings}");
    for usual in ["rollout.scheduler", "network.body", "device"] {
        assert!(settings.get(usual).is_none(), "{settings}");
    }
    let nothing = hotloop(dir.path(), &["bench", "rollout", "--seconds", "0"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
    assert!(nothing.stderr.contains("above 0"), "{nothing:?}");
    // A benchmark leaves no run behind.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// The peak of a process's resident size in MiB, as long as it runs.
#[cfg(target_os = "linux")]
fn peak(child: &Child) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_takes_the_memory_that_its_start_tells() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "train",
        "Synthetic/Wait-v0",
        "--steps",
        "100_000",
        "--run-dir",
        "run",
        "--set",
        "env.options.time=1",
        "--set",
        "algo.name=appo",
        "--set",
        "algo.epochs=1",
        "--set",
        "rollout.envs=1024",
    ];
    let mut run = command(dir.path(), &args);
    let mut child = run.stderr(Stdio::piped()).spawn().unwrap();
    let mut most = 0.0;
    while child.try_wait().unwrap().is_none() {
        most = peak(&child).map_or(most, |peak| peak.max(most));
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let words: Vec<_> = told.split_whitespace().collect();
    let about = words.iter().position(|word| *word == "about");
    let about = about.unwrap_or_else(|| panic!("no size was told: {told}"));
    let expected: f64 = words[about + 1].parse().unwrap();
    assert!(
        (most / expected - 1.0).abs() < 0.1,
        "{expected} MiB were told, {most:.1} were taken"
    );
}
