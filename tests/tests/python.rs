//! The Python modules of `examples/python` act as the policies that they read.
//!
//! `HOTLOOP_PYTHON` names the Python (3.11 or newer) to use, else it is `python3`. Without numpy, or without torch, the
//! test says so and leaves that module out.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use hotloop::{Agent, Choice, EvalPlan, Which};
use hotloop_env::{
    ActionView, Env, EnvError, EnvRng, EnvSpec, ObservationMut, Registry, ResetCtx, Space,
    Transition,
};
use hotloop_tests::trainer;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// Observations with the actions taken on them.
type Taken = Arc<Mutex<Vec<([f32; 3], Vec<f64>)>>>;

/// Shows random numbers of uneven sizes, and keeps what was done.
struct Probe {
    actions: Space,
    shown: [f32; 3],
    steps: u32,
    taken: Taken,
}

impl Probe {
    fn show(&mut self, rng: &mut EnvRng) {
        self.shown = [1.0, 30.0, 0.2].map(|size| (size * rng.normal()) as f32);
    }
}

impl Env for Probe {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[3])
    }

    fn action_space(&self) -> Space {
        self.actions.clone()
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.steps = 0;
        self.show(ctx.rng());
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let numbers: Vec<f64> = match &self.actions {
            Space::Box(_) => action.continuous().iter().map(|x| f64::from(*x)).collect(),
            _ => vec![action.discrete() as f64],
        };
        let reward = numbers.iter().sum::<f64>() * f64::from(self.shown[0]);
        self.taken.lock().unwrap().push((self.shown, numbers));
        self.show(rng);
        self.steps += 1;
        Ok(if self.steps == 50 {
            Transition::terminated(reward)
        } else {
            Transition::running(reward)
        })
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&self.shown)
    }
}

fn python() -> String {
    std::env::var("HOTLOOP_PYTHON").unwrap_or_else(|_| "python3".into())
}

/// Whether Python can import everything that a script needs.
fn imports(modules: &str) -> bool {
    let probe = Command::new(python())
        .args(["-c", &format!("import tomllib, {modules}")])
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success())
}

/// What a script makes of observations.
fn script_acts(script: &str, run: &Path, observations: &str) -> Vec<Vec<f64>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/python");
    let mut child = Command::new(python())
        .arg(folder.join(script))
        .arg(run)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(observations.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{script} failed");
    let actions: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let action = |value: &serde_json::Value| match value.as_array() {
        Some(numbers) => numbers.iter().map(number).collect(),
        None => vec![number(value)],
    };
    actions.iter().map(action).collect()
}

/// Trains, plays greedily, and has the scripts choose for the same observations.
fn compare(actions: Space, settings: &[&str]) {
    let scripts = [
        ("numpy_policy.py", "numpy"),
        ("torch_policy.py", "numpy, torch"),
    ];
    let scripts: Vec<_> = scripts
        .into_iter()
        .filter(|(script, modules)| {
            let there = imports(modules);
            if !there {
                println!("{script} is left out: {} cannot import {modules}", python());
            }
            there
        })
        .collect();
    if scripts.is_empty() {
        return;
    }
    let taken: Taken = Taken::default();
    let spec = EnvSpec::new("Probe-v0", {
        let taken = Arc::clone(&taken);
        move |_| {
            Ok(Probe {
                actions: actions.clone(),
                shown: [0.0; 3],
                steps: 0,
                taken: Arc::clone(&taken),
            })
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    // Large steps, so that the actions differ.
    let settings = [
        &["network.hidden=[16, 8]", "algo.learning_rate=0.02"],
        settings,
    ]
    .concat();
    let trainer = trainer(&spec, &settings).run_dir(&run);
    trainer.build().unwrap().train().unwrap();
    taken.lock().unwrap().clear();
    let mut registry = Registry::new();
    registry.add(spec);
    let plan = EvalPlan {
        episodes: 4,
        seed: 3,
        choice: Choice::Greedy,
    };
    let agent = Agent::load(&run, &registry, Which::Last, "cpu");
    agent.unwrap().evaluate(plan, 2).unwrap();
    let taken = taken.lock().unwrap();
    let observations: Vec<[f32; 3]> = taken.iter().map(|(shown, _)| *shown).collect();
    let observations = serde_json::to_string(&observations).unwrap();
    assert!(
        taken.iter().any(|(_, action)| *action != taken[0].1),
        "a policy that always does the same tells nothing"
    );
    for (script, _) in scripts {
        let acted = script_acts(script, &run, &observations);
        assert_eq!(acted.len(), taken.len());
        for (i, (ours, theirs)) in taken.iter().map(|t| &t.1).zip(&acted).enumerate() {
            assert_eq!(ours.len(), theirs.len());
            let differ = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
            let worst = differ.fold(0.0, f64::max);
            assert!(
                worst < 1e-4,
                "{script}, {settings:?}, row {i}: {ours:?}, {theirs:?}"
            );
        }
    }
}

#[test]
fn python_chooses_the_same_of_several_actions() {
    compare(Space::discrete(4), &["network.activation=tanh"]);
}

#[test]
fn python_makes_the_same_numbers_with_normalized_observations() {
    let settings = [
        "network.shared=true",
        "network.activation=relu",
        "normalize.observations=true",
        "normalize.observation_clip=1.5",
    ];
    compare(Space::unbounded(&[2]), &settings);
}
