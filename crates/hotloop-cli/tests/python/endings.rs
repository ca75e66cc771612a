//! How a run is ended from outside, whatever it is at.

use crate::drill::{RUN, checkpoint, goes_on, report};
use crate::place::Place;
use libc::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use std::thread::sleep;
use std::time::Duration;

const SIGNALS: [(&str, &[i32]); 5] = [
    ("SIGINT", &[SIGINT]),
    ("SIGTERM", &[SIGTERM]),
    ("SIGHUP", &[SIGHUP]),
    ("SIGKILL", &[SIGKILL]),
    ("SIGINT twice", &[SIGINT, SIGINT]),
];

/// What a run is at: its name, and how many updates are in the checkpoint that a signal leaves there at least and at
/// most. A rollout that ends soon is waited for and trained on; one that does not is given up.
const PHASES: [(&str, u64, u64); 8] = [
    ("probe", 0, 0),
    ("constructor", 0, 1),
    ("reset", 1, 2),
    ("step", 2, 3),
    ("update", 2, 3),
    ("checkpoint", 1, u64::MAX),
    ("evaluation", 1, 1),
    ("shutdown", 4, 4),
];

/// Every phase with one of the signals, with another in each round.
pub(crate) fn round(round: usize) -> Vec<String> {
    let all = PHASES.iter().enumerate().map(|(at, phase)| {
        let (name, signals) = SIGNALS[(round + at) % SIGNALS.len()];
        let hangs = (round / SIGNALS.len() + at).is_multiple_of(2);
        end(*phase, signals, hangs, round);
        format!("{}, {name}", phase.0)
    });
    all.collect()
}

fn end((phase, least, most): (&str, u64, u64), signals: &[i32], hangs: bool, round: usize) {
    let place = Place::new();
    let own = [
        format!("--set=env.kwargs.phase={phase}"),
        format!("--set=env.kwargs.hold={}", if hangs { 60.0 } else { 0.2 }),
        format!(
            "--steps={}",
            if phase == "shutdown" { "64" } else { "4000" }
        ),
        "--set=rollout.envs=2".into(),
        // So that an update and a checkpoint take a while.
        "--set=network.hidden=[512, 512]".into(),
        format!(
            "--set=algo.epochs={}",
            if phase == "update" { 40 } else { 1 }
        ),
        format!("--set=eval.every={}", u8::from(phase == "evaluation")),
        "--set=eval.envs=2".into(),
    ];
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let mut running = place.start(&[RUN, &own].concat());
    running.until(phase, |place| match phase {
        "checkpoint" => checkpoint(place).is_some() && place.has_temporary_files(),
        _ => place.path(&format!("did-{phase}")).exists(),
    });
    // Another moment in each round.
    sleep(Duration::from_micros(round as u64 % 10 * 1_700));
    for signal in signals {
        running.signal(*signal);
        sleep(Duration::from_millis(20));
    }
    let ended = running.ends();
    let (code, said) = (ended.code, &ended.stderr);
    let context = format!("{phase}, {signals:?}, hangs: {hangs}: {said}");
    assert!(
        !said.contains("Traceback") && !said.contains("error"),
        "{context}"
    );
    let asked = signals.len() == 1 && signals != [SIGKILL];
    match phase {
        _ if signals == [SIGKILL] => assert_eq!(code, None, "{context}"),
        // All is done by then; only a second signal may find it still at something.
        "shutdown" if asked => assert_eq!(code, Some(0), "{context}"),
        "shutdown" => assert!(matches!(code, Some(0 | 130)), "{context}"),
        _ => assert_eq!(code, Some(130), "{context}"),
    }
    // Who leaves at once may leave a file half written; to go on takes it away.
    assert!(!asked || !place.has_temporary_files(), "{context}");
    if phase == "probe" {
        // Nothing is left of a run that has not begun.
        assert!(!place.path("run").exists(), "{context}");
    } else if asked {
        let finished = phase == "shutdown";
        let how = if finished { "finished" } else { "interrupted" };
        assert_eq!(report(&ended)["ended"], how, "{context}");
        let checkpoint = checkpoint(&place).unwrap();
        let updates = checkpoint["state"]["updates"].as_u64().unwrap();
        assert!(
            (least..=most).contains(&updates),
            "{updates} updates, {context}"
        );
    }
    goes_on(&place);
}
