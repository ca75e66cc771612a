//! What the features of a [`FeaturePlan`](crate::FeaturePlan) mean: which belong to which leaf, and in what shape.

use crate::{ImageLayout, Layout, LeafKind};
use std::ops::Range;

/// What the features of one leaf are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureKind {
    /// Numbers; also an array that does not say that it is an image.
    Vector,
    /// Choices, one-hot; bits.
    Choice,
    /// An image, channels first, whatever way it is stored.
    Image {
        /// Channels.
        channels: usize,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
}

/// The features of one leaf of an observation space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureLeaf {
    /// The leaf's path, as [`Leaf::path`](crate::Leaf::path); empty for a space without nesting.
    pub path: String,
    /// Which of the features are its own.
    pub range: Range<usize>,
    /// What they are.
    pub kind: FeatureKind,
}

/// The features of an observation, leaf by leaf in the space's order.
///
/// ```
/// use hotloop_env::{FeatureKind, FeatureSpec, ImageLayout, Layout, Space};
///
/// let space = Space::dict([
///     ("camera", Space::image([10, 12, 3], ImageLayout::Hwc)),
///     ("mode", Space::discrete(3)),
/// ]);
/// let features = FeatureSpec::new(&Layout::new(&space)?);
/// assert_eq!(features.len(), 363);
/// let image = FeatureKind::Image { channels: 3, height: 10, width: 12 };
/// assert_eq!(features.leaves()[0].kind, image);
/// assert_eq!(features.leaves()[1].range, 360..363);
/// # Ok::<(), hotloop_env::SpaceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureSpec {
    leaves: Vec<FeatureLeaf>,
}

impl FeatureSpec {
    /// The features of records of this layout.
    pub fn new(layout: &Layout) -> Self {
        let mut start = 0;
        let leaves = layout.leaves().iter().map(|leaf| {
            let (kind, len) = match &leaf.kind {
                LeafKind::Box(b) => {
                    let kind = match (b.image, b.shape.as_slice()) {
                        (Some(ImageLayout::Chw), &[channels, height, width])
                        | (Some(ImageLayout::Hwc), &[height, width, channels]) => {
                            FeatureKind::Image {
                                channels,
                                height,
                                width,
                            }
                        }
                        _ => FeatureKind::Vector,
                    };
                    (kind, leaf.elements)
                }
                LeafKind::MultiBinary(_) => (FeatureKind::Choice, leaf.elements),
                LeafKind::Discrete(_) | LeafKind::MultiDiscrete(_) => {
                    (FeatureKind::Choice, leaf.kind.choices().iter().sum())
                }
            };
            start += len;
            FeatureLeaf {
                path: leaf.path.clone(),
                range: start - len..start,
                kind,
            }
        });
        Self {
            leaves: leaves.collect(),
        }
    }

    /// A plain vector of `n` features.
    pub fn vector(n: usize) -> Self {
        Self {
            leaves: vec![FeatureLeaf {
                path: String::new(),
                range: 0..n,
                kind: FeatureKind::Vector,
            }],
        }
    }

    /// The leaves, in the space's order; some may have no features.
    pub fn leaves(&self) -> &[FeatureLeaf] {
        &self.leaves
    }

    /// The number of features.
    pub fn len(&self) -> usize {
        self.leaves.last().map_or(0, |leaf| leaf.range.end)
    }

    /// Whether there are no features.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FeaturePlan, MultiDiscrete, Space};

    #[test]
    fn ranges_follow_each_other_and_are_those_of_the_plan() {
        let choices = Space::MultiDiscrete(MultiDiscrete {
            sizes: vec![2, 3],
            start: vec![0, 0],
            masked: false,
        });
        let space = Space::dict([
            ("picture", Space::image([2, 3, 4], ImageLayout::Chw)),
            ("none", Space::unbounded(&[0])),
            ("choices", choices),
            ("bits", Space::multi_binary(4)),
            ("matrix", Space::unbounded(&[2, 2, 2])),
        ]);
        let layout = Layout::new(&space).unwrap();
        let spec = FeatureSpec::new(&layout);
        let ranges: Vec<_> = spec.leaves().iter().map(|l| l.range.clone()).collect();
        assert_eq!(ranges, [0..24, 24..24, 24..29, 29..33, 33..41]);
        assert_eq!(spec.len(), FeaturePlan::new(&layout).features());
        let image = FeatureKind::Image {
            channels: 2,
            height: 3,
            width: 4,
        };
        assert_eq!(spec.leaves()[0].kind, image);
        assert_eq!(spec.leaves()[4].kind, FeatureKind::Vector);
    }
}
