//! How a space is stored: one fixed-size record of bytes, with each leaf at its own offset.
//!
//! A row of the slab is `[lanes][record]`, so a leaf of all lanes is a strided view of the row, and
//! a space that is one `float32` box of `n` is a plain `[lanes, n]` matrix.

use crate::space::join;
use crate::{BoxSpace, DType, Discrete, MultiBinary, MultiDiscrete, Space, SpaceError};

/// Names one leaf of a [`Layout`]; look it up once with [`Layout::find`], use it at every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafId(pub(crate) usize);

impl LeafId {
    /// The leaf's place in [`Layout::leaves`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// The kind of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub enum LeafKind {
    /// An array, stored in its own type.
    Box(BoxSpace),
    /// A choice, stored as its index from 0 in an `i32`.
    Discrete(Discrete),
    /// Choices, stored as indices from 0 in `i32`s.
    MultiDiscrete(MultiDiscrete),
    /// Bits, stored as `i32`s of 0 or 1.
    MultiBinary(MultiBinary),
}

impl LeafKind {
    /// How many choices each categorical dimension has; empty for a box.
    pub fn choices(&self) -> Vec<usize> {
        match self {
            LeafKind::Box(_) => vec![],
            LeafKind::Discrete(d) => vec![d.n],
            LeafKind::MultiDiscrete(m) => m.sizes.clone(),
            LeafKind::MultiBinary(m) => vec![2; m.n],
        }
    }

    /// The first value of categorical dimension `i`.
    pub fn start(&self, i: usize) -> i64 {
        match self {
            LeafKind::Discrete(d) => d.start,
            LeafKind::MultiDiscrete(m) => m.start[i],
            LeafKind::Box(_) | LeafKind::MultiBinary(_) => 0,
        }
    }

    fn masked(&self) -> bool {
        match self {
            LeafKind::Discrete(d) => d.masked,
            LeafKind::MultiDiscrete(m) => m.masked,
            LeafKind::Box(_) | LeafKind::MultiBinary(_) => false,
        }
    }
}

/// One leaf of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// Keys and positions from the root, joined by `/`; empty for a space without nesting.
    pub path: String,
    /// What it holds.
    pub kind: LeafKind,
    /// The stored element type.
    pub dtype: DType,
    /// The number of elements.
    pub elements: usize,
    /// Bytes from the start of the record.
    pub offset: usize,
    /// Where the leaf's mask begins within a lane's mask, if it is masked.
    pub mask_offset: Option<usize>,
}

impl Leaf {
    /// The leaf's bytes within a record.
    pub fn bytes(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.elements * self.dtype.size()
    }
}

/// The stored form of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    leaves: Vec<Leaf>,
    record: usize,
    mask: usize,
    shape: Shape,
}

/// What the common spaces come down to, so that reading and writing them takes one comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// One box of so many elements.
    Box(DType, usize),
    /// One choice, counted from `start`.
    Discrete { start: i64 },
    /// Anything else.
    Other,
}

impl Layout {
    /// The layout of an observation `space`, which is validated.
    pub fn new(space: &Space) -> Result<Self, SpaceError> {
        Self::build(space, None)
    }

    /// The layout of an action `space`: as [`new`](Self::new), but boxes are stored as the policy
    /// makes them, in `float32`.
    pub fn of_actions(space: &Space) -> Result<Self, SpaceError> {
        Self::build(space, Some(DType::F32))
    }

    fn build(space: &Space, box_dtype: Option<DType>) -> Result<Self, SpaceError> {
        space.validate()?;
        let mut layout = Layout {
            leaves: vec![],
            record: 0,
            mask: 0,
            shape: Shape::Other,
        };
        layout.push(space, "", box_dtype);
        for (i, leaf) in layout.leaves.iter().enumerate() {
            if layout.leaves[..i]
                .iter()
                .any(|other| other.path == leaf.path)
            {
                return Err(SpaceError {
                    path: leaf.path.clone(),
                    reason: "two parts of the space have this path: rename the key with a / in it"
                        .into(),
                });
            }
        }
        layout.shape = match layout.leaves.as_slice() {
            [leaf] => match &leaf.kind {
                LeafKind::Box(_) => Shape::Box(leaf.dtype, leaf.elements),
                LeafKind::Discrete(d) => Shape::Discrete { start: d.start },
                LeafKind::MultiDiscrete(_) | LeafKind::MultiBinary(_) => Shape::Other,
            },
            _ => Shape::Other,
        };
        // Records follow each other, so the widest element decides how they are padded.
        let widest = layout
            .leaves
            .iter()
            .map(|leaf| leaf.dtype.size())
            .max()
            .unwrap_or(1);
        layout.record = layout.record.next_multiple_of(widest);
        Ok(layout)
    }

