//! Writing an observation in place.

use crate::layout::Shape;
use crate::{DType, Element, EnvError, Layout, Leaf, LeafId, LeafKind};

/// The place of one lane's observation in the slab.
///
/// A space without nesting is written by [`write`](Self::write) or, without a copy, through
/// [`slice`](Self::slice). A Dict or a Tuple is written leaf by leaf: [`key`](Self::key) looks a leaf
/// up by its path, [`leaf`](Self::leaf) takes a handle that was looked up once.
pub struct ObservationMut<'a> {
    record: &'a mut [u8],
    layout: &'a Layout,
}

impl<'a> ObservationMut<'a> {
    /// The place of one observation. `record` is [`Layout::record_bytes`] long and aligned for its elements.
    #[inline]
    pub fn new(record: &'a mut [u8], layout: &'a Layout) -> Self {
        debug_assert_eq!(record.len(), layout.record_bytes());
        Self { record, layout }
    }

    /// The layout of the observation space.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// Writes the whole observation of a space that is a single box. A value of another type is cast;
    /// one that the space's type cannot hold, or a wrong number of values, is an error.
    #[inline(always)]
    pub fn write<T: Element>(&mut self, values: &[T]) -> Result<(), EnvError> {
        if self.layout.shape() == Shape::Box(T::DTYPE, values.len()) {
            self.record.copy_from_slice(bytemuck::cast_slice(values));
            return Ok(());
        }
        self.only()?.write(values)
    }

    /// The elements of a space that is a single box of type `T`, to be filled in place.
    #[inline]
    pub fn slice<T: Element>(&mut self) -> Result<&mut [T], EnvError> {
        match self.layout.shape() {
            Shape::Box(dtype, _) if dtype == T::DTYPE => Ok(bytemuck::cast_slice_mut(self.record)),
            _ => self.only()?.into_slice(),
        }
    }

    /// Writes the value of a space that is a single `Discrete`.
    pub fn write_discrete(&mut self, value: i64) -> Result<(), EnvError> {
        self.only()?.write_discrete(value)
    }

    /// A leaf by its handle.
    #[inline]
    pub fn leaf(&mut self, id: LeafId) -> LeafMut<'_> {
        let leaf = &self.layout.leaves()[id.0];
        LeafMut {
            bytes: &mut self.record[leaf.bytes()],
            leaf,
        }
    }

    /// A leaf by its path: keys and positions joined by `/`.
    pub fn key(&mut self, path: &str) -> Result<LeafMut<'_>, EnvError> {
        match self.layout.find(path) {
            Some(id) => Ok(self.leaf(id)),
            None => Err(EnvError::new(format!(
                "the observation space has no key {path:?}; it has {}",
                self.layout.describe()
            ))),
        }
    }

    /// The whole record, for adapters that copy it.
    pub fn record(&mut self) -> &mut [u8] {
        self.record
    }

    #[inline]
    fn only(&mut self) -> Result<LeafMut<'_>, EnvError> {
        match self.layout.leaves() {
            [leaf] => Ok(LeafMut {
                bytes: &mut self.record[leaf.bytes()],
                leaf,
            }),
            _ => Err(self.nested()),
        }
    }

    #[cold]
    fn nested(&self) -> EnvError {
        EnvError::new(format!(
            "the observation space has {} leaves ({}): write each through key() or leaf()",
            self.layout.leaves().len(),
            self.layout.describe()
        ))
    }
}

/// The place of one leaf of an observation.
pub struct LeafMut<'a> {
    bytes: &'a mut [u8],
    leaf: &'a Leaf,
}

