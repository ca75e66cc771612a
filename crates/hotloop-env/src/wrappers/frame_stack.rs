//! The last few observations as one, so that a policy without memory sees motion.

use crate::stack::{shown_order, stacked};
use crate::{
    ActionView, Env, EnvError, EnvRng, Layout, ObservationBuf, ObservationMut, ResetCtx, Space,
    StateReader, StateWriter, Transition,
};

/// Shows the last `k` observations of a space that is a single box, oldest first. After a reset the
/// first observation fills the whole stack. The space is that of [`Spaces::stacked`](crate::Spaces::stacked).
///
/// For environments that are used without the engine, or wrapped further. Every observation has all of
/// its frames; the engine stacks by itself, and stores each once:
/// [`EnvOptions::stacked`](crate::EnvOptions::stacked).
pub struct FrameStack<E> {
    env: E,
    space: Space,
    k: usize,
    /// One frame, as the environment writes it.
    frame: ObservationBuf,
    /// For each element of a frame as it is shown, which element as it is written; none if the same.
    order: Option<Vec<usize>>,
    /// The last `k` frames as they are shown, the oldest at place `oldest`.
    ring: Vec<u8>,
    oldest: usize,
    due: Due,
}

/// What the next observation does to the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    /// It fills it: the first of an episode.
    Fill,
    /// It takes the place of the oldest.
    Push,
    /// It takes the place of the newest: the same state is observed again.
    Replace,
}

impl<E: Env> FrameStack<E> {
    /// Wraps `env` to show its last `k` observations. An observation space that is not a single box,
    /// or a `k` of 0, is an error.
    pub fn new(env: E, k: usize) -> Result<Self, EnvError> {
        let inner = env.observation_space();
        let layout = Layout::new(&inner)?;
        let space = stacked(&inner, k)?;
        let order = match &inner {
            Space::Box(frame) => shown_order(frame),
            _ => None,
        };
        Ok(Self {
            space,
            k,
            frame: ObservationBuf::new(&layout),
            order,
            ring: vec![0; k * layout.record_bytes()],
            oldest: 0,
            due: Due::Fill,
            env,
        })
    }

    /// Puts the frame just observed into place `at` of the ring.
    fn store(&mut self, at: usize) {
        let frame = self.frame.record();
        let place = &mut self.ring[at * frame.len()..][..frame.len()];
        match &self.order {
            None => place.copy_from_slice(frame),
            Some(order) => {
                let size = frame.len() / order.len().max(1);
                for (to, &from) in place.chunks_exact_mut(size.max(1)).zip(order) {
                    to.copy_from_slice(&frame[from * size..][..size]);
                }
            }
        }
    }
}

impl<E: Env> Env for FrameStack<E> {
    fn observation_space(&self) -> Space {
        self.space.clone()
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.due = Due::Fill;
        self.env.reset(ctx)
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        if self.due == Due::Replace {
            self.due = Due::Push;
        }
        self.env.step(action, rng)
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.env.observe(&mut self.frame.as_mut())?;
        match self.due {
            Due::Fill => (0..self.k).for_each(|at| self.store(at)),
            Due::Push => {
                self.store(self.oldest);
                self.oldest = (self.oldest + 1) % self.k;
            }
            Due::Replace => self.store((self.oldest + self.k - 1) % self.k),
        }
        self.due = Due::Replace;
        let (newer, older) = self.ring.split_at(self.oldest * self.frame.record().len());
        let (first, last) = out.record().split_at_mut(older.len());
        first.copy_from_slice(older);
        last.copy_from_slice(newer);
        Ok(())
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        out.bytes(&self.ring);
        out.u64(self.oldest as u64);
        out.u8(self.due as u8);
        self.env.save(out)
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        let ring = state.bytes()?;
        let oldest = state.u64()? as usize;
        let due = [Due::Fill, Due::Push, Due::Replace]
            .get(state.u8()? as usize)
            .copied();
        match due {
            Some(due) if ring.len() == self.ring.len() && oldest < self.k => {
                self.ring.copy_from_slice(ring);
                (self.oldest, self.due) = (oldest, due);
            }
            _ => return Err("the saved state is not of this stack of frames".into()),
        }
        self.env.load(state)
    }

