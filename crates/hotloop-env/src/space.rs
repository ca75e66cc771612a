//! Spaces: what observations and actions look like, as Gymnasium names them.

use crate::DType;
use std::fmt;

/// A space that cannot be: which part of it, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("space {path}: {reason}")]
pub struct SpaceError {
    /// The part of the space (`camera`, `0/velocity`; the whole space is `.`).
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// One side of a box: the same bound for every element, or one each (row-major).
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// The same for every element.
    Uniform(f64),
    /// One for each element.
    Each(Vec<f64>),
}

impl Bound {
    /// The bound of element `i`.
    #[inline]
    pub fn at(&self, i: usize) -> f64 {
        match self {
            Bound::Uniform(bound) => *bound,
            Bound::Each(bounds) => bounds[i],
        }
    }
}

impl From<f64> for Bound {
    fn from(bound: f64) -> Self {
        Bound::Uniform(bound)
    }
}

impl From<Vec<f64>> for Bound {
    fn from(bounds: Vec<f64>) -> Self {
        Bound::Each(bounds)
    }
}

/// From −1 … 1 to two finite bounds: a weighted mean, exact at both and of no width that could overflow.
/// Beyond ±1 it is the bound; NaN stays NaN.
#[inline]
pub fn rescale(low: f64, high: f64, unit: f32) -> f32 {
    let weight = (f64::from(unit.clamp(-1.0, 1.0)) + 1.0) / 2.0;
    (low * (1.0 - weight) + high * weight) as f32
}

/// Where the channels of an image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageLayout {
    /// Channels first: `[channels, height, width]`.
    Chw,
    /// Channels last: `[height, width, channels]`.
    Hwc,
}

/// An array of numbers with a lower and an upper bound for each element.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxSpace {
    /// The array's shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Lower bounds; may be −∞.
    pub low: Bound,
    /// Upper bounds; may be +∞.
    pub high: Bound,
    /// The element type.
    pub dtype: DType,
    /// Set if the array is an image.
    pub image: Option<ImageLayout>,
}

impl BoxSpace {
    /// The number of elements (1 for a scalar, 0 if a dimension is 0).
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether every bound of every element is finite.
    pub fn is_bounded(&self) -> bool {
        (0..self.elements()).all(|i| self.low.at(i).is_finite() && self.high.at(i).is_finite())
    }
}

/// One of `n` choices, `start..start + n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discrete {
    /// How many choices there are.
    pub n: usize,
    /// The first choice's value.
    pub start: i64,
    /// Whether the environment says at each step which choices are allowed.
    pub masked: bool,
}

/// Several independent choices; dimension `i` takes `start[i]..start[i] + sizes[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiDiscrete {
    /// How many choices each dimension has.
    pub sizes: Vec<usize>,
    /// The first value of each dimension.
    pub start: Vec<i64>,
    /// Whether the environment says at each step which choices are allowed.
    pub masked: bool,
}

/// `n` independent bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiBinary {
    /// How many bits there are.
    pub n: usize,
}

/// A space of observations or actions. Spaces nest.
///
/// ```
/// use hotloop_env::{ImageLayout, Space};
///
/// let space = Space::dict([
///     ("camera", Space::image([84, 84, 3], ImageLayout::Hwc)),
///     ("speed", Space::boxed(vec![0.0, -1.0], vec![9.0, 1.0], &[2])),
/// ]);
/// space.validate()?;
/// assert_eq!(
///     space.to_string(),
///     "Dict(camera: Box(0, 255, [84, 84, 3], uint8), speed: Box([0.0, -1.0], [9.0, 1.0], [2], float32))"
/// );
/// # Ok::<(), hotloop_env::SpaceError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Space {
    /// An array of bounded numbers.
    Box(BoxSpace),
    /// One of several choices.
    Discrete(Discrete),
    /// Several choices at once.
    MultiDiscrete(MultiDiscrete),
    /// Several bits.
    MultiBinary(MultiBinary),
    /// Named spaces, in the order given.
    Dict(Vec<(String, Space)>),
    /// Spaces in order.
    Tuple(Vec<Space>),
}

