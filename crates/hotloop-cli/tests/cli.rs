//! The command line as a user meets it: exit codes, standard output and standard error.
#![allow(clippy::unwrap_used, reason = "helpers of tests panic as tests do")]

mod common;

use common::{command, done, hotloop};
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// The command fails before anything starts: exit code 2, nothing on standard output, and one
/// paragraph on standard error that holds all the parts.
#[track_caller]
fn refused(dir: &Path, args: &[&str], parts: &[&str]) {
    let done = hotloop(dir, args);
    assert_eq!(done.code, 2, "{args:?}: {done:?}");
    assert_eq!(done.stdout, "", "{args:?}");
    assert!(
        done.stderr.starts_with("error: "),
        "{args:?}: {}",
        done.stderr
    );
    assert_eq!(done.stderr.lines().count(), 1, "{args:?}: {}", done.stderr);
    for part in parts {
        assert!(
            done.stderr.contains(part),
            "{args:?}: {part:?} is not in: {}",
            done.stderr
        );
    }
    assert!(!done.stderr.contains("backtrace"), "{}", done.stderr);
    assert!(!dir.join("runs").exists(), "{args:?}: a run was started");
}

fn tmp() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn an_unknown_environment_is_suggested() {
    let dir = tmp();
    refused(
        dir.path(),
        &["train", "CartPol-v1"],
        &[
            "\"CartPol-v1\"",
            "no preset",
            "no environment",
            "did you mean \"CartPole-v1\"?",
        ],
    );
    refused(
        dir.path(),
        &["train", "cartpole", "--set", "env.id=Cartpole-v0"],
        &["env.id (from --set)", "did you mean \"CartPole-v1\"?"],
    );
}

#[test]
fn an_unknown_key_is_suggested_with_its_origin() {
    let dir = tmp();
    refused(
        dir.path(),
        &["train", "cartpole", "--set", "algo.gama=0.9"],
        &[
            "\"algo.gama\"",
            "from --set",
            "did you mean \"algo.gamma\"?",
        ],
    );
    fs::write(
        dir.path().join("my.toml"),
        "preset = \"cartpole\"\n[rollout]\nenv = 3\n",
    )
    .unwrap();
    refused(
        dir.path(),
        &["train", "my.toml"],
        &[
            "\"rollout.env\"",
            "from file my.toml",
            "did you mean \"rollout.envs\"?",
        ],
    );
}

#[test]
fn a_value_out_of_range_or_of_the_wrong_type_says_what_is_possible() {
    let dir = tmp();
    for (args, parts) in [
        (
            ["--set", "algo.gamma=1.5"],
            ["algo.gamma = 1.5 (from --set)", "expected 0 to 1"],
        ),
        (
            ["--set", "algo.epochs=few"],
            ["algo.epochs = \"few\"", "a whole number"],
        ),
        (["--steps", "0"], ["steps = 0 (from --steps)", "1 or more"]),
        (
            ["--steps", "-5"],
            ["steps = -5 (from --steps)", "a whole number, 0 or more"],
        ),
        (
            ["--seed", "x"],
            ["seed = \"x\" (from --seed)", "a whole number"],
        ),
        (
            ["--threads", "-1"],
            ["threads = -1 (from --threads)", "a whole number"],
        ),
        (
            ["--until-return", "475"],
            ["until_return = 475.0 (from --until-return)", "eval.every"],
        ),
    ] {
        let all = [&["train", "cartpole"][..], &args[..]].concat();
        refused(dir.path(), &all, &parts);
    }
}

#[test]
fn br_63_an_unusable_run_directory_is_named() {
    let dir = tmp();
    let file = dir.path().join("file");
    fs::write(&file, "kept").unwrap();
    let long = "x".repeat(300);
    for (path, parts) in [
        (" ", ["run directory \" \"", "the path is empty"]),
        ("/", ["run directory \"/\"", "root of the file system"]),
        (file.to_str().unwrap(), ["file", "it is a file"]),
        ("file/run", ["file/run", "Not a directory"]),
        (long.as_str(), ["xxx", "has 300 bytes"]),
    ] {
        refused(
            dir.path(),
            &["train", "cartpole", "--run-dir", path],
            &parts,
        );
    }
    #[cfg(target_os = "linux")]
    refused(
        dir.path(),
        &["train", "cartpole", "--run-dir", "/proc/hotloop"],
        &["/proc/hotloop"],
    );
    assert_eq!(fs::read(&file).unwrap(), b"kept");
}

