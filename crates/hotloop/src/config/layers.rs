//! Puts a configuration together: presets, files and flags, one over the other, each value with its
//! origin.

use super::error::{ConfigError, Origin};
use super::keys::Config;
use super::suggest::hint;
use crate::presets;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

/// A configuration in the making. Later layers win over earlier ones, key by key.
#[derive(Clone, Debug)]
pub struct Layers {
    merged: Table,
    config: Config,
    origins: Origins,
    /// What presets say for one algorithm, laid when it is known which it is.
    specials: Vec<Special>,
}

/// The table `[for.ALGORITHM]` of a preset.
#[derive(Clone, Debug)]
struct Special {
    algorithm: String,
    leaves: Vec<(String, Value)>,
    origin: Origin,
}

/// Where each key that is not at its default was set, by dotted path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Where the key was set. A key beneath it counts as well: `env.options` was set where
    /// `env.options.speed` was.
    #[must_use]
    pub fn of(&self, key: &str) -> Origin {
        let beneath = format!("{key}.");
        self.0
            .iter()
            .find(|(path, _)| *path == key || path.starts_with(&beneath))
            .map_or(Origin::Default, |(_, origin)| origin.clone())
    }
}

/// Environments declare their own options, and have keyword arguments of their own, so any key is possible
/// beneath these.
const OPEN: [&str; 2] = ["env.options", "env.kwargs"];

impl Default for Layers {
    fn default() -> Self {
        Self::new()
    }
}