impl Space {
    /// A `float32` box with the same bounds for all elements, or one for each.
    pub fn boxed(low: impl Into<Bound>, high: impl Into<Bound>, shape: &[usize]) -> Self {
        Space::Box(BoxSpace {
            shape: shape.to_vec(),
            low: low.into(),
            high: high.into(),
            dtype: DType::F32,
            image: None,
        })
    }

    /// A `float32` box without bounds.
    pub fn unbounded(shape: &[usize]) -> Self {
        Self::boxed(f64::NEG_INFINITY, f64::INFINITY, shape)
    }

    /// An 8-bit image, 0 to 255, of this shape in this layout.
    pub fn image(shape: [usize; 3], layout: ImageLayout) -> Self {
        Space::Box(BoxSpace {
            shape: shape.to_vec(),
            low: Bound::Uniform(0.0),
            high: Bound::Uniform(255.0),
            dtype: DType::U8,
            image: Some(layout),
        })
    }

    /// One of `0..n`.
    pub fn discrete(n: usize) -> Self {
        Space::Discrete(Discrete {
            n,
            start: 0,
            masked: false,
        })
    }

    /// One of `0..n`, of which the environment masks some at each step.
    pub fn masked_discrete(n: usize) -> Self {
        Space::Discrete(Discrete {
            n,
            start: 0,
            masked: true,
        })
    }

    /// Several choices at once, each from 0.
    pub fn multi_discrete(sizes: &[usize]) -> Self {
        Space::MultiDiscrete(MultiDiscrete {
            sizes: sizes.to_vec(),
            start: vec![0; sizes.len()],
            masked: false,
        })
    }

    /// `n` bits.
    pub fn multi_binary(n: usize) -> Self {
        Space::MultiBinary(MultiBinary { n })
    }

    /// Named spaces, in this order.
    pub fn dict<K: Into<String>>(entries: impl IntoIterator<Item = (K, Space)>) -> Self {
        Space::Dict(
            entries
                .into_iter()
                .map(|(key, space)| (key.into(), space))
                .collect(),
        )
    }

    /// The same space with every box in it, however deep, changed by `f`.
    pub fn map_boxes(&self, f: &mut impl FnMut(&BoxSpace) -> BoxSpace) -> Space {
        match self {
            Space::Box(b) => Space::Box(f(b)),
            Space::Dict(entries) => Space::Dict(
                entries
                    .iter()
                    .map(|(key, space)| (key.clone(), space.map_boxes(f)))
                    .collect(),
            ),
            Space::Tuple(items) => {
                Space::Tuple(items.iter().map(|space| space.map_boxes(f)).collect())
            }
            other => other.clone(),
        }
    }

    /// Checks that the space can be: no empty choice, bounds of the right length with low ≤ high and
    /// no NaN, integer bounds that the type can hold, unique keys.
    pub fn validate(&self) -> Result<(), SpaceError> {
        self.validate_at("")
    }

    fn validate_at(&self, path: &str) -> Result<(), SpaceError> {
        let fail = |reason: String| {
            let path = if path.is_empty() { "." } else { path }.to_string();
            Err(SpaceError { path, reason })
        };
        match self {
            Space::Box(b) => {
                for (side, bound) in [("low", &b.low), ("high", &b.high)] {
                    match bound {
                        Bound::Each(each) if each.len() != b.elements() => {
                            return fail(format!(
                                "{side} has {} bounds, but shape {:?} has {} elements",
                                each.len(),
                                b.shape,
                                b.elements()
                            ));
                        }
                        _ => {}
                    }
                }
                for i in 0..b.elements() {
                    let (low, high) = (b.low.at(i), b.high.at(i));
                    if low.is_nan() || high.is_nan() || low > high {
                        return fail(format!(
                            "element {i} has low {low} and high {high}; low ≤ high is needed"
                        ));
                    }
                    let (least, most) = b.dtype.range();
                    for bound in [low, high].into_iter().filter(|bound| bound.is_finite()) {
                        if bound < least || bound > most {
                            return fail(format!(
                                "element {i} has the bound {bound}, which {} cannot hold",
                                b.dtype.name()
                            ));
                        }
                    }
                    if matches!((&b.low, &b.high), (Bound::Uniform(_), Bound::Uniform(_))) {
                        break;
                    }
                }
                match b.image {
                    Some(_) if b.shape.len() != 3 => fail(format!(
                        "an image needs 3 dimensions; its shape is {:?}",
                        b.shape
                    )),
                    _ => Ok(()),
                }
            }
            Space::Discrete(d) if d.n == 0 => fail("Discrete(0) has no value".into()),
            Space::MultiDiscrete(m) if m.sizes.contains(&0) => fail(format!(
                "MultiDiscrete{:?} has a dimension without a value",
                m.sizes
            )),
            Space::MultiDiscrete(m) if m.sizes.len() != m.start.len() => fail(format!(
                "{} sizes, but {} starts",
                m.sizes.len(),
                m.start.len()
            )),
            Space::Dict(entries) => {
                for (i, (key, space)) in entries.iter().enumerate() {
                    if entries[..i].iter().any(|(other, _)| other == key) {
                        return fail(format!("key {key:?} appears twice"));
                    }
                    space.validate_at(&join(path, key))?;
                }
                Ok(())
            }
            Space::Tuple(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(i, space)| space.validate_at(&join(path, &i.to_string()))),
            _ => Ok(()),
        }
    }
}

