//! Commands that start, go on, or are refused.

use crate::place::{Ended, Place};

const RUN: &[&str] = &[
    "--run-dir=run",
    "--set=env.import=drill_toy",
    "--set=rollout.envs=8",
    "--set=rollout.horizon=8",
    "--set=network.hidden=[8]",
    "--set=algo.epochs=1",
    "--set=algo.minibatches=1",
];

fn succeeds(place: &Place, args: &[&str]) -> Ended {
    let ended = place.start(args).ends();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

fn weights(ended: &Ended) -> &str {
    let mut lines = ended.stdout.lines();
    lines.find(|line| line.starts_with("weights")).unwrap()
}

#[test]
fn a_run_trains_is_evaluated_and_goes_on_and_its_seed_decides() {
    let places = [Place::new(), Place::new()];
    let [one, two] = [0, 1].map(|i| {
        let threads = ["--threads=1", "--threads=2"][i];
        let new = ["train", "gymnasium:Drill-v0", "--steps=640", threads];
        succeeds(&places[i], &[&new, RUN].concat())
    });
    assert_eq!(weights(&one), weights(&two));
    let [place, _] = places;
    let evaluated = succeeds(&place, &["eval", "run", "--episodes=4"]);
    assert!(evaluated.stdout.contains("5.00"), "{evaluated:?}");
    let more = succeeds(&place, &["train", "--resume=run", "--steps=1280"]);
    assert_ne!(weights(&more), weights(&one));
}

#[test]
fn what_cannot_start_is_told_in_one_paragraph_before_anything_is_made() {
    let place = Place::new();
    place.script("bare", "exec \"$HOTLOOP_PYTHON\" -S \"$@\"");
    place.hang("constructor", "raise");
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "gymnasium:LunarLandr-v3",
            &[],
            "Did you mean: `LunarLander`",
        ),
        (
            "gymnasium:CartPole-v1",
            &["--set=env.import=no_such_module"],
            "no_such_module",
        ),
        (
            "gymnasium:CartPole-v1",
            &["--set=env.kwargs.colour=red"],
            "'colour'",
        ),
        (
            "gymnasium:CartPole-v1",
            &["--set=env.python=/no/python"],
            "/no/python (from env.python)",
        ),
        (
            "gymnasium:CartPole-v1",
            &["--set=env.python=./bare"],
            "-m pip install gymnasium",
        ),
        ("gymnasium:", &[], "gymnasium:NAME"),
        (
            "CartPole-v1",
            &["--set=env.kwargs.x=1"],
            "CartPole-v1 is none",
        ),
        (
            "gymnasium:Hang-v0",
            &["--set=env.import=hang_toy"],
            "boom-42",
        ),
    ];
    for (env, args, part) in cases {
        let args = [&["train", env, "--run-dir=run"], *args].concat();
        let ended = place.start(&args).ends();
        assert_eq!(ended.code, Some(2), "{env}: {ended:?}");
        assert!(ended.stderr.contains(part), "{env}: {ended:?}");
        let errors = ended
            .stderr
            .lines()
            .filter(|line| line.starts_with("error"));
        assert_eq!(errors.count(), 1, "{env}: {ended:?}");
        assert!(!place.has("run"));
    }
}

#[test]
fn br_62_a_policy_is_not_put_into_another_environment() {
    let place = Place::new();
    let toy = ["--set=env.import=hang_toy", "--set=env.kwargs.start=0"];
    let new = ["train", "gymnasium:Hang-v0", "--steps=64"];
    succeeds(&place, &[&new, RUN, &toy].concat());
    place.change("run/config.toml", "start = 0", "start = 1");
    for args in [
        &["eval", "run"][..],
        &["train", "--resume=run", "--steps=128"],
    ] {
        let ended = place.start(args).ends();
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        let said =
            "trained with the action space [Discrete(2 from 0)], which is [Discrete(2 from 1)] now";
        assert!(ended.stderr.contains(said), "{args:?}: {ended:?}");
    }
}
