//! What environments and their workers do wrong: survived, or the end of the run, and named either way.

use crate::drill::{RUN, goes_on};
use crate::place::Place;
use std::fs;

/// What goes wrong, what is told of it, and whether it happens in the second step of an episode or in a reset.
const KINDS: [(&str, &str); 8] = [
    ("raise", "ValueError: boom-42"),
    ("hang", "step passed its deadline"),
    ("kill", "SIGKILL"),
    ("segv", "SIGSEGV"),
    ("stop", "step passed its deadline"),
    ("memory", "MemoryError"),
    ("leave", "exit code 7"),
    ("reset", "ValueError: boom-42"),
];

/// All of it in one run, which goes on; then one kind after which the run is to end.
pub(crate) fn round(round: usize) -> Vec<String> {
    let survived = run(&KINDS, &["--steps=800"]);
    assert_eq!(survived.0, Some(0), "{}", survived.1);
    let kind = KINDS[round % KINDS.len()];
    let fatal = run(&[kind], &["--steps=8000", "--set=rollout.on_fault=fail"]);
    assert_eq!(fatal.0, Some(1), "{}", fatal.1);
    assert!(fatal.1.contains("error: "), "{}", fatal.1);
    let mut seen: Vec<_> = KINDS.map(|(kind, _)| format!("{kind}, survived")).into();
    seen.push(format!("{}, fatal", kind.0));
    seen
}

/// A run of one block, each of whose lanes does one thing wrong, once; its exit code and what it said.
fn run(kinds: &[(&str, &str)], args: &[&str]) -> (Option<i32>, String) {
    let place = Place::new();
    let names: Vec<_> = kinds.iter().map(|(kind, _)| *kind).collect();
    let own = [
        format!("--set=env.kwargs.kinds={names:?}"),
        "--set=rollout.envs=8".into(),
        "--set=rollout.envs_per_actor=8".into(),
        "--set=rollout.step_deadline=2".into(),
    ];
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let mut running = place.start(&[RUN, &own, args].concat());
    if names.contains(&"kill") {
        running.until("a worker that waits to be killed", |place| {
            place.path("victim").exists()
        });
        let victim = fs::read_to_string(place.path("victim")).unwrap();
        // SAFETY: a signal to the worker, which waits for it.
        unsafe { libc::kill(victim.parse().unwrap(), libc::SIGKILL) };
    }
    let ended = running.ends();
    assert!(!place.has_temporary_files(), "{}", ended.stderr);
    // Neighbours are lost with their worker, which is no failure of theirs.
    let faults = ended.stderr.lines().filter(|line| {
        line.contains(" WARN ") && line.contains(", lane ") && !line.contains("was lost")
    });
    let faults: Vec<_> = faults.collect();
    assert_eq!(faults.len(), kinds.len(), "{}", ended.stderr);
    for (lane, (kind, told)) in kinds.iter().enumerate() {
        let here = format!("lane {lane}, step ");
        let named = |line: &&str| line.contains(&here) && line.contains(told);
        assert!(faults.iter().any(named), "{kind}: {}", ended.stderr);
    }
    goes_on(&place);
    (ended.code, ended.stderr)
}
