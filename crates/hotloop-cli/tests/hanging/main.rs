//! Commands whose environment in Python hangs: each can be ended by one signal, and by a limit. And which signals
//! end one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod place;

use place::Place;

const TRAIN: &[&str] = &[
    "train",
    "gymnasium:Hang-v0",
    "--set=env.import=hang_toy",
    "--set=rollout.envs=4",
    "--set=rollout.horizon=8",
    "--set=network.hidden=[8]",
    "--set=algo.epochs=1",
    "--set=algo.minibatches=1",
];

fn trained(place: &Place, more: &[&str]) {
    let trained = place
        .start(&[TRAIN, &["--steps=32", "--run-dir=run"], more].concat())
        .ends();
    assert_eq!(trained.code, Some(0), "{trained:?}");
}

#[test]
fn br_46_br_50_one_signal_ends_a_start_that_hangs_and_nothing_is_left() {
    let place = Place::new();
    trained(&place, &[]);
    let before = place.files();
    let new = [TRAIN, &["--run-dir=new"]].concat();
    let bench = |part| {
        let env = ["--env=gymnasium:Hang-v0", "--set=env.import=hang_toy"];
        [&["bench", part], &env[..]].concat()
    };
    for (args, at, signal) in [
        (&new[..], "constructor", libc::SIGINT),
        (&new, "reset", libc::SIGTERM),
        (&["train", "--resume=run"], "reset", libc::SIGHUP),
        (&["eval", "run"], "constructor", libc::SIGINT),
        (&["play", "run"], "reset", libc::SIGHUP),
        (&bench("rollout"), "constructor", libc::SIGTERM),
        (&bench("train"), "reset", libc::SIGINT),
    ] {
        place.hang(at, "");
        let mut running = place.start(args);
        running.until("hangs", |place| place.has("hangs"));
        running.signal(signal);
        let ended = running.ends();
        assert_eq!(ended.code, Some(130), "{args:?}: {ended:?}");
        assert!(
            ended.stderr.starts_with("interrupted"),
            "{args:?}: {ended:?}"
        );
        assert_eq!(ended.stderr.lines().count(), 1, "{args:?}: {ended:?}");
        place.go_on(at);
        assert_eq!(place.files(), before, "{args:?}");
    }
}

#[test]
fn br_46_a_start_that_takes_long_says_what_it_waits_for() {
    let place = Place::new();
    place.hang("constructor", "");
    let mut running = place.start(&[TRAIN, &["--run-dir=new"]].concat());
    running.until("says so", |place| place.said().contains("still waiting"));
    running.signal(libc::SIGINT);
    let ended = running.ends();
    for part in [
        "gymnasium:Hang-v0: still",
        "rollout.reset_deadline sets a limit",
    ] {
        assert!(ended.stderr.contains(part), "{ended:?}");
    }
    assert_eq!(ended.code, Some(130), "{ended:?}");
}

#[test]
fn br_46_a_start_that_hangs_has_the_limit_of_a_reset() {
    let place = Place::new();
    trained(&place, &["--set=rollout.reset_deadline=20"]);
    place.change(
        "run/config.toml",
        "reset_deadline = 20.0",
        "reset_deadline = 1.5",
    );
    let new = [
        TRAIN,
        &["--run-dir=new", "--set=rollout.reset_deadline=1.5"],
    ]
    .concat();
    for (args, at) in [(&new[..], "constructor"), (&["eval", "run"], "reset")] {
        place.hang(at, "");
        let ended = place.start(args).ends();
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        for part in [
            "environment gymnasium:Hang-v0: it was not made and reset within 1.5 s (rollout.reset_deadline)",
            // Where it hung.
            "in pass_through",
        ] {
            assert!(ended.stderr.contains(part), "{args:?}: {ended:?}");
        }
        assert!(!place.has("new"));
        place.go_on(at);
    }
}

#[test]
fn br_50_a_closed_terminal_ends_a_run_in_good_order_unless_it_was_started_to_outlive_it() {
    let endless = [TRAIN, &["--steps=1e12", "--run-dir=run"]].concat();
    let updates = |place: &Place| place.read("run/metrics.jsonl").lines().count();
    let place = Place::new();
    let mut running = place.start(&endless);
    running.until("trains", |place| updates(place) > 2);
    // The system and the shell both tell of it.
    running.signal(libc::SIGHUP);
    running.signal(libc::SIGHUP);
    let ended = running.ends();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stdout.contains("train --resume run"), "{ended:?}");
    assert!(place.has("run/checkpoints/last.json"));

    let place = Place::new();
    let mut running = place.start_without_hangup(&endless);
    running.until("trains", |place| updates(place) > 2);
    running.signal(libc::SIGHUP);
    let now = updates(&place);
    running.until("goes on", |place| updates(place) > now + 2);
    running.signal(libc::SIGTERM);
    let ended = running.ends();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let stops = ended.stderr.matches("stopping after this update").count();
    assert_eq!(stops, 1, "{ended:?}");
}
