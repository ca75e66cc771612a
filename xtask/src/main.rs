//! `cargo xtask`: sets hotloop up and runs its developer commands.

mod ale;
mod cache;
mod cargo;
mod check;
mod dist;
mod features;
mod libtorch;
mod link;
mod mujoco;
mod platform;
mod python;
mod recipe;
mod setup;
mod unpack;
mod venv;
mod wheels;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use libtorch::Wanted;

/// Set-up and developer commands of hotloop. Each command does what set-up it needs.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
struct Args {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Finds or downloads libtorch and tells cargo of it
    ///
    /// libtorch comes from the environment variable LIBTORCH, else from where the last set-up took it, else from a
    /// CPU-only set that is downloaded once into the user's cache folder.
    Setup {
        /// Use the PyTorch 2.11 that PYTHON imports (the way to use CUDA)
        #[arg(long, value_name = "PYTHON", num_args = 0..=1, default_missing_value = "python3", conflicts_with = "cpu")]
        from_python: Option<String>,
        /// Use the CPU-only set, whatever was chosen before
        #[arg(long)]
        cpu: bool,
    },
    /// Takes the Arcade Learning Environment, so that `train` and `run` build Atari games in
    ///
    /// The feature `atari` of hotloop-cli is off otherwise. The emulator is under the GNU General Public License, version 2,
    /// and a program built with it may only be passed on under that licence; using it asks nothing of you.
    Atari,
    /// Takes MuJoCo and its models, so that `train`, `run` and `dist` build the MuJoCo environments in
    ///
    /// The feature `mujoco` of hotloop-cli is off otherwise.
    Mujoco,
    /// Builds hotloop in release mode and trains: `cargo xtask train cartpole`
    Train {
        /// What follows `hotloop train`
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGS"
        )]
        args: Vec<OsString>,
    },
    /// Builds hotloop in release mode and runs any of its commands: `cargo xtask run eval RUN`
    Run {
        /// What follows `hotloop`
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGS"
        )]
        args: Vec<OsString>,
    },
    /// Runs all tests: of the workspace, of the documentation, of the examples, and the model check
    ///
    /// They compare with Gymnasium in .venv, which is made (about 450 MB), and with MuJoCo and the Arcade Learning Environment
    /// (GPL-2), which are downloaded; neither is built into hotloop by that.
    Test,
    /// Makes .venv, a Python with Gymnasium and its environments at fixed versions
    ///
    /// `gymnasium:` environments run in it by default, and tests compare with it.
    Python,
    /// Lets a crate outside the workspace find libtorch, through its .cargo/config.toml
    Link {
        /// The crate's folder
        dir: PathBuf,
    },
    /// Makes a folder with bin/hotloop and lib/ that runs on another machine without Rust
    Dist {
        /// The folder to make
        #[arg(long, default_value = "dist")]
        out: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        // Not returned from main: with RUST_BACKTRACE set, a page of frames would bury what to do.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let workspace = cargo::workspace()?;
    let wanted = match &task {
        Task::Setup {
            from_python: Some(python),
            ..
        } => Wanted::Python(python.clone()),
        Task::Setup { cpu: true, .. } => Wanted::Cpu,
        _ => Wanted::Any,
    };
    let added = match &task {
        Task::Atari => &[features::ATARI],
        Task::Mujoco => &[features::MUJOCO],
        Task::Test => features::ALL,
        _ => &[],
    };
    let kept = !matches!(task, Task::Test);
    let links = setup::set_up(&workspace, &wanted, added, kept)?;
    let hotloop = |args: &[OsString]| {
        let mut run = cargo::cargo("run", &workspace, &links)?;
        let features = links.built_in();
        run.args([
            "--release",
            "--package",
            "hotloop-cli",
            "--bin",
            "hotloop",
            "--features",
            &features,
            "--",
        ])
        .args(args);
        Err(cargo::become_command(run))
    };
    match task {
        Task::Python => {
            println!("{}", venv::set_up(&workspace)?.display());
            Ok(())
        }
        Task::Setup { .. } => {
            println!(
                "libtorch {}: {}",
                platform::VERSION,
                links.libtorch.display()
            );
            Ok(())
        }
        Task::Atari | Task::Mujoco => Ok(()),
        Task::Train { args } => hotloop(&[vec!["train".into()], args].concat()),
        Task::Run { args } => hotloop(&args),
        Task::Test => check::test(&workspace, &links),
        Task::Link { dir } => link::link_crate(&dir, &links),
        Task::Dist { out } => dist::dist(&workspace, &links, &out),
    }
}
