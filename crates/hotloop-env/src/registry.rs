//! Environments by name, with their options: what the command line and configuration files speak of.

use crate::wrappers::TimeLimit;
use crate::{Copies, Env, EnvError, Spaces, VectorEnv};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The value of an environment's option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Bool(value) => value.fmt(f),
            OptionValue::Int(value) => value.fmt(f),
            OptionValue::Float(value) => value.fmt(f),
            OptionValue::Text(value) => value.fmt(f),
        }
    }
}

macro_rules! option_from {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for OptionValue {
            fn from(value: $type) -> Self { OptionValue::$variant(value.into()) }
        }
    )*};
}
option_from!(bool => Bool, i64 => Int, f64 => Float, &str => Text, String => Text);

/// The options of an environment: declared ones with their defaults, some set by the user.
#[derive(Clone, Debug, Default)]
pub struct EnvOptions(BTreeMap<String, OptionValue>);

impl EnvOptions {
    fn get(&self, name: &str) -> &OptionValue {
        self.0.get(name).unwrap_or_else(|| {
            panic!("option {name:?} is read, but was not declared with EnvSpec::option")
        })
    }

    /// A declared true-or-false option.
    pub fn bool(&self, name: &str) -> bool {
        match self.get(name) {
            OptionValue::Bool(value) => *value,
            other => panic!("option {name:?} was declared as {other:?}, not as a bool"),
        }
    }

    /// A declared whole-number option.
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            OptionValue::Int(value) => *value,
            other => panic!("option {name:?} was declared as {other:?}, not as an int"),
        }
    }

    /// A declared number option.
    pub fn float(&self, name: &str) -> f64 {
        match self.get(name) {
            OptionValue::Float(value) => *value,
            other => panic!("option {name:?} was declared as {other:?}, not as a float"),
        }
    }

    /// A declared text option.
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            OptionValue::Text(value) => value,
            other => panic!("option {name:?} was declared as {other:?}, not as a text"),
        }
    }
}

type MakeBlock =
    dyn Fn(&EnvOptions, u32, usize) -> Result<Box<dyn VectorEnv>, EnvError> + Send + Sync;
type MakeSpaces = dyn Fn(&EnvOptions) -> Result<Spaces, EnvError> + Send + Sync;

/// How to make one kind of environment, and what its users should know of it.
#[derive(Clone)]
pub struct EnvSpec {
    id: String,
    about: String,
    time_limit: u32,
    options: BTreeMap<String, (OptionValue, String)>,
    make: Arc<MakeBlock>,
    spaces: Arc<MakeSpaces>,
}

impl EnvSpec {
    /// An environment by its id (`Name-v0`) and a function that makes one.
    pub fn new<E, F>(id: impl Into<String>, make: F) -> Self
    where
        E: Env + 'static,
        F: Fn(&EnvOptions) -> Result<E, EnvError> + Send + Sync + 'static,
    {
        let make = Arc::new(make);
        let spaces = {
            let make = make.clone();
            move |options: &EnvOptions| {
                let env = make(options)?;
                Spaces::new(env.observation_space(), env.action_space())
                    .map_err(|error| EnvError::new(error.to_string()))
            }
        };
        let block = move |options: &EnvOptions, limit: u32, lanes: usize| {
            let (make, options) = (make.clone(), options.clone());
            let block: Box<dyn VectorEnv> = if limit == 0 {
                Box::new(Copies::new(lanes, move || make(&options))?)
            } else {
                Box::new(Copies::new(lanes, move || {
                    Ok(TimeLimit::new(make(&options)?, limit))
                })?)
            };
            Ok(block)
        };
        Self::with_parts(id.into(), Arc::new(block), Arc::new(spaces))
    }

    /// A simulator that steps many lanes at once, and its spaces. It keeps its own time limit.
    pub fn vector<F, S>(id: impl Into<String>, make: F, spaces: S) -> Self
    where
        F: Fn(&EnvOptions, usize) -> Result<Box<dyn VectorEnv>, EnvError> + Send + Sync + 'static,
        S: Fn(&EnvOptions) -> Result<Spaces, EnvError> + Send + Sync + 'static,
    {
        Self::with_parts(
            id.into(),
            Arc::new(move |options, _, lanes| make(options, lanes)),
            Arc::new(spaces),
        )
    }

