//! The whole, case by case, through the trainer, the agent and what they leave on disk.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod asynchronous;
mod devices;
mod episodes;
mod evaluation;
mod faults;
mod learning;
mod loading;
mod networks;
mod normalizing;
mod recurrent;
mod spaces;
mod stacking;
mod stopping;
mod waiting;
mod watching;

use hotloop::TrainReport;
use hotloop_learn::checkpoint::{self, Snapshot};
use serde_json::Value;
use std::path::Path;

/// What the run in `dir` last saved.
fn last(dir: &Path) -> Snapshot {
    checkpoint::load(&dir.join("checkpoints"), "last").unwrap()
}

/// The lines of a run's metrics.
fn metrics(report: &TrainReport) -> Vec<Value> {
    let text = std::fs::read_to_string(report.run_dir.join("metrics.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// One number of every line of a run's metrics.
fn column(report: &TrainReport, key: &str) -> Vec<f64> {
    let number = |line: &Value| {
        line[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{key} of {line}"))
    };
    metrics(report).iter().map(number).collect()
}

/// Whether a value target is this reward, but for the rounding of advantage plus value.
fn is_reward(target: f32, reward: f32) -> bool {
    (target - reward).abs() < 1e-5
}

/// All parts are in the text.
#[track_caller]
fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}
