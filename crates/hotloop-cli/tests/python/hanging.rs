//! Commands whose environment in Python hangs: each can be ended by one signal, and by a limit. And which signals
//! end one.

use crate::place::{Ended, Place};
use serde_json::Value;

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
fn br_46_br_50_one_signal_ends_what_hangs_before_a_run_begins_or_with_its_policy() {
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
        (&["eval", "run"], "step", libc::SIGTERM),
        (
            &["eval", "run", "--render=film.gif"],
            "render",
            libc::SIGINT,
        ),
        (&["play", "run"], "reset", libc::SIGHUP),
        (&["play", "run"], "render", libc::SIGTERM),
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
fn br_47_an_interpreter_that_never_becomes_a_worker_ends_with_the_program() {
    let place = Place::new();
    place.script("odd", "touch hangs; sleep 1000; true");
    let odd = ["--set=env.python=./odd", "--run-dir=new"];
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let mut running = place.start(&[TRAIN, &odd].concat());
        running.until("hangs", |place| place.has("hangs"));
        running.signal(signal);
        // And nothing that it has started is left.
        running.ends();
        place.go_on("");
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
        "reset_deadline = 6.5",
    );
    let new = [
        TRAIN,
        &["--run-dir=new", "--set=rollout.reset_deadline=6.5"],
    ]
    .concat();
    for (args, at) in [(&new[..], "constructor"), (&["eval", "run"], "reset")] {
        place.hang(at, "");
        let ended = place.start(args).ends();
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        for part in [
            "environment gymnasium:Hang-v0: it was not made and reset within 6.5 s (rollout.reset_deadline)",
            // Where it hung.
            "in pass_through",
        ] {
            assert!(ended.stderr.contains(part), "{args:?}: {ended:?}");
        }
        assert!(!place.has("new"));
        place.go_on(at);
    }
}

fn report(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn br_46_what_hangs_in_training_or_evaluation_is_given_up_and_what_is_lost_with_it_is_counted() {
    let place = Place::new();
    let limits = ["--set=rollout.step_deadline=1", "--json", "--run-dir=run"];
    let evaluated = ["--set=eval.every=1", "--set=eval.episodes=3"];
    let together = ["--set=rollout.groups=1", "--set=rollout.envs_per_actor=4"];
    let new = [TRAIN, &limits, &evaluated, &together, &["--steps=64"]].concat();
    // Four environments train in one process, three are evaluated in another.
    place.hang("step-4", "once");
    place.hang("step-3", "once");
    let ended = place.start(&new).ends();
    let trained = report(&ended);
    assert_eq!(
        (&trained["faults"], &trained["lost"]),
        (&7.into(), &5.into()),
        "{trained}"
    );
    let metrics = place.read("run/metrics.jsonl");
    let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["faults"], &last["lost"]),
        (&7.into(), &5.into()),
        "{last}"
    );
    let evaluations = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let failed: Vec<_> = evaluations
        .map(|line| [&line["evaluation"]["faults"], &line["evaluation"]["lost"]].map(Value::as_u64))
        .filter(|counts| *counts != [Some(0), Some(0)])
        .collect();
    assert_eq!(failed, [[Some(3), Some(2)]], "{metrics}");
    let passed = "step passed its deadline: no answer within 1 s";
    assert_eq!(ended.stderr.matches(passed).count(), 2, "{ended:?}");

    // The counts are of the whole run.
    let more = ["train", "--resume=run", "--steps=96"];
    let ended = place.start(&more).ends();
    let said = "faults    7, 5 of them lost";
    assert!(ended.stdout.contains(said), "{ended:?}");

    let eval = ["eval", "run", "--episodes=3"];
    place.hang("step", "once");
    let again = report(&place.start(&[&eval[..], &["--json"]].concat()).ends());
    for (key, value) in [
        ("episodes", 3),
        ("faults", 3),
        ("lost", 2),
        ("length_mean", 5),
    ] {
        assert_eq!(
            again[key].as_f64(),
            Some(f64::from(value)),
            "{key} of {again}"
        );
    }
    place.hang("step", "once");
    let ended = place.start(&eval).ends();
    let said = "faults  3, 2 of them lost";
    assert!(ended.stdout.contains(said), "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("evaluation, lane 0, step 0: step passed"),
        "{ended:?}"
    );
}

#[test]
fn br_44_what_fails_while_it_is_drawn_is_named() {
    let place = Place::new();
    trained(&place, &[]);
    let before = place.files();
    place.hang("render", "raise");
    let ended = place.start(&["eval", "run", "--render=film.gif"]).ends();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let said = "error: gymnasium:Hang-v0, episode 0, step 0: render failed: ValueError: boom-42";
    assert!(ended.stderr.contains(said), "{ended:?}");
    place.go_on("render");
    assert_eq!(place.files(), before);
}

#[test]
fn br_44_what_fails_while_it_is_filmed_begins_anew() {
    let place = Place::new();
    trained(&place, &["--set=rollout.step_deadline=1"]);
    place.hang("step", "once");
    let film = ["eval", "run", "--episodes=3", "--render=film.gif", "--json"];
    let filmed = report(&place.start(&film).ends());
    // It is filmed alone.
    assert_eq!(filmed["faults"], 1, "{filmed}");
    assert!(place.has("film.gif"));
}

#[test]
fn br_50_an_evaluation_in_training_that_hangs_holds_up_no_end() {
    let place = Place::new();
    let evaluated = ["--set=eval.every=1", "--set=eval.episodes=2"];
    place.hang("step-2", "");
    let endless = ["--steps=1e12", "--run-dir=run"];
    let mut running = place.start(&[TRAIN, &evaluated, &endless].concat());
    running.until("hangs", |place| place.has("hangs"));
    running.signal(libc::SIGTERM);
    assert_eq!(running.ends().code, Some(130));
    assert!(place.has("run/checkpoints/last.json"));
}

#[test]
fn br_47_environments_are_closed_before_a_program_ends_and_one_that_hangs_then_holds_up_nothing() {
    let place = Place::new();
    trained(&place, &["--set=rollout.envs_per_actor=1"]);
    // The one that was asked for its spaces, and four that trained.
    assert_eq!(place.read("closed").lines().count(), 5);
    place.hang("close", "");
    let ended = place.start(&["eval", "run", "--episodes=2"]).ends();
    assert_eq!(ended.code, Some(0), "{ended:?}");
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