impl<'a> LeafMut<'a> {
    /// Writes all elements, cast to the space's type; see [`ObservationMut::write`].
    #[inline(always)]
    pub fn write<T: Element>(self, values: &[T]) -> Result<(), EnvError> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        if T::DTYPE == self.leaf.dtype && bytes.len() == self.bytes.len() && self.is_box() {
            self.bytes.copy_from_slice(bytes);
            return Ok(());
        }
        self.write_cast(values)
    }

    fn is_box(&self) -> bool {
        matches!(self.leaf.kind, LeafKind::Box(_))
    }

    #[cold]
    fn write_cast<T: Element>(self, values: &[T]) -> Result<(), EnvError> {
        if values.len() != self.leaf.elements {
            return Err(EnvError::new(format!(
                "observation{}: got {} values, expected {} ({})",
                self.at(),
                values.len(),
                self.leaf.elements,
                self.expected()
            )));
        }
        match self.leaf.kind {
            LeafKind::Box(_) => match self.leaf.dtype {
                DType::U8 => self.cast::<u8, T>(values),
                DType::I8 => self.cast::<i8, T>(values),
                DType::I16 => self.cast::<i16, T>(values),
                DType::I32 => self.cast::<i32, T>(values),
                DType::I64 => self.cast::<i64, T>(values),
                DType::F32 => self.cast::<f32, T>(values),
                DType::F64 => self.cast::<f64, T>(values),
            },
            _ => self.write_choices(values),
        }
    }

    fn cast<To: Element, From: Element>(self, values: &[From]) -> Result<(), EnvError> {
        let place = self.at();
        let target: &mut [To] = bytemuck::cast_slice_mut(self.bytes);
        for (i, (to, &from)) in target.iter_mut().zip(values).enumerate() {
            *to = To::from_f64(from.to_f64()).ok_or_else(|| {
                EnvError::new(format!(
                    "observation{place}: element {i} is {from:?} ({}), which {} cannot hold",
                    From::DTYPE.name(),
                    To::DTYPE.name()
                ))
            })?;
        }
        Ok(())
    }

    fn write_choices<T: Element>(self, values: &[T]) -> Result<(), EnvError> {
        let place = self.at();
        let choices = self.leaf.kind.choices();
        let target: &mut [i32] = bytemuck::cast_slice_mut(self.bytes);
        for (i, (to, &value)) in target.iter_mut().zip(values).enumerate() {
            let start = self.leaf.kind.start(i);
            let index = i64::from_f64(value.to_f64()).and_then(|v| v.checked_sub(start));
            match index {
                Some(index) if (0..choices[i] as i64).contains(&index) => *to = index as i32,
                _ => {
                    return Err(EnvError::new(format!(
                        "observation{place}: value {value:?} of dimension {i} is outside {start}..={}",
                        start + choices[i] as i64 - 1
                    )));
                }
            }
        }
        Ok(())
    }

    /// Writes the value of a `Discrete` leaf, `start` included.
    pub fn write_discrete(self, value: i64) -> Result<(), EnvError> {
        self.write(&[value])
    }

    /// The elements, to be filled in place; an error if the leaf is not a box of type `T`.
    #[inline]
    pub fn into_slice<T: Element>(self) -> Result<&'a mut [T], EnvError> {
        if T::DTYPE != self.leaf.dtype || !self.is_box() {
            return Err(EnvError::new(format!(
                "observation{}: asked for a slice of {}, but the space is {}",
                self.at(),
                T::DTYPE.name(),
                self.expected()
            )));
        }
        Ok(bytemuck::cast_slice_mut(self.bytes))
    }

    fn at(&self) -> String {
        if self.leaf.path.is_empty() {
            String::new()
        } else {
            format!(" key {:?}", self.leaf.path)
        }
    }

    fn expected(&self) -> String {
        match &self.leaf.kind {
            LeafKind::Box(b) => format!("shape {:?} of {}", b.shape, b.dtype.name()),
            LeafKind::Discrete(d) => format!("Discrete({})", d.n),
            LeafKind::MultiDiscrete(m) => format!("MultiDiscrete({:?})", m.sizes),
            LeafKind::MultiBinary(m) => format!("MultiBinary({})", m.n),
        }
    }
}

/// An observation that owns its memory, for tests and for wrappers that look before they write.
#[derive(Clone, Debug)]
pub struct ObservationBuf {
    /// Eight-byte words, so that elements of any type are aligned.
    words: Vec<u64>,
    layout: Layout,
}

impl ObservationBuf {
    /// A zeroed observation of this layout.
    pub fn new(layout: &Layout) -> Self {
        Self {
            words: vec![0; layout.record_bytes().div_ceil(8)],
            layout: layout.clone(),
        }
    }

