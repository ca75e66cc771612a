//! What one environment step returns: the reward and how the episode goes on.

use crate::EnvError;

/// How an episode goes on after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The episode goes on.
    #[default]
    Continue,
    /// The decision process ended: nothing is to be gained after this step.
    Terminated,
    /// The episode was cut (a time limit, say); the value of the final observation still counts.
    Truncated,
}

impl End {
    /// From Gymnasium's two flags. Where both are set termination wins.
    pub fn from_flags(terminated: bool, truncated: bool) -> Self {
        match (terminated, truncated) {
            (true, _) => End::Terminated,
            (false, true) => End::Truncated,
            (false, false) => End::Continue,
        }
    }

    /// Whether the episode is over.
    pub fn is_over(self) -> bool {
        self != End::Continue
    }
}

/// The outcome of one step.
///
/// It carries the reward twice: as the learner sees it, which wrappers may shape, and raw, as the
/// environment gave it, which they cannot reach. Episode statistics are made from the raw one, so
/// that a logged return is never a clipped or scaled one. The end of the episode is kept in the same
/// way: losing a life may end an episode for the learner while the game goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition {
    reward: f64,
    end: End,
    raw_reward: f64,
    raw_end: End,
}

impl Transition {
    /// A step with this reward and end.
    #[inline]
    pub fn new(reward: f64, end: End) -> Self {
        Self {
            reward,
            end,
            raw_reward: reward,
            raw_end: end,
        }
    }

    /// A step after which the episode goes on.
    #[inline]
    pub fn running(reward: f64) -> Self {
        Self::new(reward, End::Continue)
    }

    /// A step that ended the decision process.
    #[inline]
    pub fn terminated(reward: f64) -> Self {
        Self::new(reward, End::Terminated)
    }

    /// A step after which the episode is cut.
    #[inline]
    pub fn truncated(reward: f64) -> Self {
        Self::new(reward, End::Truncated)
    }

    /// An error unless the reward is a number that a learner can learn from: finite, as `f32` too.
    #[inline]
    pub fn check_reward(&self) -> Result<(), EnvError> {
        if (self.reward as f32).is_finite() && self.raw_reward.is_finite() {
            return Ok(());
        }
        Err(self.unusable_reward())
    }

    #[cold]
    fn unusable_reward(&self) -> EnvError {
        let finite = self.raw_reward.is_finite();
        let which = if finite { self.reward } else { self.raw_reward };
        EnvError::new(format!("reward {which} is not finite in float32"))
    }

    /// The reward the learner sees.
    #[inline]
    pub fn reward(&self) -> f64 {
        self.reward
    }

    /// How the episode goes on for the learner.
    #[inline]
    pub fn end(&self) -> End {
        self.end
    }

    /// The reward as the environment gave it.
    #[inline]
    pub fn raw_reward(&self) -> f64 {
        self.raw_reward
    }

    /// How the environment's own episode goes on.
    #[inline]
    pub fn raw_end(&self) -> End {
        self.raw_end
    }

    /// Shapes the reward that the learner sees; the raw reward stays.
    #[inline]
    pub fn map_reward(mut self, shape: impl FnOnce(f64) -> f64) -> Self {
        self.reward = shape(self.reward);
        self
    }

    /// Cuts an episode that would go on, for the learner and for the statistics alike. An episode
    /// that ended already stays as it ended.
    #[inline]
    pub fn cut(mut self) -> Self {
        if self.end == End::Continue {
            self.end = End::Truncated;
        }
        if self.raw_end == End::Continue {
            self.raw_end = End::Truncated;
        }
        self
    }

    /// The same for those who only look: a termination is told as a truncation, so that the state it led to
    /// stays for one turn.
    #[inline]
    pub fn held(mut self) -> Self {
        for end in [&mut self.end, &mut self.raw_end] {
            if *end == End::Terminated {
                *end = End::Truncated;
            }
        }
        self
    }

    /// Ends the episode for the learner only (the loss of a life): statistics go on.
    #[inline]
    pub fn terminate_for_learner(mut self) -> Self {
        self.end = End::Terminated;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_13_termination_wins_over_truncation() {
        assert_eq!(End::from_flags(true, true), End::Terminated);
        assert_eq!(Transition::terminated(1.0).cut().end(), End::Terminated);
    }

    #[test]
    fn br_19_shaping_leaves_the_raw_reward() {
        let shaped = Transition::running(5.0).map_reward(|r| r.clamp(-1.0, 1.0));
        assert_eq!((shaped.reward(), shaped.raw_reward()), (1.0, 5.0));
    }

    #[test]
    fn losing_a_life_ends_the_episode_for_the_learner_only() {
        let step = Transition::running(0.0).terminate_for_learner();
        assert_eq!(
            (step.end(), step.raw_end()),
            (End::Terminated, End::Continue)
        );
    }
}