/// Joins two parts of a leaf's path.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_string()
    } else {
        format!("{path}/{key}")
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Space::Box(b) => {
                let side = |bound: &Bound| match bound {
                    Bound::Uniform(x) => format!("{x}"),
                    Bound::Each(xs) if xs.len() <= 4 => format!("{xs:?}"),
                    Bound::Each(xs) => format!("[{}, … {} in all]", xs[0], xs.len()),
                };
                write!(
                    f,
                    "Box({}, {}, {:?}, {})",
                    side(&b.low),
                    side(&b.high),
                    b.shape,
                    b.dtype.name()
                )
            }
            Space::Discrete(d) if d.start == 0 => write!(f, "Discrete({})", d.n),
            Space::Discrete(d) => write!(f, "Discrete({}, start={})", d.n, d.start),
            Space::MultiDiscrete(m) => write!(f, "MultiDiscrete({:?})", m.sizes),
            Space::MultiBinary(m) => write!(f, "MultiBinary({})", m.n),
            Space::Dict(entries) => {
                f.write_str("Dict(")?;
                for (i, (key, space)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {space}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Space::Tuple(items) => {
                f.write_str("Tuple(")?;
                for (i, space) in items.iter().enumerate() {
                    write!(f, "{}{space}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_spaces_are_named() {
        let space = Space::dict([
            ("a", Space::discrete(2)),
            (
                "b",
                Space::Tuple(vec![Space::boxed(vec![0.0, 1.0], vec![1.0, 0.0], &[2])]),
            ),
        ]);
        let error = space.validate().unwrap_err().to_string();
        assert_eq!(
            error,
            "space b/0: element 1 has low 1 and high 0; low ≤ high is needed"
        );
        assert!(Space::boxed(f64::NAN, 1.0, &[3]).validate().is_err());
        assert!(Space::boxed(vec![0.0], 1.0, &[3]).validate().is_err());
        assert!(Space::discrete(0).validate().is_err());
        let mut image = Space::image([1, 2, 2], ImageLayout::Chw);
        if let Space::Box(b) = &mut image {
            b.high = 256.0.into();
        }
        let error = image.validate().unwrap_err().to_string();
        assert!(error.contains("256, which uint8 cannot hold"), "{error}");
        assert!(
            Space::dict([("k", Space::discrete(1)), ("k", Space::discrete(1))])
                .validate()
                .is_err()
        );
    }

    #[test]
    fn br_43_an_empty_box_is_a_space() {
        assert_eq!(Space::boxed(0.0, 1.0, &[0]).validate(), Ok(()));
    }

    #[test]
    fn spaces_read_as_gymnasium_writes_them() {
        let space = Space::dict([
            ("pos", Space::boxed(-1.0, 1.0, &[2])),
            ("mode", Space::discrete(3)),
        ]);
        assert_eq!(
            space.to_string(),
            "Dict(pos: Box(-1, 1, [2], float32), mode: Discrete(3))"
        );
    }
}