    delegate!(action_space, action_mask);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Tape, observe, reset, step};
    use super::*;
    use crate::{FeaturePlan, ImageLayout};

    fn stack(frames: &[f64]) -> FrameStack<Tape> {
        let tape = Tape::new(Space::boxed(0.0, 99.0, &[1]), Space::discrete(1));
        FrameStack::new(tape.frames(frames), 3).unwrap()
    }

    #[test]
    fn br_34_a_stack_does_not_leak_across_a_reset() {
        let mut env = stack(&[1.0, 2.0, 3.0, 4.0, 10.0, 11.0]);
        reset(&mut env);
        let kept = observe(&mut env);
        let mut seen = vec![kept.first::<f32>().to_vec()];
        for _ in 0..3 {
            step(&mut env);
            seen.push(observe(&mut env).first::<f32>().to_vec());
        }
        reset(&mut env);
        seen.push(observe(&mut env).first::<f32>().to_vec());
        step(&mut env);
        seen.push(observe(&mut env).first::<f32>().to_vec());
        let expected = [
            [1.0, 1.0, 1.0],
            [1.0, 1.0, 2.0],
            [1.0, 2.0, 3.0],
            [2.0, 3.0, 4.0],
            [10.0, 10.0, 10.0],
            [10.0, 10.0, 11.0],
        ];
        assert_eq!(seen, expected);
        assert_eq!(kept.first::<f32>(), expected[0]);
    }

    #[test]
    fn observing_twice_shows_the_same_state_twice() {
        let mut env = stack(&[1.0, 2.0, 2.0]);
        reset(&mut env);
        observe(&mut env);
        step(&mut env);
        observe(&mut env);
        assert_eq!(observe(&mut env).first::<f32>(), [1.0, 1.0, 2.0]);
    }

    #[test]
    fn a_stack_goes_on_from_where_it_was_saved() {
        let frames = [1.0, 2.0, 3.0, 4.0, 5.0];
        let mut env = stack(&frames);
        reset(&mut env);
        observe(&mut env);
        for _ in 0..3 {
            step(&mut env);
            observe(&mut env);
        }
        let mut state = StateWriter::new();
        assert!(env.save(&mut state));
        let bytes = state.into_bytes();
        let mut again = stack(&frames);
        let mut state = StateReader::new(&bytes);
        again.load(&mut state).unwrap();
        state.finish().unwrap();
        step(&mut again);
        assert_eq!(observe(&mut again).first::<f32>(), [3.0, 4.0, 5.0]);

        let tape = Tape::new(Space::boxed(0.0, 99.0, &[1]), Space::discrete(1));
        let mut other = FrameStack::new(tape, 2).unwrap();
        assert!(other.load(&mut StateReader::new(&bytes)).is_err());
    }

    #[test]
    fn a_stack_of_images_is_an_image_with_more_channels() {
        let mut tape = Tape::new(
            Space::image([1, 2, 3], ImageLayout::Hwc),
            Space::discrete(1),
        );
        tape.frames = vec![
            vec![0.0, 1.0, 2.0, 10.0, 11.0, 12.0],
            vec![100.0, 101.0, 102.0, 110.0, 111.0, 112.0],
        ];
        let mut env = FrameStack::new(tape, 2).unwrap();
        assert_eq!(
            env.observation_space(),
            Space::image([6, 1, 2], ImageLayout::Chw)
        );
        reset(&mut env);
        observe(&mut env);
        step(&mut env);
        let seen = observe(&mut env);
        let pixels = [0, 10, 1, 11, 2, 12, 100, 110, 101, 111, 102, 112u8];
        assert_eq!(seen.first::<u8>(), pixels);
        // Scaled once, and in this order.
        let plan = FeaturePlan::new(&Layout::new(&env.observation_space()).unwrap());
        let mut features = [0.0; 12];
        plan.encode(seen.record(), &mut features);
        assert_eq!(features, pixels.map(|p| p as f32 / 255.0));
    }

    #[test]
    fn bounds_are_repeated_and_other_spaces_refused() {
        let inner = Space::boxed(vec![0.0, 1.0], vec![2.0, 3.0], &[2]);
        let env = FrameStack::new(Tape::new(inner, Space::discrete(1)), 2).unwrap();
        let outer = Space::boxed(vec![0.0, 1.0, 0.0, 1.0], vec![2.0, 3.0, 2.0, 3.0], &[2, 2]);
        assert_eq!(env.observation_space(), outer);
        let refused = Tape::new(Space::discrete(2), Space::discrete(1));
        assert!(FrameStack::new(refused, 2).is_err());
    }
}