    fn push(&mut self, space: &Space, path: &str, box_dtype: Option<DType>) {
        let (kind, dtype, elements) = match space {
            Space::Box(b) => (
                LeafKind::Box(b.clone()),
                box_dtype.unwrap_or(b.dtype),
                b.elements(),
            ),
            Space::Discrete(d) => (LeafKind::Discrete(d.clone()), DType::I32, 1),
            Space::MultiDiscrete(m) => (
                LeafKind::MultiDiscrete(m.clone()),
                DType::I32,
                m.sizes.len(),
            ),
            Space::MultiBinary(m) => (LeafKind::MultiBinary(m.clone()), DType::I32, m.n),
            Space::Dict(entries) => {
                return entries
                    .iter()
                    .for_each(|(key, space)| self.push(space, &join(path, key), box_dtype));
            }
            Space::Tuple(items) => {
                return items.iter().enumerate().for_each(|(i, space)| {
                    self.push(space, &join(path, &i.to_string()), box_dtype)
                });
            }
        };
        let offset = self.record.next_multiple_of(dtype.size());
        let mask_offset = kind.masked().then_some(self.mask);
        if mask_offset.is_some() {
            self.mask += kind.choices().iter().sum::<usize>();
        }
        self.record = offset + elements * dtype.size();
        self.leaves.push(Leaf {
            path: path.to_string(),
            kind,
            dtype,
            elements,
            offset,
            mask_offset,
        });
    }

    /// What the whole space comes down to.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// The leaves, in the space's order.
    #[inline]
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Bytes of one record.
    #[inline]
    pub fn record_bytes(&self) -> usize {
        self.record
    }

    /// Bytes of one lane's mask: one for each choice of every masked leaf; 0 without masks.
    #[inline]
    pub fn mask_bytes(&self) -> usize {
        self.mask
    }

    /// The leaf at `path` (keys and positions joined by `/`).
    pub fn find(&self, path: &str) -> Option<LeafId> {
        self.leaves
            .iter()
            .position(|leaf| leaf.path == path)
            .map(LeafId)
    }

    /// The only leaf, if there is just one.
    pub fn single(&self) -> Option<&Leaf> {
        match self.leaves.as_slice() {
            [leaf] => Some(leaf),
            _ => None,
        }
    }

    /// The names of all leaves, for messages.
    pub fn describe(&self) -> String {
        self.leaves
            .iter()
            .map(|leaf| format!("{:?}", leaf.path))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// The spaces of an environment with their layouts.
#[derive(Clone, Debug, PartialEq)]
pub struct Spaces {
    /// The observation space, as a policy sees it.
    pub observation_space: Space,
    /// The action space.
    pub action_space: Space,
    /// How observations are stored: one frame of those that a policy sees at once.
    pub observation: Layout,
    /// The layout of what a policy sees: `observation`, unless frames are [stacked](Spaces::stacked).
    pub seen: Layout,
    /// How many frames a policy sees at once.
    pub stack: usize,
    /// How actions and masks are stored.
    pub action: Layout,
}

impl Spaces {
    /// Validates both spaces and lays them out.
    pub fn new(observation_space: Space, action_space: Space) -> Result<Self, SpaceError> {
        let named = |side: &str| {
            let side = side.to_string();
            move |error: SpaceError| SpaceError {
                path: join(&side, &error.path),
                reason: error.reason,
            }
        };
        let observation = Layout::new(&observation_space).map_err(named("observation"))?;
        Ok(Self {
            seen: observation.clone(),
            observation,
            stack: 1,
            action: Layout::of_actions(&action_space).map_err(named("action"))?,
            observation_space,
            action_space,
        })
    }

    /// Whether observations and actions of both are the same, however many a policy sees at once.
    pub fn are_stored_as(&self, other: &Self) -> bool {
        (&self.observation, &self.action) == (&other.observation, &other.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ImageLayout;

    #[test]
    fn leaves_are_aligned_and_found_by_path() {
        let space = Space::dict([
            ("image", Space::image([1, 3, 3], ImageLayout::Chw)),
            (
                "inner",
                Space::Tuple(vec![Space::discrete(4), Space::unbounded(&[3])]),
            ),
        ]);
        let layout = Layout::new(&space).unwrap();
        let offsets: Vec<_> = layout
            .leaves()
            .iter()
            .map(|l| (l.path.as_str(), l.offset))
            .collect();
        assert_eq!(offsets, [("image", 0), ("inner/0", 12), ("inner/1", 16)]);
        assert_eq!(layout.record_bytes(), 28);
        assert_eq!(layout.find("inner/1"), Some(LeafId(2)));
    }

    #[test]
    fn a_path_names_one_leaf() {
        let inner = Space::dict([("b", Space::discrete(2))]);
        let space = Space::dict([("a", inner), ("a/b", Space::discrete(3))]);
        let error = Layout::new(&space).unwrap_err().to_string();
        assert!(error.starts_with("space a/b: two parts"), "{error}");
    }

    #[test]
    fn an_image_alone_is_not_padded() {
        assert_eq!(
            Layout::new(&Space::image([3, 5, 5], ImageLayout::Chw))
                .unwrap()
                .record_bytes(),
            75
        );
    }

    #[test]
    fn masks_are_counted_by_choice() {
        let space = Space::Tuple(vec![
            Space::masked_discrete(3),
            Space::discrete(9),
            Space::masked_discrete(2),
        ]);
        let layout = Layout::new(&space).unwrap();
        assert_eq!(layout.mask_bytes(), 5);
        assert_eq!(layout.leaves()[2].mask_offset, Some(3));
    }
}
