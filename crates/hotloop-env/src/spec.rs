//! How one kind of environment is made, and what its users should know of it.

use crate::contain::contain;
use crate::registry::unknown;
use crate::wrappers::{HoldEnd, TimeLimit};
use crate::{
    AsyncCopies, AsyncEnv, AsyncVectorEnv, Block, Copies, Env, EnvError, EnvOptions, OptionValue,
    PythonOptions, Spaces, VectorEnv, Wrapping,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

type MakeBlock = dyn Fn(&EnvOptions, u32, usize) -> Result<Block, EnvError> + Send + Sync;
type MakeSpaces = dyn Fn(&EnvOptions) -> Result<Spaces, EnvError> + Send + Sync;

/// How to make one kind of environment, and what its users should know of it.
#[derive(Clone)]
pub struct EnvSpec {
    id: String,
    about: String,
    time_limit: u32,
    options: BTreeMap<String, (OptionValue, String)>,
    /// Whether wrappers fit around it: they are made for one [`Env`] at a time.
    wrappable: bool,
    /// Whether its blocks shape rewards as wrappers would.
    shapes_rewards: bool,
    /// Whether its blocks are [`Block::Async`].
    waits: bool,
    /// Whether it is written in Python.
    python: bool,
    /// Whether each block costs much, so that few large ones are better than many small ones.
    costly_blocks: bool,
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
                let env = options.wrapping.apply(make(options)?)?;
                Ok(Spaces::new(env.observation_space(), env.action_space())?)
            }
        };
        let block = move |options: &EnvOptions, limit: u32, lanes: usize| {
            let (make, options) = (make.clone(), options.clone());
            if options.drawn {
                let drawn = move || {
                    let mut env: Box<dyn Env> = Box::new(make(&options)?);
                    if limit > 0 {
                        env = Box::new(TimeLimit::new(env, limit));
                    }
                    Ok(HoldEnd::new(options.wrapping.apply(env)?))
                };
                return Ok(Block::Sync(Box::new(Copies::new(lanes, drawn)?)));
            }
            // The common cases are compiled for the very environment; wrapped ones go by pointer.
            let block: Box<dyn VectorEnv> = match (options.wrapping.is_none(), limit) {
                (true, 0) => Box::new(Copies::new(lanes, move || make(&options))?),
                (true, limit) => Box::new(Copies::new(lanes, move || {
                    Ok(TimeLimit::new(make(&options)?, limit))
                })?),
                (false, 0) => Box::new(Copies::new(lanes, move || {
                    options.wrapping.apply(make(&options)?)
                })?),
                (false, limit) => Box::new(Copies::new(lanes, move || {
                    let env = TimeLimit::new(make(&options)?, limit);
                    options.wrapping.apply(env)
                })?),
            };
            Ok(Block::Sync(block))
        };
        Self {
            wrappable: true,
            ..Self::with_parts(id.into(), Arc::new(block), Arc::new(spaces))
        }
    }

    /// An environment that waits, by its id and a function that makes one.
    pub fn asynchronous<E, F>(id: impl Into<String>, make: F) -> Self
    where
        E: AsyncEnv + 'static,
        F: Fn(&EnvOptions) -> Result<E, EnvError> + Send + Sync + 'static,
    {
        let make = Arc::new(make);
        let spaces = {
            let make = make.clone();
            move |options: &EnvOptions| {
                let env = make(options)?;
                Ok(Spaces::new(env.observation_space(), env.action_space())?)
            }
        };
        let block = move |options: &EnvOptions, limit: u32, lanes: usize| {
            let (make, options) = (make.clone(), options.clone());
            let block = match (options.drawn, limit) {
                (false, 0) => AsyncCopies::new(lanes, move || make(&options))?,
                (false, limit) => {
                    AsyncCopies::new(lanes, move || Ok(TimeLimit::new(make(&options)?, limit)))?
                }
                (true, 0) => {
                    AsyncCopies::new(lanes, move || Ok(HoldEnd::new(make(&options)?)))?.drawn()
                }
                (true, limit) => AsyncCopies::new(lanes, move || {
                    Ok(HoldEnd::new(TimeLimit::new(make(&options)?, limit)))
                })?
                .drawn(),
            };
            Ok(Block::Async(Box::new(block)))
        };
        Self {
            waits: true,
            ..Self::with_parts(id.into(), Arc::new(block), Arc::new(spaces))
        }
    }

    /// A simulator that steps many lanes at once, and its spaces. It keeps its own time limit.
    pub fn vector<F, S>(id: impl Into<String>, make: F, spaces: S) -> Self
    where
        F: Fn(&EnvOptions, usize) -> Result<Box<dyn VectorEnv>, EnvError> + Send + Sync + 'static,
        S: Fn(&EnvOptions) -> Result<Spaces, EnvError> + Send + Sync + 'static,
    {
        Self::with_parts(
            id.into(),
            Arc::new(move |options, _, lanes| Ok(Block::Sync(make(options, lanes)?))),
            Arc::new(spaces),
        )
    }

    /// A simulator that steps many lanes at once and waits, and its spaces. It keeps its own time limit, and
    /// each of its blocks costs much (a process, a connection): where nobody says how many lanes a block has,
    /// few large ones are made.
    pub fn asynchronous_vector<F, S>(id: impl Into<String>, make: F, spaces: S) -> Self
    where
        F: Fn(&EnvOptions, usize) -> Result<Box<dyn AsyncVectorEnv>, EnvError>
            + Send
            + Sync
            + 'static,
        S: Fn(&EnvOptions) -> Result<Spaces, EnvError> + Send + Sync + 'static,
    {
        Self {
            waits: true,
            costly_blocks: true,
            ..Self::with_parts(
                id.into(),
                Arc::new(move |options, _, lanes| Ok(Block::Async(make(options, lanes)?))),
                Arc::new(spaces),
            )
        }
    }

    fn with_parts(id: String, make: Arc<MakeBlock>, spaces: Arc<MakeSpaces>) -> Self {
        Self {
            id,
            about: String::new(),
            time_limit: 0,
            options: BTreeMap::new(),
            wrappable: false,
            shapes_rewards: false,
            waits: false,
            python: false,
            costly_blocks: false,
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

    /// Whether it waits for something outside, so that its blocks are [`Block::Async`].
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Says that its blocks shape rewards by [`Wrapping::shape`](crate::Wrapping::shape), since wrappers do not fit around them.
    pub fn shaping_rewards(mut self) -> Self {
        self.shapes_rewards = true;
        self
    }

    /// Says that it is written in Python, and reads [`EnvOptions::python`].
    pub fn in_python(mut self) -> Self {
        self.python = true;
        self
    }

    /// Whether it is written in Python.
    pub fn is_python(&self) -> bool {
        self.python
    }

    /// Whether each of its blocks costs much, so that few large ones are better than many small ones.
    pub fn has_costly_blocks(&self) -> bool {
        self.costly_blocks
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
        Ok(EnvOptions {
            values: options,
            wrapping: Wrapping::default(),
            stack: 0,
            drawn: false,
            python: PythonOptions::default(),
            reset_deadline: None,
        })
    }

    /// The spaces of the environment made with these options. One is made to ask it.
    pub fn spaces(&self, options: &EnvOptions) -> Result<Spaces, EnvError> {
        self.guard(options, || {
            Ok((self.spaces)(options)?.stacked(options.stack)?)
        })
    }

    /// A block of `lanes` environments made with these options.
    pub fn make(&self, options: &EnvOptions, lanes: usize) -> Result<Block, EnvError> {
        self.guard(options, || (self.make)(options, self.time_limit, lanes))
    }

    /// Names the environment in every error, a panic among them.
    fn guard<T>(
        &self,
        options: &EnvOptions,
        f: impl FnOnce() -> Result<T, EnvError>,
    ) -> Result<T, EnvError> {
        let fail = |message: &str| EnvError::new(format!("environment {}: {message}", self.id));
        let fits = self.wrappable || self.shapes_rewards && options.wrapping.only_shapes();
        if !fits && !options.wrapping.is_none() {
            return Err(fail(match self.python {
                true => {
                    "env.rescale_action does not fit around it; name a wrapper of Gymnasium in env.wrappers"
                }
                false => "wrappers fit around single environments only",
            }));
        }
        contain(f).map_err(|failure| fail(&failure.into_error().to_string()))
    }
}

impl fmt::Debug for EnvSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvSpec")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