impl Layers {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            merged: Table::new(),
            config: Config::default(),
            origins: Origins::default(),
            specials: Vec::new(),
        }
    }

    /// Lays a preset over what is there, and beneath it the one that its key `preset` names, if it has one. Its
    /// tables `[for.ALGORITHM]` hold settings that the preset has with that algorithm, whoever chooses it.
    ///
    /// # Errors
    ///
    /// There is no such preset.
    pub fn preset(self, name: &str) -> Result<Self, ConfigError> {
        let origin = Origin::Flag(format!("preset = {name:?}"));
        self.preset_named_by(name, &origin)
    }

    fn preset_named_by(self, name: &str, named_by: &Origin) -> Result<Self, ConfigError> {
        let text = presets::text(name).ok_or_else(|| ConfigError::UnknownPreset {
            name: name.to_string(),
            origin: named_by.clone(),
            hint: hint(
                name,
                presets::names(),
                format!(
                    "there are: {}",
                    presets::names().collect::<Vec<_>>().join(", ")
                ),
            ),
        })?;
        self.lay_preset(name, text)
    }

    fn lay_preset(mut self, name: &str, text: &str) -> Result<Self, ConfigError> {
        let origin = Origin::Preset(name.to_string());
        let mut table = parse(text, &origin)?;
        self = self.beneath(&mut table, &origin)?;
        let specials = table.remove("for");
        // What it says itself holds for every algorithm, whatever the one beneath it says of some.
        let mut own = Vec::new();
        flatten(String::new(), Value::Table(table.clone()), &mut own);
        for special in &mut self.specials {
            special
                .leaves
                .retain(|(key, _)| own.iter().all(|(said, _)| said != key));
        }
        self.lay(table, &origin)?;
        let specials = specials.and_then(|specials| specials.try_into::<Table>().ok());
        for (algorithm, table) in specials.into_iter().flatten() {
            let origin = Origin::Preset(format!("{name}, [for.{algorithm}]"));
            let mut leaves = Vec::new();
            flatten(String::new(), table, &mut leaves);
            // A fault of the preset is one whichever algorithm is chosen.
            let mut trial = self.clone();
            for (key, value) in &leaves {
                trial.assign_leaf(key, value.clone(), &origin)?;
            }
            self.specials.push(Special {
                algorithm,
                leaves,
                origin,
            });
        }
        Ok(self)
    }

    /// Lays a TOML file over what is there. A key `preset` in it names the preset beneath it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not TOML, or holds a key or a value that cannot be.
    pub fn file(self, path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_path_buf(),
            source,
        })?;
        self.text(&text, Origin::File(path.to_path_buf()))
    }

    /// As [`Layers::file`], for text that was read from elsewhere.
    ///
    /// # Errors
    ///
    /// The text is not TOML, or holds a key or a value that cannot be.
    pub fn text(mut self, text: &str, origin: Origin) -> Result<Self, ConfigError> {
        let mut table = parse(text, &origin)?;
        self = self.beneath(&mut table, &origin)?;
        self.lay(table, &origin)?;
        Ok(self)
    }

    /// Lays the preset that a table names in its key `preset`, and takes that key away.
    fn beneath(self, table: &mut Table, origin: &Origin) -> Result<Self, ConfigError> {
        match table.remove("preset") {
            Some(Value::String(name)) => self.preset_named_by(&name, origin),
            Some(value) => Err(ConfigError::BadValue {
                key: "preset".to_string(),
                value: value.to_string(),
                origin: origin.clone(),
                expected: "the name of a preset".to_string(),
            }),
            None => Ok(self),
        }
    }

    /// Sets one key, from `key=value` as given to `--set`. The value is TOML; what is not, is a text.
    ///
    /// # Errors
    ///
    /// It is not `key=value`, or the key or the value cannot be.
    pub fn set(self, text: &str) -> Result<Self, ConfigError> {
        let not_pair = || ConfigError::NotKeyValue {
            text: text.to_string(),
        };
        let (key, value) = text.split_once('=').ok_or_else(not_pair)?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || value.is_empty() {
            return Err(not_pair());
        }
        let origin = Origin::Flag("--set".to_string());
        if key.starts_with("env.kwargs.") && toml_value(value).is_none() && is_like_python(value) {
            // As a text it would be true, or an environment's to stumble over.
            return Err(ConfigError::BadValue {
                key: key.to_string(),
                value: value.to_string(),
                origin,
                expected: "a value as TOML writes it: true, false, 3, 0.5, [1, 2], { NAME = VALUE }, or a text, in \
                           quotes if it is like one of these; for None leave the key out"
                    .to_string(),
            });
        }
        self.value(key, read_value(value), origin)
    }

    /// Sets one key from the text of a flag of its own (`--seed`), read as [`Layers::set`] reads it.
    ///
    /// # Errors
    ///
    /// The value cannot be.
    pub fn flag(self, flag: &str, key: &str, text: &str) -> Result<Self, ConfigError> {
        self.value(key, read_value(text.trim()), Origin::Flag(flag.to_string()))
    }

    /// Sets one key.
    ///
    /// # Errors
    ///
    /// The key or the value cannot be.
    pub fn value(
        mut self,
        key: &str,
        value: impl Into<Value>,
        origin: Origin,
    ) -> Result<Self, ConfigError> {
        self.assign(key, value.into(), &origin)?;
        Ok(self)
    }

    /// The configuration and the origin of each of its values. Ranges and what depends on other keys
    /// are not checked yet: see [`Config::validate`].
    #[must_use]
    pub fn finish(mut self) -> (Config, Origins) {
        for special in std::mem::take(&mut self.specials) {
            if special.algorithm == self.config.algo.name {
                self.lay_beneath(special);
            }
        }
        (self.config, self.origins)
    }

    /// Lays what a preset says for the algorithm, except over what files and flags have set.
    fn lay_beneath(&mut self, special: Special) {
        for (key, value) in special.leaves {
            if matches!(self.origins.of(&key), Origin::Default | Origin::Preset(_)) {
                self.assign_leaf(&key, value, &special.origin)
                    .expect("it was laid for a try when the preset was read");
            }
        }
    }

    fn lay(&mut self, table: Table, origin: &Origin) -> Result<(), ConfigError> {
        table
            .into_iter()
            .try_for_each(|(key, value)| self.assign(&key, value, origin))
    }

    fn assign(&mut self, key: &str, value: Value, origin: &Origin) -> Result<(), ConfigError> {
        match value {
            Value::Table(table) => table.into_iter().try_for_each(|(inner, value)| {
                self.assign(&format!("{key}.{inner}"), value, origin)
            }),
            leaf => self.assign_leaf(key, leaf, origin),
        }
    }

    fn assign_leaf(&mut self, key: &str, value: Value, origin: &Origin) -> Result<(), ConfigError> {
        check_key(key, &value, origin)?;
        let mut failure = String::new();
        for value in readings(&value) {
            let mut merged = self.merged.clone();
            put(&mut merged, key, value);
            match Config::deserialize(merged.clone()) {
                Ok(config) => {
                    self.merged = merged;
                    self.config = config;
                    self.origins.0.insert(key.to_string(), origin.clone());
                    return Ok(());
                }
                // The first reading is the one that the user wrote.
                Err(error) if failure.is_empty() => failure = error.message().to_string(),
                Err(_) => {}
            }
        }
        Err(ConfigError::BadValue {
            key: key.to_string(),
            value: value.to_string(),
            origin: origin.clone(),
            expected: expectation(&failure),
        })
    }
}

