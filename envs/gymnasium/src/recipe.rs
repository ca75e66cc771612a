//! What a worker is to make.

use crate::interpreter;
use crate::worker::probe;
use hotloop_env::{EnvError, EnvOptions, Spaces, Wrapping};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The worker's own modules that do without Gymnasium; each needs the ones before.
const SOURCES: [(&str, &str); 2] = [
    ("words", include_str!("../python/hotloop_worker/words.py")),
    ("serve", include_str!("../python/hotloop_worker/serve.py")),
];
/// Those that need it.
const SOURCES_WITH_GYMNASIUM: [(&str, &str); 4] = [
    ("shared", include_str!("../python/hotloop_worker/shared.py")),
    ("spaces", include_str!("../python/hotloop_worker/spaces.py")),
    (
        "results",
        include_str!("../python/hotloop_worker/results.py"),
    ),
    ("lanes", include_str!("../python/hotloop_worker/lanes.py")),
];

/// What a worker is to make, and with which interpreter.
#[derive(Clone, Debug)]
pub struct Recipe {
    id: String,
    interpreter: PathBuf,
    drawn: bool,
    wrapping: Wrapping,
    reset_deadline: Option<Duration>,
    init: Value,
}

impl Recipe {
    /// The environment `id` of Gymnasium with these options, which [`spec`](crate::spec) declares.
    ///
    /// # Errors
    /// If there is no interpreter, or an option is none.
    pub fn new(id: &str, options: &EnvOptions) -> Result<Self, EnvError> {
        let python = options.python();
        let read = |what: &str, text: &str| {
            serde_json::from_str::<Value>(text)
                .map_err(|error| EnvError::new(format!("{what} are not JSON: {error}")))
        };
        let image = options.text("image");
        if !["auto", "chw", "hwc", "none"].contains(&image) {
            return Err(EnvError::new(format!(
                "option \"image\" is {image:?}; it is \"auto\", \"chw\", \"hwc\" or \"none\""
            )));
        }
        Ok(Self {
            id: id.to_string(),
            interpreter: interpreter::find(python.interpreter.as_deref())?,
            drawn: options.is_drawn(),
            wrapping: options.wrapping().clone(),
            reset_deadline: options.reset_deadline(),
            init: json!({
                "sources": SOURCES,
                "sources_with_gymnasium": SOURCES_WITH_GYMNASIUM,
                "id": id,
                "imports": python.imports,
                "kwargs": read("keyword arguments", &python.kwargs)?,
                "wrappers": read("wrappers", &python.wrappers)?,
                "drawn": options.is_drawn(),
                "image": image,
                "action_mask": options.bool("action_mask"),
            }),
        })
    }

    /// The environment's id in Gymnasium.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The spaces of the environment. A worker makes one to ask it, and may take as long as
    /// [`EnvOptions::reset_deadline`] says.
    ///
    /// # Errors
    /// If it cannot be made, does not answer in time, or has a space that hotloop has no equal of.
    pub fn spaces(&self) -> Result<Spaces, EnvError> {
        probe(self)
    }

    pub(crate) fn interpreter(&self) -> &Path {
        &self.interpreter
    }

    /// Whether frames will be asked for, so that episodes rest in their last state for a turn.
    pub(crate) fn is_drawn(&self) -> bool {
        self.drawn
    }

    /// How long it may take to make one and reset it.
    pub(crate) fn reset_deadline(&self) -> Option<Duration> {
        self.reset_deadline
    }

    /// How rewards are shaped for the learner.
    pub(crate) fn wrapping(&self) -> &Wrapping {
        &self.wrapping
    }

    /// What a worker of so many lanes is told first. One that is asked for spaces alone looks at a first reset,
    /// too.
    pub(crate) fn init(&self, lanes: usize, probe: bool) -> Value {
        let mut init = self.init.clone();
        init["probe"] = probe.into();
        init["lanes"] = lanes.into();
        init
    }
}
