//! What to run, from one word: a preset, an environment or a file.

use super::error::{ConfigError, Origin};
use super::layers::Layers;
use super::suggest::hint;
use crate::presets;
use hotloop_env::Registry;
use std::path::Path;

impl Layers {
    /// The first layers of a run that is named by one word: a preset, else the id of an environment
    /// (with the defaults), else the path of a TOML file.
    ///
    /// # Errors
    ///
    /// It is none of the three, or the file cannot be used.
    pub fn named(what: &str, registry: &Registry) -> Result<Self, ConfigError> {
        let path = Path::new(what);
        if presets::text(what).is_some() {
            Self::new().preset(what)
        } else if registry.get(what).is_ok() {
            Self::new().value("env.id", what, Origin::What(what.to_string()))
        } else if path.is_file() || path.extension().is_some_and(|e| e == "toml") {
            Self::new().file(path)
        } else {
            let families: Vec<_> = registry.families().map(|f| format!("{f}:NAME")).collect();
            let mut known: Vec<&str> = presets::names().collect();
            known.extend(registry.iter().map(|spec| spec.id()));
            known.extend(families.iter().map(String::as_str));
            let otherwise =
                "`hotloop envs` lists the environments, and a file is named with its path";
            let mut hint = hint(what, known, otherwise);
            // As Gymnasium's ids are.
            if what.contains("-v") {
                for family in registry.families() {
                    hint += &format!("; if it is one of {family}: {family}:{what}");
                }
            }
            if path.is_dir() {
                hint += "; a run goes on with --resume";
            }
            Err(ConfigError::UnknownWhat {
                what: what.to_string(),
                presets: presets::names().collect::<Vec<_>>().join(", "),
                hint,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(what: &str) -> Result<String, String> {
        Layers::named(what, &Registry::new())
            .map(|layers| layers.finish().0.env.id)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn presets_and_files_are_found() {
        assert_eq!(named("pendulum").unwrap(), "Pendulum-v1");
        let dir = tempfile::tempdir().unwrap();
        // A file is found by its name's ending or because it is there.
        for name in ["a.toml", "plain"] {
            let path = dir.path().join(name);
            std::fs::write(&path, "preset = \"cartpole\"\nenv.id = \"Mine-v0\"").unwrap();
            assert_eq!(named(path.to_str().unwrap()).unwrap(), "Mine-v0");
        }
    }

    #[test]
    fn what_is_none_of_the_three_is_suggested() {
        let error = named("cartpol").unwrap_err();
        assert!(error.contains("is no preset (acrobot, atari, "), "{error}");
        assert!(
            error.contains("no environment of this program and no TOML file"),
            "{error}"
        );
        assert!(error.contains("did you mean \"cartpole\"?"), "{error}");
        assert!(named("qqq").unwrap_err().contains("`hotloop envs`"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = named("gone.toml").unwrap_err();
        assert!(
            error.contains("cannot read the configuration file gone.toml"),
            "{error}"
        );
    }
}
