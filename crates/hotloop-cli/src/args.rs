//! What the command line takes, once: help and completions come from here.

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

/// Train reinforcement-learning policies, and see where the time goes.
#[derive(Debug, Parser)]
#[command(name = "hotloop", version, arg_required_else_help = true)]
#[command(after_help = "Logs go to standard error; RUST_LOG chooses them (RUST_LOG=debug).")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a policy, or go on with a run
    Train(TrainArgs),
    /// Play whole episodes with the policy of a run
    Eval(EvalArgs),
    /// Show episodes in the terminal; elsewhere, the states of games on a grid are printed as text
    Play(PlayArgs),
    /// Measure how fast a part of a run is, or the whole of it
    Bench(BenchArgs),
    /// List the environments and their options
    Envs,
    /// Show configurations
    Config(ConfigArgs),
    /// Check this machine and this build, and say what to do about problems
    Doctor,
    /// Write a crate with an environment of your own and this command line
    New(NewArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Where values come from, for every command that takes a configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct Overrides {
    /// Set a key of the configuration (see `config show`); may be given many times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Seed of everything random
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) seed: Option<String>,
    /// Threads that may be used; 0 for all that are allowed. Never changes results
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) threads: Option<String>,
    /// Where the networks are: cpu, cuda or cuda:N
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Env steps to train for
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) steps: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TrainArgs {
    /// A preset or the id of an environment (`envs` lists both), or a TOML file. With --resume it may
    /// be left out
    #[arg(required_unless_present = "resume")]
    pub(crate) what: Option<String>,
    #[command(flatten)]
    pub(crate) overrides: Overrides,
    /// Directory of the run, made if missing [default: a new one in ./runs]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Go on with the run in this directory, from its last checkpoint and with its configuration
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<PathBuf>,
    /// Stop once an evaluation during training reaches this mean return (see eval.every)
    #[arg(long, value_name = "RETURN", allow_hyphen_values = true)]
    pub(crate) until_return: Option<String>,
    /// Write what depends on who is faster into this file, for --replay-schedule
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "replay_schedule"])]
    pub(crate) record_schedule: Option<PathBuf>,
    /// Do again what was recorded: the same configuration ends with the same weights
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(crate) replay_schedule: Option<PathBuf>,
    /// End standard output with one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A trained policy, and how it acts.
#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    /// Directory of the run
    pub(crate) run: PathBuf,
    /// Seed of the episodes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Take the best weights seen in evaluations during training, not the last
    #[arg(long)]
    pub(crate) best: bool,
    /// Draw actions from the policy, as in training, instead of taking the likeliest
    #[arg(long)]
    pub(crate) sampled: bool,
    /// Where the networks are: cpu, cuda or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub(crate) device: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Episodes to play
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) episodes: u32,
    /// Film the first episodes: a .gif, or a .mp4 where ffmpeg is installed
    #[arg(long, value_name = "FILE")]
    pub(crate) render: Option<PathBuf>,
    /// How many of them
    #[arg(long, value_name = "N", default_value_t = 1, requires = "render", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) render_episodes: u32,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlayArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Episodes to show
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) episodes: u32,
    /// States per second [default: the environment's own pace]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = pace)]
    pub(crate) fps: Option<f64>,
}

fn pace(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(fps) if (0.1..=1000.0).contains(&fps) => Ok(fps),
        _ => Err("expected a number from 0.1 to 1000".into()),
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Scenario {
    /// Actors, scheduler and slab, with actions drawn beforehand: env steps per second
    Rollout,
    /// The same with the policy between steps, and no learner: env steps per second
    Acting,
    /// One inference worker: rows decided on per second
    Inference,
    /// The learner, all epochs: rows trained on per second
    Learner,
    /// Whole training: env steps per second
    Train,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// What to measure; settings are those of the preset `bench`, unless changed
    pub(crate) scenario: Scenario,
    /// The environment
    #[arg(long, value_name = "ID")]
    pub(crate) env: Option<String>,
    /// Actors; with --envs-per-actor this sets the number of environments
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) actors: Option<u32>,
    /// Environments that one actor steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) envs_per_actor: Option<u32>,
    /// How rollouts and updates follow each other: sync, overlap or async
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<String>,
    /// How long to measure; `train` runs its --steps instead
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, allow_hyphen_values = true, value_parser = seconds)]
    pub(crate) seconds: f64,
    #[command(flatten)]
    pub(crate) overrides: Overrides,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= 3600.0 => Ok(seconds),
        _ => Err("expected a number above 0, up to 3600".into()),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a whole configuration as TOML: every key with its meaning, its value and its origin
    Show {
        /// A preset, the id of an environment, or a TOML file [default: the defaults]
        what: Option<String>,
        #[command(flatten)]
        overrides: Overrides,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// Folder to make; its last part is the crate's name
    #[arg(value_name = "NAME")]
    pub(crate) path: PathBuf,
    /// Checkout of hotloop that the crate builds with [default: the one this program was built from]
    #[arg(long, value_name = "DIR")]
    pub(crate) hotloop: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Args::command().debug_assert();
    }
}
