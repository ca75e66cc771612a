//! `train`: trains a policy, or goes on with a run.

use crate::args::TrainArgs;
use crate::exit::Failure;
use crate::{output, signals};
use anyhow::{anyhow, bail};
use hotloop::config::{Config, Layers, Origins};
use hotloop::prelude::Registry;
use hotloop::{Ended, TrainReport, Trainer};
use hotloop_telemetry::{Console, Progress, RunDir};
use std::path::Path;

pub(crate) fn train(
    args: &TrainArgs,
    registry: Registry,
    console: &Console,
) -> Result<(), Failure> {
    // First of all: from here on nothing ends without a word.
    let notice = "stopping after this update, with a checkpoint; once more to stop at once";
    let stop = signals::watch(console, notice).map_err(Failure::running)?;
    let (config, origins) = configuration(args, &registry).map_err(Failure::Input)?;
    let mut builder = Trainer::builder()
        .registry(registry)
        .config(config)
        .origins(origins)
        .stop(stop)
        .sink(Progress::new(console.clone()));
    if let Some(dir) = &args.run_dir {
        builder = builder.run_dir(dir);
    }
    if let Some(run) = &args.resume {
        builder = builder.resume(run);
    }
    if let Some(file) = &args.record_schedule {
        builder = builder.record_schedule(file);
    }
    if let Some(file) = &args.replay_schedule {
        builder = builder.replay_schedule(file);
    }
    let trainer = builder.build().map_err(Failure::input)?;
    let report = trainer.train().map_err(|error| match error.is_usage() {
        true => Failure::input(error),
        false => Failure::running(error),
    })?;
    let told = match args.json {
        true => output::json(&report),
        false => output::put(&summary(&report)),
    };
    match report.ended {
        // With its terminal closed there may be nobody to tell.
        Ended::Interrupted => Err(Failure::Interrupted),
        Ended::Finished | Ended::ReturnReached => told,
    }
}

/// What to run. A run that goes on keeps its own configuration beneath the flags; a word that says
/// what to run must then name the same environment.
fn configuration(args: &TrainArgs, registry: &Registry) -> anyhow::Result<(Config, Origins)> {
    let layers = match (&args.what, &args.resume) {
        (what, Some(run)) => {
            let dir = RunDir::open(run)?;
            let layers = Layers::new().file(&dir.config())?;
            if let Some(what) = what {
                same_env(what, run, &layers, registry)?;
            }
            layers
        }
        (Some(what), None) => Layers::named(what, registry)?,
        (None, None) => {
            return Err(anyhow!(
                "say what to train: a preset, an environment or a file"
            ));
        }
    };
    let mut layers = args.overrides.over(layers)?;
    if let Some(value) = &args.until_return {
        layers = layers.flag("--until-return", "until_return", value)?;
    }
    Ok(layers.finish())
}

fn same_env(what: &str, run: &Path, own: &Layers, registry: &Registry) -> anyhow::Result<()> {
    let (asked, _) = Layers::named(what, registry)?.finish();
    let (own, _) = own.clone().finish();
    if asked.env.id != own.env.id {
        bail!(
            "cannot resume {}: it is a run of {}, and {what:?} is {}; leave {what:?} out to go on \
             with that run, or --resume to start a new one",
            run.display(),
            own.env.id,
            asked.env.id
        );
    }
    Ok(())
}

/// What a person wants to know, and what to type next.
fn summary(report: &TrainReport) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "hotloop".into());
    let run = report.run_dir.display();
    let mean = report
        .return_mean_100
        .map_or("none ended".to_string(), |mean| format!("{mean:.2}"));
    let next = match report.ended {
        Ended::Interrupted => format!("go on     {program} train --resume {run}"),
        Ended::Finished | Ended::ReturnReached => {
            format!("evaluate  {program} eval {run}")
        }
    };
    let faults = output::faults("faults    ", report.faults, report.lost);
    format!(
        "run       {run}\n\
         trained   {} steps in {:.1} s, {:.0} steps/s, {} updates, {} episodes\n\
         return    {mean} (mean of the last 100 training episodes)\n\
         {faults}weights   {}\n\
         {next}\n",
        report.env_steps,
        report.wall_s,
        report.steps_per_s,
        report.updates,
        report.episodes,
        report.weights_hash,
    )
}