/// The leaves beneath `value`, by dotted path.
fn flatten(key: String, value: Value, leaves: &mut Vec<(String, Value)>) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                let key = if key.is_empty() {
                    name
                } else {
                    format!("{key}.{name}")
                };
                flatten(key, value, leaves);
            }
        }
        leaf => leaves.push((key, leaf)),
    }
}

fn parse(text: &str, origin: &Origin) -> Result<Table, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        ConfigError::NotToml {
            origin: origin.clone(),
            line: text.as_bytes()[..at]
                .iter()
                .filter(|b| **b == b'\n')
                .count()
                + 1,
            message: error.message().replace('\n', ", "),
        }
    })
}

/// A value as a user types it: TOML, or else a text.
fn read_value(text: &str) -> Value {
    toml_value(text).unwrap_or_else(|| Value::String(text.to_string()))
}

fn toml_value(text: &str) -> Option<Value> {
    let table = toml::from_str::<Table>(&format!("value = {text}")).ok();
    // A line break could smuggle in another key.
    let mut table = table.filter(|table| table.len() == 1)?;
    table.remove("value")
}

/// Whether this is something else than a text in Python.
fn is_like_python(text: &str) -> bool {
    ["True", "False", "None"].contains(&text) || text.starts_with(['[', '{', '(', '"', '\''])
}

fn check_key(key: &str, value: &Value, origin: &Origin) -> Result<(), ConfigError> {
    let keys = Config::keys();
    let open = OPEN.iter().any(|open| {
        key.strip_prefix(open)
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|names| names.split('.').all(|name| !name.is_empty()))
    });
    if open
        || keys
            .iter()
            .any(|known| known.path == key && !OPEN.contains(&key))
    {
        return Ok(());
    }
    let section = format!("{key}.");
    if keys.iter().any(|known| known.path.starts_with(&section)) || OPEN.contains(&key) {
        return Err(ConfigError::BadValue {
            key: key.to_string(),
            value: value.to_string(),
            origin: origin.clone(),
            expected: format!("keys of the section, as in {key}.NAME = VALUE"),
        });
    }
    Err(ConfigError::UnknownKey {
        key: key.to_string(),
        origin: origin.clone(),
        hint: hint(
            key,
            keys.iter().map(|known| known.path.as_str()),
            "`hotloop config show` lists them all",
        ),
    })
}

/// The value, and what else it may have been meant as: a whole number written as 5e5.
fn readings(value: &Value) -> impl Iterator<Item = Value> {
    /// Past this a float no longer tells whole numbers apart (2^53).
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = match value {
        Value::Float(x) if x.fract() == 0.0 && x.abs() <= EXACT => Some(Value::Integer(*x as i64)),
        _ => None,
    };
    std::iter::once(value.clone()).chain(whole)
}

fn put(table: &mut Table, key: &str, value: Value) {
    // What follows `env.options.` is one name, whatever it holds.
    let (sections, name) = match key.strip_prefix("env.options.") {
        Some(option) => ("env.options", option),
        None => key.rsplit_once('.').unwrap_or(("", key)),
    };
    let mut at = table;
    for section in sections.split('.').filter(|s| !s.is_empty()) {
        let inner = at
            .entry(section)
            .or_insert_with(|| Value::Table(Table::new()));
        if !inner.is_table() {
            // Beneath `env.kwargs` a table may take the place of a value.
            *inner = Value::Table(Table::new());
        }
        let Value::Table(inner) = inner else { return };
        at = inner;
    }
    at.insert(name.to_string(), value);
}

/// serde's words for what it wanted, in those of a user.
fn expectation(message: &str) -> String {
    let wanted = message
        .rsplit_once("expected ")
        .map_or(message, |(_, wanted)| wanted.trim());
    match wanted {
        "usize" | "u64" | "u32" => "a whole number, 0 or more".to_string(),
        "f64" => "a number".to_string(),
        "a boolean" => "true or false".to_string(),
        "a string" => "a text".to_string(),
        "a sequence" => "a list, as in [64, 64]".to_string(),
        "an array of length 2" | "fewer elements in array" => {
            "two numbers, as in [-1.0, 1.0]".to_string()
        }
        names => names.replace('`', "\""),
    }
}

#[cfg(test)]
mod tests;
