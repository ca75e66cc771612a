//! From `[env]` to an environment of the registry and its options.

use super::error::ConfigError;
use super::keys::EnvConfig;
use super::layers::Origins;
use hotloop_env::{EnvOptions, EnvSpec, OptionValue, Registry, Wrapping};
use std::collections::BTreeMap;
use toml::Value;

impl EnvConfig {
    /// The environment and its options, wrappers included, from the registry.
    ///
    /// # Errors
    ///
    /// The registry has no such environment, or it has no such option or not of that type.
    pub fn resolve<'r>(
        &self,
        registry: &'r Registry,
        origins: &Origins,
    ) -> Result<(&'r EnvSpec, EnvOptions), ConfigError> {
        let error = |key, origin, reason| ConfigError::Env {
            key,
            origin,
            reason,
        };
        if self.id.is_empty() {
            let reason = "it is not set; `hotloop envs` lists the environments".to_string();
            return Err(error("id", origins.of("env.id"), reason));
        }
        let spec = registry
            .get(&self.id)
            .map_err(|e| error("id", origins.of("env.id"), e.to_string()))?;
        let mut given = BTreeMap::new();
        for (name, value) in &self.options {
            let origin = || origins.of(&format!("env.options.{name}"));
            let value = option_value(value).ok_or_else(|| {
                let reason = format!(
                    "option {name:?} is {value}; options are true or false, numbers or texts"
                );
                error("options", origin(), reason)
            })?;
            given.insert(name.clone(), value);
        }
        let options = spec
            .options(&given)
            .map_err(|e| error("options", origins.of("env.options"), e.to_string()))?;
        let wrapping = Wrapping {
            rescale_action: self.rescale_action,
            clip_reward: self.clip_reward,
            sign_reward: self.sign_reward,
            frame_stack: self.frame_stack,
        };
        Ok((spec, options.wrapped(wrapping)))
    }
}

fn option_value(value: &Value) -> Option<OptionValue> {
    match value {
        Value::Boolean(x) => Some((*x).into()),
        Value::Integer(x) => Some((*x).into()),
        Value::Float(x) => Some((*x).into()),
        Value::String(x) => Some(x.clone().into()),
        _ => None,
    }
}
