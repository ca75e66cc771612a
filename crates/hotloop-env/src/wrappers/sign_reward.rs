//! The sign of the reward for the learner.

use crate::{ActionView, Env, EnvError, EnvRng, Transition};

/// Shows the learner 1, 0 or −1, the sign of the reward; statistics keep the raw one.
pub struct SignReward<E> {
    env: E,
}

/// 1, 0 or −1. The signum of a float zero is one.
pub(crate) fn sign(reward: f64) -> f64 {
    if reward == 0.0 { 0.0 } else { reward.signum() }
}

impl<E: Env> SignReward<E> {
    /// Wraps `env`.
    pub fn new(env: E) -> Self {
        Self { env }
    }
}

impl<E: Env> Env for SignReward<E> {
    #[inline]
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        Ok(self.env.step(action, rng)?.map_reward(sign))
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
    fn br_19_the_learner_sees_the_sign_and_statistics_the_raw_reward() {
        let rewards = [5.0, -3.0, 0.0, 10.0];
        let tape = Tape::new(Space::unbounded(&[1]), Space::discrete(1));
        let mut env = SignReward::new(tape.outcomes(rewards.map(Transition::running).to_vec()));
        let got = rewards.map(|_| step(&mut env));
        assert_eq!(got.map(|t| t.reward()), [1.0, -1.0, 0.0, 1.0]);
        assert_eq!(got.iter().map(|t| t.raw_reward()).sum::<f64>(), 12.0);
    }
}
