//! Box actions from [-1, 1] to the bounds of the environment.

use super::map_action::InnerAction;
use crate::{ActionView, Bound, BoxSpace, Env, EnvError, EnvRng, Space, Transition};

/// Lets the policy act in [-1, 1] where the environment's box actions have two finite bounds: −1
/// becomes the lower bound, 1 the upper one, and values beyond are clipped to them.
///
/// Each dimension has its own rule: one that is unbounded on either side is handed on as it is, with
/// its bounds; one whose bounds are equal always gets that value. Choices pass through.
pub struct RescaleAction<E> {
    env: E,
    action: InnerAction,
}

impl<E: Env> RescaleAction<E> {
    /// Wraps `env`. An action space that cannot be is an error.
    pub fn new(env: E) -> Result<Self, EnvError> {
        let action = InnerAction::new(&env.action_space())?;
        Ok(Self { env, action })
    }
}

fn is_bounded(space: &BoxSpace, i: usize) -> bool {
    space.low.at(i).is_finite() && space.high.at(i).is_finite()
}

fn rescale(space: &BoxSpace, i: usize, x: f32) -> f32 {
    if !is_bounded(space, i) {
        return x;
    }
    crate::rescale(space.low.at(i), space.high.at(i), x)
}

impl<E: Env> Env for RescaleAction<E> {
    fn action_space(&self) -> Space {
        self.env.action_space().map_boxes(&mut |space| {
            let side = |unit: f64, bound: &Bound| {
                let each = (0..space.elements()).map(|i| match is_bounded(space, i) {
                    true => unit,
                    false => bound.at(i),
                });
                Bound::Each(each.collect())
            };
            BoxSpace {
                low: side(-1.0, &space.low),
                high: side(1.0, &space.high),
                ..space.clone()
            }
        })
    }

    #[inline]
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        self.env.step(self.action.map(action, rescale), rng)
    }

    delegate!(observation_space, reset, observe, action_mask, save, load);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Tape, act};
    use super::*;

    fn rescaled(low: Vec<f64>, high: Vec<f64>, actions: &[&[f32]]) -> Vec<Vec<f32>> {
        let space = Space::boxed(low.clone(), high, &[low.len()]);
        let mut env = RescaleAction::new(Tape::new(Space::unbounded(&[1]), space)).unwrap();
        actions.iter().for_each(|action| act(&mut env, action));
        env.env.actions
    }

    #[test]
    fn br_40_both_bounds_finite() {
        let got = rescaled(
            vec![0.0],
            vec![5.0],
            &[&[-1.0], &[-0.5], &[0.0], &[1.0], &[7.0]],
        );
        assert_eq!(got.concat(), [0.0, 1.25, 2.5, 5.0, 5.0]);
    }

    #[test]
    fn br_40_every_dimension_by_its_own_bounds() {
        let inf = f64::INFINITY;
        // Bounded, unbounded, half-bounded, constant, and so wide that the width overflows.
        let got = rescaled(
            vec![-2.0, -inf, 0.0, 3.0, -3e38],
            vec![4.0, inf, inf, 3.0, 3e38],
            &[&[0.0, 7.5, 2.0, 0.3, 1.0], &[1.0, -7.5, 0.5, -1.0, 0.0]],
        );
        assert_eq!(got[0], [1.0, 7.5, 2.0, 3.0, 3e38]);
        assert_eq!(got[1], [4.0, -7.5, 0.5, 3.0, 0.0]);
    }

    #[test]
    fn br_40_the_policy_sees_the_bounds_it_may_use() {
        let inf = f64::INFINITY;
        let inner = Space::boxed(vec![0.0, 0.0], vec![5.0, inf], &[2]);
        let env = RescaleAction::new(Tape::new(Space::unbounded(&[1]), inner)).unwrap();
        let outer = Space::boxed(vec![-1.0, 0.0], vec![1.0, inf], &[2]);
        assert_eq!(env.action_space(), outer);
    }
}
