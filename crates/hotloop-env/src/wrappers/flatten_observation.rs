//! Any observation as one vector of floats.

use crate::{Env, EnvError, FeaturePlan, Layout, ObservationBuf, ObservationMut, Space};

/// Turns any observation space, nested or not, into one `float32` box: the features of a
/// [`FeaturePlan`], in its order and by its rules (8-bit images divided by 255, channels first;
/// choices one-hot). A network sees the same numbers with this wrapper as without.
pub struct FlattenObservation<E> {
    env: E,
    plan: FeaturePlan,
    inner: ObservationBuf,
    space: Space,
}

impl<E: Env> FlattenObservation<E> {
    /// Wraps `env`. An observation space that cannot be is an error.
    pub fn new(env: E) -> Result<Self, EnvError> {
        let layout = Layout::new(&env.observation_space())?;
        let plan = FeaturePlan::new(&layout);
        let (low, high) = plan.bounds(&layout);
        Ok(Self {
            env,
            inner: ObservationBuf::new(&layout),
            space: Space::boxed(low, high, &[plan.features()]),
            plan,
        })
    }
}

impl<E: Env> Env for FlattenObservation<E> {
    fn observation_space(&self) -> Space {
        self.space.clone()
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.env.observe(&mut self.inner.as_mut())?;
        self.plan.encode(self.inner.record(), out.slice()?);
        Ok(())
    }

    delegate!(action_space, reset, step, action_mask, save, load);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Tape, observe};
    use super::*;
    use crate::{Discrete, ImageLayout};

    #[test]
    fn leaves_follow_each_other_as_features_with_their_bounds() {
        let mode = Space::Discrete(Discrete {
            n: 3,
            start: 1,
            masked: false,
        });
        let space = Space::dict([
            ("speed", Space::boxed(-2.0, 3.0, &[1])),
            ("camera", Space::image([1, 2, 2], ImageLayout::Hwc)),
            ("mode", mode),
        ]);
        let mut tape = Tape::new(space, Space::discrete(1));
        tape.frames = vec![vec![1.5, 0.0, 51.0, 255.0, 102.0, 2.0]];
        let mut env = FlattenObservation::new(tape).unwrap();
        let expected = [1.5, 0.0, 1.0, 0.2, 0.4, 0.0, 1.0, 0.0];
        assert_eq!(observe(&mut env).first::<f32>(), expected);
        let mut low = vec![0.0; 8];
        low[0] = -2.0;
        let mut high = vec![1.0; 8];
        high[0] = 3.0;
        assert_eq!(env.observation_space(), Space::boxed(low, high, &[8]));
    }

    #[test]
    fn br_41_a_flattened_image_is_not_scaled_again() {
        let image = Space::image([1, 1, 2], ImageLayout::Chw);
        let mut tape = Tape::new(image, Space::discrete(1));
        tape.frames = vec![vec![255.0, 51.0]];
        let mut env = FlattenObservation::new(tape).unwrap();
        let layout = Layout::new(&env.observation_space()).unwrap();
        assert!(FeaturePlan::new(&layout).is_plain());
        assert_eq!(observe(&mut env).first::<f32>(), [1.0, 0.2]);
    }
}
