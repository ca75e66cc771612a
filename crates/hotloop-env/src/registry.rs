//! Environments by name: what the command line and configuration files speak of.

use crate::{EnvError, EnvSpec};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The environments that a program knows, by id.
///
/// ```
/// use hotloop_env::{EnvSpec, Registry};
/// # use hotloop_env::{ActionView, Env, EnvError, EnvRng, ObservationMut, ResetCtx, Space, Transition};
/// # struct Pole { gravity: f64 }
/// # impl Env for Pole {
/// #     fn observation_space(&self) -> Space { Space::boxed(0.0, 1.0, &[1]) }
/// #     fn action_space(&self) -> Space { Space::discrete(2) }
/// #     fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> { Ok(()) }
/// #     fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> { Ok(Transition::running(self.gravity)) }
/// #     fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> { out.write(&[0.0f32]) }
/// # }
///
/// let mut registry = Registry::new();
/// registry.add(
///     EnvSpec::new("Pole-v0", |options| Ok(Pole { gravity: options.float("gravity") }))
///         .about("balance a pole")
///         .option("gravity", 9.8, "in m/s²")
///         .time_limit(500),
/// );
///
/// let spec = registry.get("Pole-v0")?;
/// let options = spec.options(&[("gravity".to_string(), 1.6.into())].into())?;
/// assert_eq!(spec.make(&options, 16)?.lanes(), 16);
/// let error = registry.get("Pole-v1").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "unknown environment \"Pole-v1\" of this program; did you mean \"Pole-v0\"?"
/// );
/// # Ok::<(), EnvError>(())
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    specs: BTreeMap<String, EnvSpec>,
    families: BTreeMap<String, Family>,
    /// By what their ids begin with: environments that the program could have, and how it gets them.
    left_out: BTreeMap<String, String>,
}

/// Makes the specification of one member of a family, by the part of its id after the prefix.
type Family = Arc<dyn Fn(&str) -> Result<EnvSpec, EnvError> + Send + Sync>;

impl Registry {
    /// No environments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an environment; a later one takes the place of an earlier one with the same id.
    pub fn add(&mut self, spec: EnvSpec) -> &mut Self {
        self.specs.insert(spec.id().to_string(), spec);
        self
    }

    /// Adds a family of environments that are too many to list: `prefix:NAME` is what `member` makes of
    /// `NAME`, and is to have that whole id.
    ///
    /// ```
    /// use hotloop_env::{EnvSpec, Registry};
    ///
    /// let mut registry = Registry::new();
    /// registry.add_family("remote", |name| {
    ///     Ok(EnvSpec::vector(format!("remote:{name}"), |_, _| Err("out of reach".into()), |_| Err("out of reach".into())))
    /// });
    /// assert_eq!(registry.get("remote:Ant-v9")?.id(), "remote:Ant-v9");
    /// # Ok::<(), hotloop_env::EnvError>(())
    /// ```
    pub fn add_family(
        &mut self,
        prefix: impl Into<String>,
        member: impl Fn(&str) -> Result<EnvSpec, EnvError> + Send + Sync + 'static,
    ) -> &mut Self {
        self.families.insert(prefix.into(), Arc::new(member));
        self
    }

    /// Says of environments whose ids begin with `prefix`, and that are not here, how the program would get
    /// them.
    ///
    /// ```
    /// let mut registry = hotloop_env::Registry::new();
    /// registry.leave_out("Cloud/", "build it with the feature \"cloud\"");
    /// assert_eq!(
    ///     registry.get("Cloud/Ant-v9").unwrap_err().to_string(),
    ///     "this program was built without environment \"Cloud/Ant-v9\": build it with the feature \"cloud\""
    /// );
    /// ```
    pub fn leave_out(&mut self, prefix: impl Into<String>, remedy: impl Into<String>) -> &mut Self {
        self.left_out.insert(prefix.into(), remedy.into());
        self
    }

    /// The environment with this id, or an error that suggests the nearest one.
    pub fn get(&self, id: &str) -> Result<EnvSpec, EnvError> {
        if let Some(spec) = self.specs.get(id) {
            return Ok(spec.clone());
        }
        if let Some((prefix, name)) = id.split_once(':')
            && let Some(member) = self.families.get(prefix)
        {
            return match name {
                "" => Err(EnvError::new(format!(
                    "environment {id:?} has no name after {prefix:?}; {prefix}:NAME is needed"
                ))),
                name => member(name),
            };
        }
        if let Some((_, remedy)) = self
            .left_out
            .iter()
            .find(|(prefix, _)| id.starts_with(*prefix))
        {
            return Err(EnvError::new(format!(
                "this program was built without environment {id:?}: {remedy}"
            )));
        }
        let families = self.families.keys().map(|prefix| format!("{prefix}:NAME"));
        let known: Vec<String> = self.specs.keys().cloned().chain(families).collect();
        let message = unknown("environment", id, known.iter(), "this program");
        Err(EnvError::new(message))
    }

