//! `bench`: measures how fast a part of a run is, or the whole of it.

use crate::args::{BenchArgs, Scenario};
use crate::exit::Failure;
use crate::{output, signals};
use hotloop::ThreadTime;
use hotloop::bench::{self, BenchReport};
use hotloop::config::{Config, Layers, Origins};
use hotloop::prelude::Registry;
use hotloop_telemetry::Console;

pub(crate) fn bench(
    args: &BenchArgs,
    registry: &Registry,
    console: &Console,
) -> Result<(), Failure> {
    let (config, origins) = configuration(args).map_err(Failure::Input)?;
    let part = match args.scenario {
        Scenario::Rollout => bench::rollout,
        Scenario::Acting => bench::acting,
        Scenario::Inference => bench::inference,
        Scenario::Learner => bench::learner,
        Scenario::Train => return whole(args, registry, console, &config, &origins),
    };
    signals::leave(console, || ()).map_err(Failure::running)?;
    say(
        args,
        &part(registry, &config, &origins, args.seconds).map_err(failure)?,
    )
}

/// Training has a directory to clean up, so that it ends in good order.
fn whole(
    args: &BenchArgs,
    registry: &Registry,
    console: &Console,
    config: &Config,
    origins: &Origins,
) -> Result<(), Failure> {
    let notice = "stopping after this update; once more to stop at once";
    let stop = signals::watch(console, notice).map_err(Failure::running)?;
    match bench::train(registry, config, origins, stop).map_err(failure)? {
        Some(report) => say(args, &report),
        None => Err(Failure::Interrupted),
    }
}

fn failure(error: hotloop::Error) -> Failure {
    match error.is_usage() {
        true => Failure::input(error),
        false => Failure::running(error),
    }
}

fn say(args: &BenchArgs, report: &BenchReport) -> Result<(), Failure> {
    if args.json {
        output::json(report)
    } else {
        output::put(&summary(report))
    }
}

fn configuration(args: &BenchArgs) -> anyhow::Result<(Config, Origins)> {
    let mut layers = Layers::new().preset("bench")?;
    if let Some(env) = &args.env {
        layers = layers.value(
            "env.id",
            env.clone(),
            hotloop::config::Origin::Flag("--env".into()),
        )?;
    }
    if let Some(mode) = &args.mode {
        layers = layers.flag("--mode", "rollout.mode", mode)?;
    }
    if let Some(each) = args.envs_per_actor {
        layers = layers.flag(
            "--envs-per-actor",
            "rollout.envs_per_actor",
            &each.to_string(),
        )?;
    }
    if let Some(actors) = args.actors {
        let each = args.envs_per_actor.unwrap_or(1);
        let envs = actors.saturating_mul(each).to_string();
        layers = layers.flag(
            "--envs-per-actor",
            "rollout.envs_per_actor",
            &each.to_string(),
        )?;
        layers = layers.flag("--actors", "rollout.envs", &envs)?;
        if !actors.is_multiple_of(2) {
            // The preset's two groups could not be of one size.
            layers = layers.flag("--actors", "rollout.groups", "1")?;
        }
    }
    Ok(args.overrides.over(layers)?.finish())
}

fn summary(report: &BenchReport) -> String {
    let settings: Vec<String> = report
        .settings
        .iter()
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    let mut text = format!(
        "{}  {:.0} steps/s ({} in {:.2} s)\nwith  {}\n",
        report.scenario,
        report.steps_per_s,
        report.steps,
        report.wall_s,
        settings.join(", ")
    );
    for thread in &report.threads {
        text.push_str(&line(thread));
    }
    text
}

/// `hotloop-env ×2  61% on a core:  61% stepping environments, …`
fn line(thread: &ThreadTime) -> String {
    let name = match thread.threads {
        1 => thread.name.clone(),
        n => format!("{} ×{n}", thread.name),
    };
    let on_core = thread.on_core.map_or("–".to_string(), percent);
    let did: Vec<String> = thread
        .did
        .iter()
        .map(|(what, share)| format!("{} {what}", percent(*share)))
        .collect();
    format!("{name:<18} {on_core:>5} on a core:  {}\n", did.join(", "))
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_a_line() {
        let thread = ThreadTime {
            name: "hotloop-env".into(),
            threads: 2,
            on_core: Some(0.615),
            did: vec![("stepping", 0.615), ("waiting", 0.385)],
        };
        assert_eq!(
            line(&thread),
            "hotloop-env ×2     61.5% on a core:  61.5% stepping, 38.5% waiting\n"
        );
    }
}
