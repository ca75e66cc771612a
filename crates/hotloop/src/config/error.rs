//! What can be wrong with a configuration. Every message is one paragraph that names the key, the
//! value, where it came from and what is possible instead.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Origin {
    /// Nobody set it.
    #[default]
    Default,
    /// A preset, by name.
    Preset(String),
    /// A TOML file.
    File(PathBuf),
    /// The command line: the flag (`--set`, `--seed`, …).
    Flag(String),
    /// The word that says what to run.
    What(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Flag(flag) => f.write_str(flag),
            Self::What(what) => write!(f, "{what:?} on the command line"),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither a preset nor an environment nor a file.
    #[error(
        "{what:?} is no preset ({presets}), no environment of this program and no TOML file; {hint}"
    )]
    UnknownWhat {
        /// The word.
        what: String,
        /// The presets there are.
        presets: String,
        /// The nearest name, or what to do.
        hint: String,
    },

    /// A preset that does not exist.
    #[error("unknown preset {name:?} (from {origin}); {hint}")]
    UnknownPreset {
        /// The name.
        name: String,
        /// Where it was named.
        origin: Origin,
        /// The nearest name, or all.
        hint: String,
    },

    /// A file that cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason the system gave.
        source: std::io::Error,
    },

    /// Text that is not TOML.
    #[error("{origin}, line {line}, is not TOML: {message}")]
    NotToml {
        /// The text's origin.
        origin: Origin,
        /// The line, from 1.
        line: usize,
        /// What the parser found.
        message: String,
    },

    /// A `--set` that is not `key=value`.
    #[error("--set {text:?} is not KEY=VALUE, as in --set algo.gamma=0.98")]
    NotKeyValue {
        /// What was given.
        text: String,
    },

    /// A key that does not exist.
    #[error("unknown key {key:?} (from {origin}); {hint}")]
    UnknownKey {
        /// The key, as a dotted path.
        key: String,
        /// Where it was set.
        origin: Origin,
        /// The nearest key, or how to list them.
        hint: String,
    },

    /// A value of the wrong type or outside of its range.
    #[error("{key} = {value} (from {origin}) cannot be: expected {expected}")]
    BadValue {
        /// The key.
        key: String,
        /// The value, as TOML.
        value: String,
        /// Where it was set.
        origin: Origin,
        /// What is possible.
        expected: String,
    },

    /// Values that do not fit together.
    #[error("{key} = {value} (from {origin}) does not fit: {reason}")]
    Conflict {
        /// The key that is best changed.
        key: String,
        /// Its value, as TOML.
        value: String,
        /// Where it was set.
        origin: Origin,
        /// With what it does not fit, and what to do.
        reason: String,
    },

    /// An environment, or an option of it, that does not exist.
    #[error("env.{key} (from {origin}): {reason}")]
    Env {
        /// `id` or `options`.
        key: &'static str,
        /// Where it was set.
        origin: Origin,
        /// What the registry says, with a suggestion.
        reason: String,
    },
}
