//! Finding numbers that must not reach the policy: NaN and the infinities.

use crate::{DType, Element, EnvError, Layout};

impl Layout {
    /// Whether any leaf holds floats.
    pub(crate) fn has_floats(&self) -> bool {
        self.leaves().iter().any(|leaf| leaf.dtype.is_float())
    }

    /// An error that names the first element of `record` that is NaN or infinite, or would be as
    /// `float32`.
    pub fn check_finite(&self, record: &[u8]) -> Result<(), EnvError> {
        for leaf in self.leaves() {
            let bytes = &record[leaf.bytes()];
            let bad = match leaf.dtype {
                DType::F32 if !all_finite(bytemuck::cast_slice(bytes)) => not_finite::<f32>(bytes),
                DType::F64 => not_finite::<f64>(bytes),
                _ => None,
            };
            if let Some((i, value)) = bad {
                let at = if leaf.path.is_empty() {
                    String::new()
                } else {
                    format!(" key {:?}", leaf.path)
                };
                return Err(EnvError::new(format!(
                    "observation{at}: element {i} is {value}"
                )));
            }
        }
        Ok(())
    }
}

/// Whether no element is NaN or infinite. Written so that it is vectorised: an exponent of all ones
/// carries into the sign bit.
#[inline]
pub(crate) fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let carried = values
        .iter()
        .fold(0, |bits, x| bits | ((x.to_bits() & EXPONENT) + (1 << 23)));
    carried >> 31 == 0
}

fn not_finite<T: Element>(bytes: &[u8]) -> Option<(usize, f64)> {
    let values = bytemuck::cast_slice::<u8, T>(bytes).iter();
    values
        .map(|x| x.to_f64())
        .enumerate()
        .find(|(_, x)| !(*x as f32).is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoxSpace, ObservationBuf, Space};

    #[test]
    fn what_is_not_finite_is_found_in_any_leaf() {
        let double = |low: f64| {
            Space::Box(BoxSpace {
                shape: vec![2],
                low: low.into(),
                high: f64::INFINITY.into(),
                dtype: DType::F64,
                image: None,
            })
        };
        let space = Space::dict([
            ("mode", Space::discrete(3)),
            ("near", Space::unbounded(&[5])),
            ("far", double(0.0)),
        ]);
        let mut buf = ObservationBuf::new(&Layout::new(&space).unwrap());
        let mut write = |near: [f32; 5], far: [f64; 2]| {
            buf.as_mut().key("near").unwrap().write(&near).unwrap();
            buf.as_mut().key("far").unwrap().write(&far).unwrap();
            buf.check_finite().map_err(|error| error.to_string())
        };
        let far = [f32::MAX as f64, 0.0];
        assert_eq!(write([f32::MAX, -f32::MAX, 0.0, -0.0, 1e-45], far), Ok(()));
        for (bad, text) in [(f32::NAN, "NaN"), (f32::NEG_INFINITY, "-inf")] {
            for i in 0..5 {
                let mut near = [1.0; 5];
                near[i] = bad;
                let expected = format!("observation key \"near\": element {i} is {text}");
                assert_eq!(write(near, far), Err(expected));
            }
        }
        for bad in [f64::INFINITY, 1e39] {
            let error = write([0.0; 5], [0.0, bad]).unwrap_err();
            assert!(
                error.starts_with("observation key \"far\": element 1 is "),
                "{error}"
            );
        }
    }
}
