//! Checkpoints that do not fit, or are not there; directories and devices that cannot be used.

use crate::{holds, last};
use hotloop::env::Registry;
use hotloop::{Agent, Error, Which};
use hotloop_env::{
    ActionView, End, Env, EnvError, EnvRng, EnvSpec, ObservationMut, ResetCtx, Space, Transition,
};
use hotloop_tests::{Phase, Script, Twist, continued, trainer};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Spaces of any size.
struct Sized {
    inputs: usize,
    actions: usize,
}

impl Env for Sized {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[self.inputs])
    }
    fn action_space(&self) -> Space {
        Space::discrete(self.actions)
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        Ok(Transition::running(1.0))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&vec![0.5f32; self.inputs])
    }
}

fn sized() -> EnvSpec {
    EnvSpec::new("Sized-v0", |options| {
        Ok(Sized {
            inputs: options.int("inputs") as usize,
            actions: options.int("actions") as usize,
        })
    })
    .option("inputs", 3, "numbers observed")
    .option("actions", 2, "choices")
}

/// A run of 64 units.
fn finished(dir: &Path) -> PathBuf {
    let run = dir.join("run");
    let settings = ["steps=64", "network.hidden=[64]"];
    trainer(&sized(), &settings)
        .run_dir(&run)
        .build()
        .unwrap()
        .train()
        .unwrap();
    run
}

#[track_caller]
fn refused(run: &Path, settings: &[&str], parts: &[&str]) {
    let before = contents(run);
    let outcome = continued(&sized(), run, settings)
        .build()
        .and_then(|trainer| trainer.train());
    holds(&outcome.unwrap_err().to_string(), parts);
    assert!(
        contents(run) == before,
        "{settings:?}: something of the run was changed"
    );
}

/// Every file of a run, by name.
fn contents(run: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = |dir: &Path| {
        let entries = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    let mut all = files(run);
    all.extend(files(&run.join("checkpoints")));
    all.sort();
    all.into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn br_62_another_network_is_refused_with_the_tensor_and_both_shapes() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished(dir.path());
    refused(
        &run,
        &["network.hidden=[32]"],
        &["weights.", "[32, 3]", "[64, 3]"],
    );
    refused(
        &run,
        &["network.hidden=[64, 64]"],
        &["weights.", "[64, 64]"],
    );
    refused(
        &run,
        &["env.options.actions=5"],
        &["weights.", "[5, 64]", "[2, 64]"],
    );
    refused(
        &run,
        &["env.options.inputs=4"],
        &["weights.", "[64, 4]", "[64, 3]"],
    );
    refused(&run, &["network.shared=true"], &["weights."]);
    refused(
        &run,
        &["network.activation=relu"],
        &["network.activation = tanh", "relu now"],
    );
}

#[test]
fn br_62_a_smaller_network_is_refused_too() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let settings = ["steps=64", "network.hidden=[8, 8]"];
    trainer(&sized(), &settings)
        .run_dir(&run)
        .build()
        .unwrap()
        .train()
        .unwrap();
    // All tensors that are asked for are there, but not all that are there are asked for.
    refused(&run, &["network.hidden=[8]"], &["weights."]);
}

#[test]
fn br_57_another_number_of_lanes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    refused(
        &finished(dir.path()),
        &["rollout.envs=8", "steps=640"],
        &["lanes", "leave rollout.envs"],
    );
}

#[test]
fn br_62_a_run_of_another_environment_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished(dir.path());
    let other = Script::count(3, End::Terminated).spec();
    let error = trainer(&other, &[]).resume(&run).build().err().unwrap();
    assert!(error.is_usage());
    holds(&error.to_string(), &["Sized-v0", "Script-v0"]);
}

#[test]
fn br_62_an_agent_is_as_strict() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished(dir.path());
    let mut registry = Registry::new();
    registry.add(sized());
    let load = |which| Agent::load(&run, &registry, which, "cpu");
    assert!(load(Which::Last).is_ok());
    holds(
        &load(Which::Best).err().unwrap().to_string(),
        &["no best policy", "eval.every"],
    );
    let config = run.join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let changed = text.replace("hidden = [64]", "hidden = [32]");
    assert_ne!(text, changed);
    fs::write(&config, changed).unwrap();
    holds(
        &load(Which::Last).err().unwrap().to_string(),
        &["weights.", "[32, 3]", "[64, 3]"],
    );
}

#[test]
fn br_60_damage_and_leftovers() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished(dir.path());
    let checkpoints = run.join("checkpoints");
    // What a crash in the middle of a save leaves beside the good files.
    fs::write(checkpoints.join("last.json.tmp"), "{").unwrap();
    fs::write(
        checkpoints.join("last-0123456789abcdef.safetensors"),
        "half",
    )
    .unwrap();
    fs::write(
        checkpoints.join("last-0123456789abcdef.safetensors.tmp"),
        "half",
    )
    .unwrap();
    let more = continued(&sized(), &run, &["steps=128"])
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert!(more.env_steps >= 128);
    let mut names: Vec<_> = fs::read_dir(&checkpoints)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");

    let tensors = checkpoints.join(&names[0]);
    let mut bytes = fs::read(&tensors).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&tensors, &bytes).unwrap();
    let error = continued(&sized(), &run, &[])
        .build()
        .err()
        .unwrap()
        .to_string();
    holds(&error, &[&names[0], "damaged"]);
    bytes.truncate(middle);
    fs::write(&tensors, &bytes).unwrap();
    let error = continued(&sized(), &run, &[])
        .build()
        .err()
        .unwrap()
        .to_string();
    holds(&error, &[&names[0], "damaged"]);
}

