//! Returns and lengths of the last episodes, for those who drive an environment without the engine.

use crate::{ActionView, Env, EnvError, EnvRng, ResetCtx, StateReader, StateWriter, Transition};
use std::collections::VecDeque;

/// A finished episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinishedEpisode {
    /// The sum of raw rewards.
    pub episode_return: f64,
    /// The number of steps.
    pub length: u32,
}

/// Keeps the raw return and the length of the last episodes of `env`. The engine keeps such
/// statistics of every lane by itself.
pub struct EpisodeStats<E> {
    env: E,
    keep: usize,
    finished: VecDeque<FinishedEpisode>,
    running: FinishedEpisode,
}

const NONE: FinishedEpisode = FinishedEpisode {
    episode_return: 0.0,
    length: 0,
};

impl<E: Env> EpisodeStats<E> {
    /// Wraps `env` and remembers its last `keep` episodes.
    pub fn new(env: E, keep: usize) -> Self {
        Self {
            env,
            keep,
            finished: VecDeque::with_capacity(keep),
            running: NONE,
        }
    }

    /// The episodes remembered, oldest first. An episode that was reset before its end is not one.
    pub fn finished(&self) -> impl ExactSizeIterator<Item = FinishedEpisode> + '_ {
        self.finished.iter().copied()
    }
}

impl<E: Env> Env for EpisodeStats<E> {
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        // A life lost resets for the learner only: the episode goes on if the environment lets it.
        self.env.reset(ctx)
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let transition = self.env.step(action, rng)?;
        self.running.episode_return += transition.raw_reward();
        self.running.length += 1;
        if transition.raw_end().is_over() {
            if self.finished.len() == self.keep {
                self.finished.pop_front();
            }
            self.finished.push_back(self.running);
            self.finished.truncate(self.keep);
            self.running = NONE;
        }
        Ok(transition)
    }

    /// The episode that is running is saved, those remembered are not.
    fn save(&self, out: &mut StateWriter) -> bool {
        out.f64(self.running.episode_return);
        out.u32(self.running.length);
        self.env.save(out)
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.running = FinishedEpisode {
            episode_return: state.f64()?,
            length: state.u32()?,
        };
        self.env.load(state)
    }

    delegate!(observation_space, action_space, observe, action_mask);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Tape, step};
    use super::super::{ClipReward, SignReward};
    use super::*;
    use crate::Space;

    #[test]
    fn br_19_returns_are_raw_whatever_shapes_them() {
        let rewards = [5.0, -3.0, 0.0];
        let mut outcomes = rewards.map(Transition::running).to_vec();
        outcomes.push(Transition::terminated(10.0));
        outcomes.push(Transition::truncated(1.0));
        outcomes.push(Transition::terminated(2.0));
        let tape = Tape::new(Space::unbounded(&[1]), Space::discrete(1)).outcomes(outcomes);
        let shaped = ClipReward::new(SignReward::new(tape), -0.5, 0.5);
        let mut env = EpisodeStats::new(shaped, 2);
        for _ in 0..4 {
            step(&mut env);
        }
        let first = FinishedEpisode {
            episode_return: 12.0,
            length: 4,
        };
        assert_eq!(env.finished().collect::<Vec<_>>(), [first]);
        for _ in 0..2 {
            step(&mut env);
        }
        let returns: Vec<f64> = env.finished().map(|e| e.episode_return).collect();
        assert_eq!(returns, [1.0, 2.0]);
    }
}
