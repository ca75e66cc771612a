//! The reward the learner sees, changed by any function.

use crate::{ActionView, Env, EnvError, EnvRng, Transition};

/// Changes the reward that the learner sees; statistics keep the raw one.
pub struct MapReward<E, F> {
    env: E,
    shape: F,
}

impl<E: Env, F: FnMut(f64) -> f64 + Send> MapReward<E, F> {
    /// Wraps `env`; the learner sees `shape(reward)`.
    pub fn new(env: E, shape: F) -> Self {
        Self { env, shape }
    }
}

impl<E: Env, F: FnMut(f64) -> f64 + Send> Env for MapReward<E, F> {
    #[inline]
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        Ok(self.env.step(action, rng)?.map_reward(&mut self.shape))
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
    fn br_19_the_raw_reward_stays() {
        let tape = Tape::new(Space::unbounded(&[1]), Space::discrete(1));
        let tape = tape.outcomes(vec![Transition::running(3.0)]);
        let got = step(&mut MapReward::new(tape, |r| r / 4.0));
        assert_eq!((got.reward(), got.raw_reward()), (0.75, 3.0));
    }
}
