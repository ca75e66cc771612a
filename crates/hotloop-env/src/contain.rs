//! What both kinds of block do to keep a lane's failure to itself: calls that cannot unwind, and
//! checks of what an environment returned.

use crate::{EnvError, Layout, Transition};
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// An error unless the reward is a number that a learner can learn from: finite, as `f32` too.
#[inline]
pub(crate) fn check_reward(transition: &Transition) -> Result<(), EnvError> {
    let (shaped, raw) = (transition.reward(), transition.raw_reward());
    if (shaped as f32).is_finite() && raw.is_finite() {
        return Ok(());
    }
    Err(unusable_reward(shaped, raw))
}

#[cold]
fn unusable_reward(shaped: f64, raw: f64) -> EnvError {
    let which = if raw.is_finite() { shaped } else { raw };
    EnvError::new(format!("reward {which} is not finite in float32"))
}

/// Runs `f`; an error or a panic becomes (whether it panicked, message).
pub(crate) fn contain<T>(f: impl FnOnce() -> Result<T, EnvError>) -> Result<T, (bool, String)> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err((false, error.to_string())),
        Err(payload) => Err((true, panic_message(payload.as_ref()))),
    }
}

pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}