#[test]
fn br_66_a_gpu_that_is_not_there_is_an_error() {
    let dir = tmp();
    // No machine has this many.
    let args = [
        "train",
        "cartpole",
        "--device",
        "cuda:4096",
        "--run-dir",
        "run",
    ];
    refused(dir.path(), &args, &["cuda:4096"]);
    let args = ["train", "cartpole", "--device", "gpu", "--run-dir", "run"];
    refused(dir.path(), &args, &["gpu", "cuda"]);
}

#[test]
fn what_does_not_fit_together_says_what_would() {
    let dir = tmp();
    let train = ["train", "cartpole"];
    refused(
        dir.path(),
        &[&train[..], &["--set", "algo.minibatches=7"]].concat(),
        &[
            "algo.minibatches = 7 (from --set)",
            "does not divide the batch of",
            "does",
        ],
    );
    refused(
        dir.path(),
        &[
            &train[..],
            &[
                "--set",
                "rollout.mode=overlap",
                "--set",
                "rollout.segments=1",
            ],
        ]
        .concat(),
        &["rollout.segments = 1", "take 2 or more"],
    );
}

#[test]
fn a_file_that_is_not_toml_is_named_with_its_line() {
    let dir = tmp();
    fs::write(dir.path().join("my.toml"), "seed = 1\nthis is not toml\n").unwrap();
    refused(
        dir.path(),
        &["train", "my.toml"],
        &["file my.toml, line 2, is not TOML"],
    );
    refused(
        dir.path(),
        &["train", "gone.toml"],
        &["gone.toml", "No such file"],
    );
}

#[test]
fn a_resume_needs_a_run_of_the_same_environment() {
    let dir = tmp();
    refused(
        dir.path(),
        &["train", "--resume", "gone"],
        &["\"gone\"", "no such directory"],
    );
    let run = dir.path().join("run");
    fs::create_dir(&run).unwrap();
    refused(dir.path(), &["train", "--resume", "run"], &["holds no run"]);
    fs::write(run.join("config.toml"), "env.id = \"Acrobot-v1\"\n").unwrap();
    refused(
        dir.path(),
        &["train", "cartpole", "--resume", "run"],
        &["cannot resume run", "Acrobot-v1", "CartPole-v1"],
    );
}

#[test]
fn eval_needs_a_run() {
    let dir = tmp();
    refused(
        dir.path(),
        &["eval", "gone"],
        &["\"gone\"", "no such directory"],
    );
}

#[test]
fn wrong_flags_are_the_callers_fault() {
    let dir = tmp();
    for args in [
        &["train"][..],
        &["train", "cartpole", "--sede", "1"],
        &["train", "cartpole", "--run-dir", ""],
        &["bench", "everything"],
        &["eval", "run", "--episodes", "0"],
        &["train", "--resume", "a", "--run-dir", "b"],
        &["fly"],
        &[],
    ] {
        let done = hotloop(dir.path(), args);
        assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{args:?}");
        let helps = done.stderr.contains("Usage") || done.stderr.contains("--help");
        assert!(helps, "{args:?}: {}", done.stderr);
    }
    let done = hotloop(dir.path(), &["train", "cartpole", "--sede", "1"]);
    assert!(done.stderr.contains("--seed"), "{}", done.stderr);
}