    fn with_parts(id: String, make: Arc<MakeBlock>, spaces: Arc<MakeSpaces>) -> Self {
        Self {
            id,
            about: String::new(),
            time_limit: 0,
            options: BTreeMap::new(),
            make,
            spaces,
        }
    }

    /// One line about it, for lists.
    pub fn about(mut self, about: impl Into<String>) -> Self {
        self.about = about.into();
        self
    }

    /// Truncates episodes after this many steps (0: never).
    pub fn time_limit(mut self, steps: u32) -> Self {
        self.time_limit = steps;
        self
    }

    /// Declares an option with its default and its meaning.
    pub fn option(mut self, name: &str, default: impl Into<OptionValue>, about: &str) -> Self {
        self.options
            .insert(name.to_string(), (default.into(), about.to_string()));
        self
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The line about it.
    pub fn description(&self) -> &str {
        &self.about
    }

    /// The time limit in steps; 0 if there is none.
    pub fn max_steps(&self) -> u32 {
        self.time_limit
    }

    /// The declared options: name, default, meaning.
    pub fn declared(&self) -> impl Iterator<Item = (&str, &OptionValue, &str)> {
        self.options
            .iter()
            .map(|(name, (default, about))| (name.as_str(), default, about.as_str()))
    }

    /// The declared options with `given` ones in place of their defaults. An unknown name or a value
    /// of another type is an error; a whole number may stand for a float.
    pub fn options(&self, given: &BTreeMap<String, OptionValue>) -> Result<EnvOptions, EnvError> {
        let mut options: BTreeMap<_, _> = self
            .options
            .iter()
            .map(|(name, (value, _))| (name.clone(), value.clone()))
            .collect();
        for (name, value) in given {
            let Some(default) = options.get(name) else {
                return Err(EnvError::new(unknown(
                    "option",
                    name,
                    self.options.keys(),
                    &format!("environment {}", self.id),
                )));
            };
            let value = match (default, value) {
                (OptionValue::Float(_), OptionValue::Int(int)) => OptionValue::Float(*int as f64),
                (default, value)
                    if std::mem::discriminant(default) == std::mem::discriminant(value) =>
                {
                    value.clone()
                }
                (default, value) => {
                    return Err(EnvError::new(format!(
                        "option {name:?} of environment {}: {value} does not fit; its default is {default}",
                        self.id
                    )));
                }
            };
            options.insert(name.clone(), value);
        }
        Ok(EnvOptions(options))
    }

    /// The spaces of the environment made with these options.
    pub fn spaces(&self, options: &EnvOptions) -> Result<Spaces, EnvError> {
        (self.spaces)(options)
    }

    /// A block of `lanes` environments made with these options.
    pub fn make(&self, options: &EnvOptions, lanes: usize) -> Result<Box<dyn VectorEnv>, EnvError> {
        (self.make)(options, self.time_limit, lanes)
    }
}

impl fmt::Debug for EnvSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvSpec")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The environments that a program knows, by id.
#[derive(Clone, Debug, Default)]
pub struct Registry(BTreeMap<String, EnvSpec>);

impl Registry {
    /// No environments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an environment; a later one takes the place of an earlier one with the same id.
    pub fn add(&mut self, spec: EnvSpec) -> &mut Self {
        self.0.insert(spec.id.clone(), spec);
        self
    }

    /// The environment with this id, or an error that suggests the nearest one.
    pub fn get(&self, id: &str) -> Result<&EnvSpec, EnvError> {
        self.0
            .get(id)
            .ok_or_else(|| EnvError::new(unknown("environment", id, self.0.keys(), "this program")))
    }

    /// All environments, by id.
    pub fn iter(&self) -> impl Iterator<Item = &EnvSpec> {
        self.0.values()
    }
}

fn unknown<'a>(
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
        None => format!(
            "it has: {}",
            known.map(String::as_str).collect::<Vec<_>>().join(", ")
        ),
    };
    format!("unknown {what} {name:?} of {whose}; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActionView, EnvRng, ObservationMut, ResetCtx, Space, Transition};

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
}
