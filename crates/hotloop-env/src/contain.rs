//! What both kinds of block do to keep a lane's failure to itself: calls that cannot unwind, and
//! checks of what an environment returned.

use crate::{Cause, EnvError, Layout, Transition};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failure on its way to the row that it costs. One pointer, as it is returned by every step.
#[derive(Debug)]
pub(crate) struct Failure(Box<(Cause, String)>);

impl Failure {
    pub(crate) fn new(cause: Cause, message: String) -> Self {
        Self(Box::new((cause, message)))
    }

    pub(crate) fn not_finite(error: EnvError) -> Self {
        Self::new(Cause::NotFinite, error.to_string())
    }

    pub(crate) fn panic(payload: &(dyn Any + Send)) -> Self {
        Self::new(Cause::Panic, panic_message(payload))
    }

    pub(crate) fn into_parts(self) -> (Cause, String) {
        *self.0
    }

    /// The message, for those to whom the cause does not matter.
    pub(crate) fn into_error(self) -> EnvError {
        EnvError::new(self.0.1)
    }
}

impl From<EnvError> for Failure {
    fn from(error: EnvError) -> Self {
        Self::new(Cause::Error, error.to_string())
    }
}

/// Builds one environment.
pub(crate) type Build<E> = Box<dyn Fn() -> Result<E, EnvError> + Send>;

/// An error unless every masked choice is left something to choose.
pub(crate) fn check_mask(masks: &Layout, mask: &[u8]) -> Result<(), EnvError> {
    for leaf in masks.leaves() {
        let Some(mut start) = leaf.mask_offset else {
            continue;
        };
        for choices in leaf.kind.choices() {
            if mask[start..start + choices]
                .iter()
                .all(|&allowed| allowed == 0)
            {
                return Err(EnvError::new(format!(
                    "the action mask allows none of {choices} choices"
                )));
            }
            start += choices;
        }
    }
    Ok(())
}

/// A failure unless the reward is a number that a learner can learn from.
#[inline]
pub(crate) fn check_reward(transition: &Transition) -> Result<(), Failure> {
    transition.check_reward().map_err(Failure::not_finite)
}

/// Runs `f`; an error or a panic becomes a failure.
pub(crate) fn contain<T, E: Into<Failure>>(f: impl FnOnce() -> Result<T, E>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(payload) => Err(Failure::panic(payload.as_ref())),
    }
}

/// The message of a panic that was caught.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}