    /// All environments that are listed, by id.
    pub fn iter(&self) -> impl Iterator<Item = &EnvSpec> {
        self.specs.values()
    }

    /// The prefixes of all families.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.families.keys().map(String::as_str)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("specs", &self.specs)
            .field("families", &self.families.keys())
            .field("left_out", &self.left_out)
            .finish()
    }
}

/// The message for a name that is not among the known ones.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a String> + Clone,
    whose: &str,
) -> String {
    let near = known
        .clone()
        .map(|k| {
            (
                strsim::jaro_winkler(&name.to_lowercase(), &k.to_lowercase()),
                k,
            )
        })
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match near {
        Some((_, k)) => format!("did you mean {k:?}?"),
        None => match known.map(String::as_str).collect::<Vec<_>>() {
            names if names.is_empty() => "it has none".into(),
            names => format!("it has: {}", names.join(", ")),
        },
    };
    format!("unknown {what} {name:?} of {whose}; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ActionView, Env, EnvRng, ObservationMut, OptionValue, ResetCtx, Space, Transition, Wrapping,
    };

    struct Still;
    impl Env for Still {
        fn observation_space(&self) -> Space {
            Space::unbounded(&[1])
        }
        fn action_space(&self) -> Space {
            Space::discrete(2)
        }
        fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
            Ok(())
        }
        fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
            Ok(Transition::running(0.0))
        }
        fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
            out.write(&[0.0f32])
        }
    }

    fn registry() -> Registry {
        let mut registry = Registry::new();
        registry.add(
            EnvSpec::new("Still-v0", |o| {
                o.float("speed");
                Ok(Still)
            })
            .option("speed", 1.0, "how fast")
            .time_limit(3),
        );
        registry
    }

    #[test]
    fn unknown_names_are_suggested() {
        let error = registry().get("still-v1").unwrap_err().to_string();
        assert!(error.contains("did you mean \"Still-v0\"?"), "{error}");
        let given = [("sped".to_string(), OptionValue::Float(2.0))].into();
        let error = registry()
            .get("Still-v0")
            .unwrap()
            .options(&given)
            .unwrap_err()
            .to_string();
        assert!(error.contains("did you mean \"speed\"?"), "{error}");
    }

    #[test]
    fn members_of_a_family_are_made_by_name_and_listed_ids_go_first() {
        let mut registry = registry();
        registry.add_family("far", |name| match name {
            "Gone-v0" => Err("there is no Gone-v0".into()),
            name => Ok(EnvSpec::new(format!("far:{name}"), |_| Ok(Still))),
        });
        assert_eq!(registry.get("far:a:b").unwrap().id(), "far:a:b");
        registry.add(EnvSpec::new("far:Still-v0", |_| Ok(Still)).about("listed"));
        let listed = registry.get("far:Still-v0").unwrap();
        assert_eq!(listed.description(), "listed");
        for (id, part) in [
            ("far:Gone-v0", "there is no Gone-v0"),
            ("far:", "far:NAME is needed"),
            ("fa:NAME", "did you mean \"far:NAME\"?"),
        ] {
            let error = registry.get(id).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(registry.families().collect::<Vec<_>>(), ["far"]);
    }

    #[test]
    fn options_are_typed() {
        let registry = registry();
        let spec = registry.get("Still-v0").unwrap();
        let options = spec
            .options(&[("speed".to_string(), OptionValue::Int(2))].into())
            .unwrap();
        assert_eq!(options.float("speed"), 2.0);
        assert!(
            spec.options(&[("speed".to_string(), OptionValue::Bool(true))].into())
                .is_err()
        );
        assert_eq!(spec.make(&options, 4).unwrap().lanes(), 4);
    }

    #[test]
    fn wrappers_go_around_by_name() {
        let registry = registry();
        let spec = registry.get("Still-v0").unwrap();
        let options = spec.options(&Default::default()).unwrap();
        let signed = Wrapping {
            sign_reward: true,
            ..Wrapping::default()
        };
        let wrapped = options.clone().wrapped(signed).stacked(4);
        let spaces = spec.spaces(&wrapped).unwrap();
        assert_eq!(spaces.observation_space, Space::unbounded(&[4, 1]));
        assert_eq!(spec.make(&wrapped, 2).unwrap().lanes(), 2);

        let wrong = options.wrapped(Wrapping {
            clip_reward: Some([1.0, -1.0]),
            ..Wrapping::default()
        });
        let error = spec.make(&wrong, 2).unwrap_err().to_string();
        assert_eq!(
            error,
            "environment Still-v0: rewards cannot be clipped to [1, -1]: low ≤ high is needed"
        );
    }

    #[test]
    fn an_environment_that_cannot_be_made_is_named() {
        let spec = EnvSpec::new("Broken-v0", |_| -> Result<Still, EnvError> {
            panic!("no display")
        });
        let options = spec.options(&Default::default()).unwrap();
        for error in [
            spec.spaces(&options).unwrap_err(),
            spec.make(&options, 2).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), "environment Broken-v0: no display");
        }
    }
}
