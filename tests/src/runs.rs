//! Runs that take a moment: a trainer of a toy environment with everything small.

use hotloop::config::{Config, ConfigError, Layers, Origins};
use hotloop::{Trainer, TrainerBuilder};
use hotloop_env::{EnvSpec, Registry};
use std::path::Path;

/// 4 envs in 2 groups, 8 steps each, so 32 rows for an update; one gradient step on one shard.
const SMALL: [&str; 9] = [
    "rollout.envs=4",
    "rollout.horizon=8",
    "rollout.groups=2",
    "network.hidden=[8]",
    "algo.epochs=1",
    "algo.minibatches=1",
    "algo.shards=1",
    "threads=2",
    "steps=320",
];

fn layered(spec: &EnvSpec, settings: &[&str]) -> Result<(Config, Origins), ConfigError> {
    let mut layers = Layers::new().set(&format!("env.id={}", spec.id()))?;
    for setting in SMALL.iter().chain(settings) {
        layers = layers.set(setting)?;
    }
    Ok(layers.finish())
}

fn builder(spec: &EnvSpec, (config, origins): (Config, Origins)) -> TrainerBuilder {
    let mut registry = Registry::new();
    registry.add(spec.clone());
    Trainer::builder()
        .registry(registry)
        .config(config)
        .origins(origins)
}

/// A small run of `spec` with `settings` (`key=value`) on top.
///
/// # Panics
/// If a setting cannot be.
#[must_use]
pub fn trainer(spec: &EnvSpec, settings: &[&str]) -> TrainerBuilder {
    let configuration = layered(spec, settings).unwrap_or_else(|error| panic!("{error}"));
    builder(spec, configuration)
}

/// Goes on with the run in `dir` as the command line does: its own configuration, and `settings` on top.
///
/// # Panics
/// If `dir` holds no run, or a setting cannot be.
#[must_use]
pub fn continued(spec: &EnvSpec, dir: &Path, settings: &[&str]) -> TrainerBuilder {
    let layers = Layers::new().file(&dir.join("config.toml"));
    let layers = settings.iter().try_fold(
        layers.unwrap_or_else(|error| panic!("{error}")),
        |layers, setting| layers.set(setting),
    );
    builder(
        spec,
        layers.unwrap_or_else(|error| panic!("{error}")).finish(),
    )
    .resume(dir)
}
