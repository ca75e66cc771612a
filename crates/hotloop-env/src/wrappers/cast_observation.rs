//! Observations in another element type.

use crate::{
    Bound, BoxSpace, DType, Element, Env, EnvError, Layout, LeafId, LeafKind, ObservationBuf,
    ObservationMut, Space,
};

/// Casts every box of the observation to one element type. Casting to an integer type, a value that
/// the type cannot hold exactly is an error (never a wrapped or a rounded one); bounds are narrowed to
/// what it can hold. Numbers are not
/// scaled: an 8-bit image cast to floats still counts to 255, and a network is then fed such numbers.
pub struct CastObservation<E> {
    env: E,
    dtype: DType,
    layout: Layout,
    inner: ObservationBuf,
}

impl<E: Env> CastObservation<E> {
    /// Wraps `env`; its boxes become `dtype`. An observation space that cannot be is an error.
    pub fn new(env: E, dtype: DType) -> Result<Self, EnvError> {
        let layout = Layout::new(&env.observation_space())?;
        Ok(Self {
            env,
            dtype,
            inner: ObservationBuf::new(&layout),
            layout,
        })
    }

    fn copy<T: Element>(&self, id: LeafId, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.leaf(id).write(self.inner.values::<T>(id))
    }
}

impl<E: Env> Env for CastObservation<E> {
    fn observation_space(&self) -> Space {
        let (least, most) = self.dtype.range();
        let fit = |bound: f64| match bound.is_finite() {
            true => bound.clamp(least, most),
            false => bound,
        };
        let side = |bound: &Bound| match bound {
            Bound::Uniform(bound) => Bound::Uniform(fit(*bound)),
            Bound::Each(each) => Bound::Each(each.iter().map(|&bound| fit(bound)).collect()),
        };
        self.env
            .observation_space()
            .map_boxes(&mut |space| BoxSpace {
                low: side(&space.low),
                high: side(&space.high),
                dtype: self.dtype,
                ..space.clone()
            })
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.env.observe(&mut self.inner.as_mut())?;
        for (at, leaf) in self.layout.leaves().iter().enumerate() {
            let id = LeafId(at);
            match (&leaf.kind, leaf.dtype) {
                (LeafKind::Box(_), DType::U8) => self.copy::<u8>(id, out)?,
                (LeafKind::Box(_), DType::I8) => self.copy::<i8>(id, out)?,
                (LeafKind::Box(_), DType::I16) => self.copy::<i16>(id, out)?,
                (LeafKind::Box(_), DType::I32) => self.copy::<i32>(id, out)?,
                (LeafKind::Box(_), DType::I64) => self.copy::<i64>(id, out)?,
                (LeafKind::Box(_), DType::F32) => self.copy::<f32>(id, out)?,
                (LeafKind::Box(_), DType::F64) => self.copy::<f64>(id, out)?,
                // Choices are stored as indices on both sides.
                _ => {
                    let to = out.layout().leaves()[at].bytes();
                    out.record()[to].copy_from_slice(&self.inner.record()[leaf.bytes()]);
                }
            }
        }
        Ok(())
    }

    delegate!(action_space, reset, step, action_mask, save, load);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Tape, observe};
    use super::*;
    use crate::Discrete;

    fn tape(frame: &[f64]) -> Tape {
        let mode = Space::Discrete(Discrete {
            n: 9,
            start: 5,
            masked: false,
        });
        let space = Space::Tuple(vec![Space::boxed(0.0, 300.0, &[2]), mode]);
        let mut tape = Tape::new(space, Space::discrete(1));
        tape.frames = vec![frame.to_vec()];
        tape
    }

    #[test]
    fn boxes_are_cast_and_choices_kept() {
        let mut env = CastObservation::new(tape(&[7.0, 255.0, 6.0]), DType::U8).unwrap();
        let seen = observe(&mut env);
        assert_eq!(seen.values::<u8>(LeafId(0)), [7, 255]);
        assert_eq!(seen.values::<i32>(LeafId(1)), [1]);

        let mut env = CastObservation::new(tape(&[7.5, 255.0, 6.0]), DType::F64).unwrap();
        assert_eq!(observe(&mut env).first::<f64>(), [7.5, 255.0]);
    }

    #[test]
    fn br_41_what_does_not_fit_is_an_error() {
        let mut env = CastObservation::new(tape(&[7.0, 300.0, 6.0]), DType::U8).unwrap();
        let mut out = ObservationBuf::new(&Layout::new(&env.observation_space()).unwrap());
        let error = env.observe(&mut out.as_mut()).unwrap_err().to_string();
        assert!(error.contains("300") && error.contains("uint8"), "{error}");
    }
}
