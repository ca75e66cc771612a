//! Wrappers by name, as a configuration asks for them.

use crate::wrappers::sign;
use crate::wrappers::{ClipReward, RescaleAction, SignReward};
use crate::{Env, EnvError, Transition};

/// Which wrappers go around an environment, in this order from the inside: the time limit of its
/// [`EnvSpec`](crate::EnvSpec), then those here as they are listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wrapping {
    /// [`RescaleAction`].
    pub rescale_action: bool,
    /// [`ClipReward`] to this interval.
    pub clip_reward: Option<[f64; 2]>,
    /// [`SignReward`].
    pub sign_reward: bool,
}

impl Wrapping {
    /// Whether nothing is wrapped.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The reward of this transition as the wrappers let the learner see it, for a block that steps environments
    /// around which they cannot go.
    #[must_use]
    pub fn shape(&self, mut transition: Transition) -> Transition {
        if let Some([low, high]) = self.clip_reward {
            transition = transition.map_reward(|reward| reward.clamp(low, high));
        }
        if self.sign_reward {
            transition = transition.map_reward(sign);
        }
        transition
    }

    /// Whether it does nothing but [shape](Self::shape) rewards, by an interval that can be.
    pub(crate) fn only_shapes(&self) -> bool {
        let ordered = self.clip_reward.is_none_or(|[low, high]| low <= high);
        ordered && !self.rescale_action
    }

    /// Wraps `env`. A wrapper that does not fit its spaces is an error.
    pub fn apply(&self, env: impl Env + 'static) -> Result<Box<dyn Env>, EnvError> {
        let mut env: Box<dyn Env> = Box::new(env);
        if self.rescale_action {
            env = Box::new(RescaleAction::new(env)?);
        }
        if let Some([low, high]) = self.clip_reward {
            if low.is_nan() || high.is_nan() || low > high {
                return Err(EnvError::new(format!(
                    "rewards cannot be clipped to [{low}, {high}]: low ≤ high is needed"
                )));
            }
            env = Box::new(ClipReward::new(env, low, high));
        }
        if self.sign_reward {
            env = Box::new(SignReward::new(env));
        }
        Ok(env)
    }
}
