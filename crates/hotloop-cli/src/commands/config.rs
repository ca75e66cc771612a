//! `config show`, and how every command puts its configuration together.

use crate::args::{ConfigArgs, ConfigCommand, Overrides};
use crate::exit::Failure;
use crate::output;
use hotloop::config::{ConfigError, Layers};
use hotloop::prelude::Registry;

pub(crate) fn config(args: &ConfigArgs, registry: &Registry) -> Result<(), Failure> {
    let ConfigCommand::Show { what, overrides } = &args.command;
    let base = match what {
        Some(what) => Layers::named(what, registry),
        None => Ok(Layers::new()),
    };
    let layers = base
        .and_then(|base| overrides.over(base))
        .map_err(Failure::input)?;
    let (config, origins) = layers.finish();
    if what.is_some() {
        config
            .validate(registry, &origins)
            .map_err(Failure::input)?;
    }
    output::put(&config.explained(&origins))
}

impl Overrides {
    /// Lays what the flags say over `layers`. A flag of its own wins over `--set`.
    pub(crate) fn over(&self, mut layers: Layers) -> Result<Layers, ConfigError> {
        for text in &self.sets {
            layers = layers.set(text)?;
        }
        for (flag, key, value) in [
            ("--seed", "seed", &self.seed),
            ("--threads", "threads", &self.threads),
            ("--device", "device", &self.device),
            ("--steps", "steps", &self.steps),
        ] {
            if let Some(value) = value {
                layers = layers.flag(flag, key, value)?;
            }
        }
        Ok(layers)
    }
}
