//! The reward the learner sees, clipped to an interval.

use crate::{ActionView, Env, EnvError, EnvRng, Transition};

/// Clips the reward that the learner sees; statistics keep the raw one.
pub struct ClipReward<E> {
    env: E,
    low: f64,
    high: f64,
}

impl<E: Env> ClipReward<E> {
    /// Wraps `env`; rewards are clipped to `low..=high`. Panics unless `low ≤ high`.
    pub fn new(env: E, low: f64, high: f64) -> Self {
        assert!(low <= high, "rewards cannot be clipped to {low}..={high}");
        Self { env, low, high }
    }
}

impl<E: Env> Env for ClipReward<E> {
    #[inline]
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let (low, high) = (self.low, self.high);
        Ok(self
            .env
            .step(action, rng)?
            .map_reward(|r| r.clamp(low, high)))
    }

    delegate!(
        observation_space,
        action_space,
        reset,
        observe,
        action_mask,
        save,
        load
    );
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Tape, step};
    use super::*;
    use crate::Space;

    #[test]
    fn br_19_the_learner_sees_the_clipped_reward_and_statistics_the_raw_one() {
        let rewards = [5.0, -3.0, 0.0, 0.25];
        let tape = Tape::new(Space::unbounded(&[1]), Space::discrete(1));
        let mut env = ClipReward::new(
            tape.outcomes(rewards.map(Transition::running).to_vec()),
            -1.0,
            1.0,
        );
        let got = rewards.map(|_| step(&mut env));
        assert_eq!(got.map(|t| t.reward()), [1.0, -1.0, 0.0, 0.25]);
        assert_eq!(got.map(|t| t.raw_reward()), rewards);
    }
}