    /// To write into.
    pub fn as_mut(&mut self) -> ObservationMut<'_> {
        let bytes = &mut bytemuck::cast_slice_mut(&mut self.words)[..self.layout.record_bytes()];
        ObservationMut::new(bytes, &self.layout)
    }

    /// The record's bytes.
    pub fn record(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.layout.record_bytes()]
    }

    /// An error that names the first element that is NaN or infinite.
    pub fn check_finite(&self) -> Result<(), EnvError> {
        self.layout.check_finite(self.record())
    }

    /// The elements of leaf `id`, which is stored as `T` (choices are stored as `i32` from 0).
    /// Panics on another type.
    pub fn values<T: Element>(&self, id: LeafId) -> &[T] {
        let leaf = &self.layout.leaves()[id.0];
        assert_eq!(
            leaf.dtype,
            T::DTYPE,
            "the stored type of leaf {:?}",
            leaf.path
        );
        bytemuck::cast_slice(&self.record()[leaf.bytes()])
    }

    /// The elements of the first leaf; see [`values`](Self::values).
    pub fn first<T: Element>(&self) -> &[T] {
        self.values(LeafId(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoxSpace, Discrete, ImageLayout, Space};

    fn buf(space: Space) -> ObservationBuf {
        ObservationBuf::new(&Layout::new(&space).unwrap())
    }

    #[test]
    fn br_41_other_types_are_cast_and_never_wrapped() {
        let mut out = buf(Space::unbounded(&[2]));
        out.as_mut().write(&[0.5f64, 2.0]).unwrap();
        assert_eq!(out.first::<f32>(), [0.5, 2.0]);

        let mut image = buf(Space::image([1, 1, 2], ImageLayout::Chw));
        image.as_mut().write(&[255i16, 7]).unwrap();
        assert_eq!(image.first::<u8>(), [255, 7]);
        let error = image.as_mut().write(&[300i16, 7]).unwrap_err().to_string();
        assert!(error.contains("300") && error.contains("uint8"), "{error}");
    }

    #[test]
    fn br_41_a_wrong_shape_is_an_error_with_both_sides() {
        let error = buf(Space::unbounded(&[2, 3]))
            .as_mut()
            .write(&[0f32; 5])
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "observation: got 5 values, expected 6 (shape [2, 3] of float32)"
        );
    }

    #[test]
    fn br_38_discrete_observations_honour_start() {
        let space = Space::Discrete(Discrete {
            n: 19,
            start: 2,
            masked: false,
        });
        let mut out = buf(Space::dict([("k", space)]));
        for (value, index) in [(2, 0), (20, 18)] {
            out.as_mut()
                .key("k")
                .unwrap()
                .write_discrete(value)
                .unwrap();
            assert_eq!(out.first::<i32>(), [index]);
        }
        let error = out
            .as_mut()
            .key("k")
            .unwrap()
            .write_discrete(21)
            .unwrap_err()
            .to_string();
        assert!(error.contains("21") && error.contains("2..=20"), "{error}");
    }

    #[test]
    fn br_43_an_empty_key_takes_no_room() {
        let mut out = buf(Space::dict([
            ("none", Space::unbounded(&[0])),
            ("x", Space::unbounded(&[1])),
        ]));
        out.as_mut().key("none").unwrap().write::<f32>(&[]).unwrap();
        out.as_mut().key("x").unwrap().write(&[3.0f32]).unwrap();
        assert_eq!(out.values::<f32>(LeafId(1)), [3.0]);
        assert!(out.as_mut().key("y").is_err());
    }

    #[test]
    fn slices_are_checked() {
        let mut out = buf(Space::Box(BoxSpace {
            shape: vec![2],
            low: 0.0.into(),
            high: 1.0.into(),
            dtype: DType::F64,
            image: None,
        }));
        out.as_mut().slice::<f64>().unwrap()[1] = 0.5;
        assert_eq!(out.first::<f64>(), [0.0, 0.5]);
        assert!(out.as_mut().slice::<f32>().is_err());
    }
}
