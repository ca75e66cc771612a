//! From `[env]` to an environment of the registry and its options.

use super::error::ConfigError;
use super::keys::EnvConfig;
use super::layers::Origins;
use hotloop_env::{EnvOptions, EnvSpec, OptionValue, PythonOptions, Registry, Wrapping};
use std::collections::BTreeMap;
use toml::Value;

impl EnvConfig {
    /// The environment and its options, wrappers included, from the registry.
    ///
    /// # Errors
    ///
    /// The registry has no such environment, or it has no such option or not of that type.
    pub fn resolve(
        &self,
        registry: &Registry,
        origins: &Origins,
    ) -> Result<(EnvSpec, EnvOptions), ConfigError> {
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
        };
        let python = self.python_options(&spec, origins)?;
        Ok((
            spec,
            options
                .wrapped(wrapping)
                .stacked(self.frame_stack)
                .with_python(python),
        ))
    }

    /// What an environment in Python is told; an error if something is to be told to another one.
    fn python_options(
        &self,
        spec: &EnvSpec,
        origins: &Origins,
    ) -> Result<PythonOptions, ConfigError> {
        let error = |key: &'static str, reason: String| ConfigError::Env {
            key,
            origin: origins.of(&format!("env.{key}")),
            reason,
        };
        let given = [
            ("import", !self.import.is_empty()),
            ("kwargs", !self.kwargs.is_empty()),
            ("wrappers", !self.wrappers.is_empty()),
            ("python", self.python.is_some()),
        ];
        if let Some((key, _)) = given
            .into_iter()
            .find(|(_, given)| *given && !spec.is_python())
        {
            let reason = format!(
                "it is for environments in Python (gymnasium:NAME), and {} is none",
                spec.id()
            );
            return Err(error(key, reason));
        }
        for wrapper in &self.wrappers {
            let named = wrapper.get("wrapper").unwrap_or(wrapper);
            if !named.as_str().is_some_and(|name| name.contains(':')) {
                let reason = format!(
                    "{wrapper} is neither \"module:Class\" nor {{ wrapper = \"module:Class\", NAME = VALUE }}"
                );
                return Err(error("wrappers", reason));
            }
        }
        let kwargs = self.kwargs.iter();
        let kwargs = kwargs.map(|(name, value)| ("kwargs", name.clone(), value));
        let wrappers = self.wrappers.iter();
        let wrappers = wrappers.map(|wrapper| ("wrappers", wrapper.to_string(), wrapper));
        let odd = |(key, name, value)| Some((key, name, untold(value)?));
        if let Some((key, name, odd)) = kwargs.chain(wrappers).find_map(odd) {
            let reason = format!(
                "{name} holds {odd}, which cannot be handed to Python: finite numbers, texts (in quotes where they \
                 look like something else), true, false, lists and tables can"
            );
            return Err(error(key, reason));
        }
        let json = |key, value: serde_json::Result<String>| {
            value.map_err(|e| error(key, format!("it cannot be handed to Python: {e}")))
        };
        let imports = self.import.split(',').map(str::trim);
        Ok(PythonOptions {
            imports: imports
                .filter(|i| !i.is_empty())
                .map(str::to_owned)
                .collect(),
            kwargs: json("kwargs", serde_json::to_string(&self.kwargs))?,
            wrappers: json("wrappers", serde_json::to_string(&self.wrappers))?,
            interpreter: self.python.clone(),
        })
    }
}

/// A part of the value that JSON has no word for.
fn untold(value: &Value) -> Option<&Value> {
    match value {
        Value::Float(x) if !x.is_finite() => Some(value),
        Value::Datetime(_) => Some(value),
        Value::Array(parts) => parts.iter().find_map(untold),
        Value::Table(parts) => parts.values().find_map(untold),
        _ => None,
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
