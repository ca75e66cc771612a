//! The fault drill: real runs of an environment in Python that does everything wrong, and that are ended in every way and
//! phase. After each the exit code is the documented one, the cause is named, nothing is left, and the run goes on.
//!
//! `HOTLOOP_DRILL=50` makes so many rounds of it; what each round was is printed with `--nocapture`.

use crate::place::{Ended, Place};
use crate::{endings, faults};
use serde_json::Value;
use std::collections::BTreeMap;

/// A small run that is saved after every update.
pub(crate) const RUN: &[&str] = &[
    "train",
    "gymnasium:Drill-v0",
    "--run-dir=run",
    "--json",
    "--set=env.import=drill_toy",
    "--set=rollout.mode=sync",
    "--set=rollout.groups=1",
    "--set=rollout.horizon=8",
    "--set=rollout.max_failures_in_a_row=1000",
    "--set=network.hidden=[8]",
    "--set=algo.epochs=1",
    "--set=algo.minibatches=1",
    "--set=checkpoint.every=1",
];

/// Makes the rounds, and prints how often each thing was seen in them.
fn drill(name: &str, round: fn(usize) -> Vec<String>) {
    let rounds = std::env::var("HOTLOOP_DRILL").map_or(1, |n| n.parse().unwrap());
    let mut seen = BTreeMap::<String, usize>::new();
    for number in 0..rounds {
        for thing in round(number) {
            *seen.entry(thing).or_default() += 1;
        }
        println!("{name}: round {} of {rounds}", number + 1);
    }
    for (thing, times) in seen {
        println!("{name}: {times} x {thing}");
    }
}

#[test]
fn br_44_br_46_faults_are_named_and_survived_or_end_the_run_as_asked() {
    drill("faults", faults::round);
}

#[test]
fn br_47_br_50_nothing_is_left_however_a_run_is_ended_and_it_goes_on() {
    drill("endings", endings::round);
}

/// What a run printed to standard output, which is JSON.
pub(crate) fn report(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap()
}

/// The manifest of the last checkpoint, if there is one.
pub(crate) fn checkpoint(place: &Place) -> Option<Value> {
    let manifest = place.read("run/checkpoints/last.json");
    (!manifest.is_empty()).then(|| serde_json::from_str(&manifest).unwrap())
}

/// The run goes on from its checkpoint, if it has one, for one more update.
pub(crate) fn goes_on(place: &Place) {
    let Some(checkpoint) = checkpoint(place) else {
        return;
    };
    let steps = 1 + checkpoint["state"]["env_steps"].as_u64().unwrap();
    let steps = format!("--steps={steps}");
    let ended = place
        .start(&[
            "train",
            "--resume=run",
            "--json",
            "--set=algo.epochs=1",
            &steps,
        ])
        .ends();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let updates = |value: &Value| value["updates"].as_u64().unwrap();
    assert_eq!(
        updates(&report(&ended)),
        updates(&checkpoint["state"]) + 1,
        "{}",
        ended.stderr
    );
    assert!(!place.has_temporary_files());
}