#[test]
fn help_and_version_are_results() {
    let dir = tmp();
    let help = hotloop(dir.path(), &["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (0, ""));
    for command in [
        "train",
        "eval",
        "bench",
        "envs",
        "config",
        "doctor",
        "new",
        "completions",
    ] {
        assert!(help.stdout.contains(command), "{}", help.stdout);
    }
    let version = hotloop(dir.path(), &["--version"]);
    assert_eq!(
        version.stdout,
        format!("hotloop {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn envs_lists_spaces_and_limits() {
    let dir = tmp();
    let envs = hotloop(dir.path(), &["envs"]);
    assert_eq!((envs.code, envs.stderr.as_str()), (0, ""));
    for id in [
        "Acrobot-v1",
        "CartPole-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Pendulum-v1",
    ] {
        assert!(
            envs.stdout.lines().any(|line| line == id),
            "{}",
            envs.stdout
        );
    }
    assert!(
        envs.stdout.contains("actions       Discrete(2)"),
        "{}",
        envs.stdout
    );
    assert!(
        envs.stdout.contains("time limit    500 steps"),
        "{}",
        envs.stdout
    );
}

#[test]
fn config_show_explains_every_key_and_reads_back() {
    let dir = tmp();
    let args = [
        "config",
        "show",
        "cartpole",
        "--set",
        "algo.gamma=0.5",
        "--seed",
        "7",
    ];
    let shown = hotloop(dir.path(), &args);
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    assert!(
        shown.stdout.contains("gamma = 0.5  # from --set\n"),
        "{}",
        shown.stdout
    );
    assert!(
        shown
            .stdout
            .contains("id = \"CartPole-v1\"  # from preset cartpole\n")
    );
    fs::write(dir.path().join("my.toml"), &shown.stdout).unwrap();
    let again = hotloop(dir.path(), &["config", "show", "my.toml"]);
    assert!(again.stdout.contains("gamma = 0.5  # from file my.toml\n"));
    assert!(again.stdout.contains("seed = 7  # from file my.toml\n"));

    let defaults = hotloop(dir.path(), &["config", "show"]);
    assert_eq!(defaults.code, 0);
    assert!(defaults.stdout.contains("# Discount per step.\n"));
    for preset in [
        "acrobot",
        "bench",
        "cartpole",
        "mountain-car",
        "mountain-car-continuous",
        "pendulum",
    ] {
        let shown = hotloop(dir.path(), &["config", "show", preset]);
        assert_eq!(shown.code, 0, "{preset}: {}", shown.stderr);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let dir = tmp();
    let mut child = command(dir.path(), &["config", "show"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take()); // The pipe is closed before anything is written.
    let done = done(child.wait_with_output().unwrap());
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
}

#[test]
fn completions_are_for_the_shell() {
    let dir = tmp();
    let bash = hotloop(dir.path(), &["completions", "bash"]);
    assert_eq!(bash.code, 0);
    assert!(
        bash.stdout.contains("complete -F _hotloop"),
        "{}",
        bash.stdout
    );
    assert!(bash.stdout.contains("--until-return"));
}

#[test]
fn doctor_finds_nothing_wrong_or_says_what_to_do() {
    let dir = tmp();
    let well = hotloop(dir.path(), &["doctor"]);
    assert_eq!(
        (well.code, well.stderr.as_str()),
        (0, ""),
        "{}",
        well.stdout
    );
    for what in [
        "libtorch",
        "processor",
        "threads",
        "gpu",
        "runs",
        "environments",
    ] {
        let line = well.stdout.lines().find(|line| line.contains(what));
        assert!(
            line.is_some_and(|line| line.starts_with("ok")),
            "{}",
            well.stdout
        );
    }
    // It leaves nothing behind.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

    let ill = command(dir.path(), &["doctor"])
        .env("OMP_NUM_THREADS", "8")
        .output()
        .unwrap();
    let ill = done(ill);
    assert_eq!(ill.code, 1);
    assert!(ill.stdout.contains("problem  maths"), "{}", ill.stdout);
    assert!(ill.stdout.contains("unset it"), "{}", ill.stdout);
}

#[test]
fn new_writes_a_crate_that_cargo_accepts() {
    let dir = tmp();
    let new = hotloop(dir.path(), &["new", "my-env"]);
    assert_eq!((new.code, new.stderr.as_str()), (0, ""));
    assert!(new.stdout.contains("cargo run --release"), "{}", new.stdout);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = std::process::Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(dir.path().join("my-env"))
        .output()
        .unwrap();
    let metadata = done(metadata);
    assert_eq!(metadata.code, 0, "{}", metadata.stderr);
    assert!(
        metadata.stdout.contains("\"name\":\"my-env\""),
        "{}",
        metadata.stdout
    );
    refused(
        dir.path(),
        &["new", "my-env"],
        &["my-env exists and is not an empty directory"],
    );
    refused(
        dir.path(),
        &["new", "1st"],
        &["\"1st\" cannot be the name of a crate"],
    );
}