#[test]
fn br_60_a_run_that_never_saved_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished(dir.path());
    // What a run leaves that was killed before its first checkpoint.
    std::fs::remove_file(run.join("checkpoints/last.json")).unwrap();
    let error = continued(&sized(), &run, &[]).build().err().unwrap();
    assert!(error.is_usage(), "{error}");
    holds(
        &error.to_string(),
        &[run.to_str().unwrap(), "no checkpoint"],
    );
    let mut registry = Registry::new();
    registry.add(sized());
    let error = Agent::load(&run, &registry, Which::Last, "cpu")
        .err()
        .unwrap();
    holds(&error.to_string(), &["no checkpoint"]);
}

#[test]
fn br_60_a_save_that_fails_names_the_path_and_keeps_the_last_one() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished(dir.path());
    // A directory where the manifest's temporary file goes: no save can succeed.
    let checkpoints = run.join("checkpoints");
    fs::create_dir(checkpoints.join("last.json.tmp")).unwrap();
    let outcome = continued(&sized(), &run, &["steps=128"])
        .build()
        .unwrap()
        .train();
    holds(
        &outcome.unwrap_err().to_string(),
        &["last.json.tmp", "directory"],
    );
    assert_eq!(last(&run).state["env_steps"], 64);
    fs::remove_dir(checkpoints.join("last.json.tmp")).unwrap();
    let again = continued(&sized(), &run, &["steps=128"])
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert!(again.env_steps >= 128);
}

#[test]
fn br_63_a_directory_that_cannot_be_used_is_found_before_any_environment_is_built() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "kept").unwrap();
    let built = Arc::new(AtomicUsize::new(0));
    let spec = Script::count(3, End::Terminated)
        .hooked({
            let built = Arc::clone(&built);
            move |now| {
                built.fetch_add(usize::from(now.phase == Phase::Build), Ordering::Relaxed);
                Ok(Twist::None)
            }
        })
        .spec();
    let long = dir.path().join("x".repeat(300));
    for (path, part) in [
        (Path::new(""), "empty"),
        (Path::new("  "), "empty"),
        (Path::new("/"), "root"),
        (&file, "it is a file"),
        (&file.join("below"), "Not a directory"),
        (&long, "300 bytes"),
        (Path::new("/proc/nowhere"), "/proc/nowhere"),
    ] {
        let error = trainer(&spec, &[])
            .run_dir(path)
            .build()
            .err()
            .unwrap()
            .to_string();
        holds(&error, &[part]);
    }
    assert_eq!(built.load(Ordering::Relaxed), 0);
    // A missing parent is made.
    let deep = dir.path().join("a/b/c");
    let trainer_of_deep = trainer(&spec, &[]).run_dir(&deep).build().unwrap();
    assert!(!deep.exists(), "nothing is left if nothing starts");
    trainer_of_deep.train().unwrap();
    assert!(deep.join("config.toml").exists());
    // A run is never written over, nor gone on with by accident.
    let error = trainer(&spec, &[])
        .run_dir(&deep)
        .build()
        .err()
        .unwrap()
        .to_string();
    holds(&error, &["holds a run already"]);
}

#[test]
fn a_run_that_cannot_start_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let built = AtomicUsize::new(0);
    // Asked for its spaces it can be built, and then once more.
    let spec = Script::count(3, End::Terminated)
        .hooked(move |now| match now.phase {
            Phase::Build if built.fetch_add(1, Ordering::Relaxed) > 1 => {
                Err("no licence left".into())
            }
            _ => Ok(Twist::None),
        })
        .spec();
    let run = dir.path().join("run");
    let trainer = trainer(&spec, &[]).run_dir(&run).build().unwrap();
    let error = trainer.train().unwrap_err().to_string();
    holds(&error, &["no licence left"]);
    assert!(!run.exists());
}

#[test]
fn br_66_a_device_that_is_not_there_is_an_error_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Script::count(3, End::Terminated).spec();
    let run = dir.path().join("run");
    for device in ["cuda:4096", "CUDA:4096", "gpu", "cuda:x", "cuda:-1", "tpu"] {
        let setting = format!("device={device:?}");
        let error = trainer(&spec, &[&setting])
            .run_dir(&run)
            .build()
            .err()
            .unwrap();
        assert!(
            matches!(error, Error::Learn(_)) && error.is_usage(),
            "{device}: {error}"
        );
        assert!(error.to_string().contains(device), "{error}");
        assert!(!run.exists(), "{device}");
    }
    let report = trainer(&spec, &["device=\"cpu\""])
        .run_dir(&run)
        .build()
        .unwrap()
        .train();
    assert_eq!(report.unwrap().device, "cpu");
}
