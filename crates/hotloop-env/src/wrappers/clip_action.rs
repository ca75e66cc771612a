//! Box actions clipped to the bounds of the environment.

use super::map_action::InnerAction;
use crate::{ActionView, Bound, BoxSpace, Env, EnvError, EnvRng, Space, Transition};

/// Takes any number as a box action and clips it to the environment's bounds.
///
/// The engine clips box actions by itself; this is for driving an environment without it.
pub struct ClipAction<E> {
    env: E,
    action: InnerAction,
}

impl<E: Env> ClipAction<E> {
    /// Wraps `env`. An action space that cannot be is an error.
    pub fn new(env: E) -> Result<Self, EnvError> {
        let action = InnerAction::new(&env.action_space())?;
        Ok(Self { env, action })
    }
}

impl<E: Env> Env for ClipAction<E> {
    fn action_space(&self) -> Space {
        self.env.action_space().map_boxes(&mut |space| BoxSpace {
            low: Bound::Uniform(f64::NEG_INFINITY),
            high: Bound::Uniform(f64::INFINITY),
            ..space.clone()
        })
    }

    #[inline]
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let clip = |space: &BoxSpace, i: usize, x: f32| {
            x.clamp(space.low.at(i) as f32, space.high.at(i) as f32)
        };
        self.env.step(self.action.map(action, clip), rng)
    }

    delegate!(observation_space, reset, observe, action_mask, save, load);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Tape, act};
    use super::*;

    #[test]
    fn each_dimension_is_clipped_to_its_own_bounds() {
        let space = Space::boxed(vec![-1.0, 0.0], vec![1.0, f64::INFINITY], &[2]);
        let mut env = ClipAction::new(Tape::new(Space::unbounded(&[1]), space)).unwrap();
        act(&mut env, &[3.0, -1.0]);
        act(&mut env, &[-0.5, 1e9]);
        assert_eq!(env.env.actions, [[1.0, 0.0], [-0.5, 1e9]]);
        assert_eq!(env.action_space(), Space::unbounded(&[2]));
    }
}
