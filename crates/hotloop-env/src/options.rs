//! The options of an environment: what the user may set, typed, each with its default.

use crate::Wrapping;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

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

/// The options of an environment: declared ones with their defaults, some set by the user,
/// the wrappers to go around it, and how many of its observations a policy sees at once.
#[derive(Clone, Debug, Default)]
pub struct EnvOptions {
    pub(crate) values: BTreeMap<String, OptionValue>,
    pub(crate) wrapping: Wrapping,
    pub(crate) stack: usize,
    pub(crate) drawn: bool,
    pub(crate) python: PythonOptions,
    pub(crate) reset_deadline: Option<Duration>,
}

/// What an environment written in Python can be told. Values are JSON, so that they can be handed on as
/// they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PythonOptions {
    /// Modules to import first, so that they can register their environments.
    pub imports: Vec<String>,
    /// Keyword arguments of the environment: a JSON object.
    pub kwargs: String,
    /// Wrappers to go around it, from the inside: a JSON list of `"module:Name"`, or of objects with the key
    /// `wrapper` beside the wrapper's keyword arguments.
    pub wrappers: String,
    /// The interpreter to run it with; none to look for one.
    pub interpreter: Option<String>,
}

impl Default for PythonOptions {
    fn default() -> Self {
        Self {
            imports: Vec::new(),
            kwargs: "{}".into(),
            wrappers: "[]".into(),
            interpreter: None,
        }
    }
}

impl EnvOptions {
    /// The same options for an environment with these wrappers around it.
    pub fn wrapped(mut self, wrapping: Wrapping) -> Self {
        self.wrapping = wrapping;
        self
    }

    /// The same options where a policy sees the last `k` observations at once; 0 for the last alone. The
    /// environment knows nothing of it: its [spaces](crate::EnvSpec::spaces) are
    /// [stacked](crate::Spaces::stacked), and the engine keeps the frames.
    pub fn stacked(mut self, k: usize) -> Self {
        self.stack = k;
        self
    }

    /// The wrappers, for a simulator that [shapes rewards](crate::EnvSpec::shaping_rewards) itself.
    pub fn wrapping(&self) -> &Wrapping {
        &self.wrapping
    }

    /// The same options for an environment that frames will be asked of, or not (the default).
    #[must_use]
    pub fn drawn(mut self, drawn: bool) -> Self {
        self.drawn = drawn;
        self
    }

    /// Whether frames will be asked for ([`Env::render`](crate::Env::render)): some simulators have to know
    /// when they are made.
    pub fn is_drawn(&self) -> bool {
        self.drawn
    }

    /// The same options for an environment written in Python.
    pub fn with_python(mut self, python: PythonOptions) -> Self {
        self.python = python;
        self
    }

    /// What an environment written in Python is told.
    pub fn python(&self) -> &PythonOptions {
        &self.python
    }

    /// The same options for an environment that is given so long to be made and reset when it is asked for
    /// its spaces; none (the default): for ever. It holds for environments that wait: no other call can be
    /// given up.
    #[must_use]
    pub fn with_reset_deadline(mut self, deadline: Option<Duration>) -> Self {
        self.reset_deadline = deadline;
        self
    }

    /// How long an environment may take to be made and reset when it is asked for its spaces.
    pub fn reset_deadline(&self) -> Option<Duration> {
        self.reset_deadline
    }

    fn get(&self, name: &str) -> &OptionValue {
        self.values.get(name).unwrap_or_else(|| {
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
