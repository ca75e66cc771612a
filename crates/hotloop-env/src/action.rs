//! Reading the action that a lane is to take.

use crate::layout::Shape;
use crate::{Layout, Leaf, LeafId, LeafKind};

/// An action, ready for the environment: `start` is added to choices when they are read, and boxes
/// have been clipped to their bounds.
#[derive(Clone, Copy, Debug)]
pub struct ActionView<'a> {
    record: &'a [u8],
    layout: &'a Layout,
}

impl<'a> ActionView<'a> {
    /// A view of one action. `record` is [`Layout::record_bytes`] long and aligned for its elements.
    #[inline]
    pub fn new(record: &'a [u8], layout: &'a Layout) -> Self {
        debug_assert_eq!(record.len(), layout.record_bytes());
        Self { record, layout }
    }

    /// The value of a `Discrete` action space. Panics if the space is another.
    #[inline]
    pub fn discrete(&self) -> i64 {
        match (self.layout.shape(), self.record.first_chunk()) {
            (Shape::Discrete { start }, Some(index)) => i32::from_ne_bytes(*index) as i64 + start,
            _ => self.leaf(LeafId(0)).mismatch("a Discrete"),
        }
    }

    /// The numbers of a `Box` action space (`float32`). Panics if the space is another.
    #[inline]
    pub fn continuous(&self) -> &'a [f32] {
        match self.layout.shape() {
            Shape::Box(..) => bytemuck::cast_slice(self.record),
            _ => self.leaf(LeafId(0)).mismatch("a Box"),
        }
    }

    /// The values of a `MultiDiscrete` or `MultiBinary` action space. Panics if the space is another.
    pub fn discretes(&self) -> impl Iterator<Item = i64> + use<'a> {
        self.leaf(LeafId(0)).discretes()
    }

    /// A leaf by its handle.
    #[inline]
    pub fn leaf(&self, id: LeafId) -> ActionLeaf<'a> {
        let leaf = &self.layout.leaves()[id.0];
        ActionLeaf {
            bytes: &self.record[leaf.bytes()],
            leaf,
        }
    }

    /// A leaf by its path. Panics if the space has none such: the space is the environment's own.
    pub fn key(&self, path: &str) -> ActionLeaf<'a> {
        match self.layout.find(path) {
            Some(id) => self.leaf(id),
            None => panic!(
                "the action space has no key {path:?}; it has {}",
                self.layout.describe()
            ),
        }
    }

    /// The record's bytes.
    pub fn record(&self) -> &'a [u8] {
        self.record
    }

    /// The layout of the action space.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }
}

/// One leaf of an action.
#[derive(Clone, Copy, Debug)]
pub struct ActionLeaf<'a> {
    bytes: &'a [u8],
    leaf: &'a Leaf,
}

impl<'a> ActionLeaf<'a> {
    /// The value of a `Discrete` leaf, `start` included.
    #[inline]
    pub fn discrete(&self) -> i64 {
        match &self.leaf.kind {
            LeafKind::Discrete(d) => self.indices()[0] as i64 + d.start,
            _ => self.mismatch("a Discrete"),
        }
    }

    /// The values of a `Discrete`, `MultiDiscrete` or `MultiBinary` leaf, `start` included.
    pub fn discretes(&self) -> impl Iterator<Item = i64> + use<'a> {
        if matches!(self.leaf.kind, LeafKind::Box(_)) {
            self.mismatch("a choice");
        }
        let kind = &self.leaf.kind;
        self.indices()
            .iter()
            .enumerate()
            .map(move |(i, &index)| index as i64 + kind.start(i))
    }

    /// The numbers of a `Box` leaf, clipped to its bounds.
    #[inline]
    pub fn continuous(&self) -> &'a [f32] {
        match &self.leaf.kind {
            LeafKind::Box(_) => bytemuck::cast_slice(self.bytes),
            _ => self.mismatch("a Box"),
        }
    }

    #[inline]
    fn indices(&self) -> &'a [i32] {
        bytemuck::cast_slice(self.bytes)
    }

    #[cold]
    fn mismatch(&self, asked: &str) -> ! {
        panic!(
            "the environment reads {asked} action, but action leaf {:?} is {:?}",
            self.leaf.path, self.leaf.kind
        )
    }
}

/// An action that owns its memory: for tests, scripts and wrappers.
#[derive(Clone, Debug)]
pub struct ActionBuf {
    words: Vec<u64>,
    layout: Layout,
}

impl ActionBuf {
    /// The action of all zeros (index 0 of each choice).
    pub fn new(layout: &Layout) -> Self {
        Self {
            words: vec![0; layout.record_bytes().div_ceil(8)],
            layout: layout.clone(),
        }
    }

    /// To be handed to an environment.
    pub fn view(&self) -> ActionView<'_> {
        ActionView::new(
            &bytemuck::cast_slice(&self.words)[..self.layout.record_bytes()],
            &self.layout,
        )
    }

    /// Takes over the action that `view` shows, which is of the same layout.
    pub fn copy_from(&mut self, view: ActionView<'_>) {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        bytes[..self.layout.record_bytes()].copy_from_slice(view.record());
    }

    /// The indices (from 0) of a choice leaf. Panics on a box.
    pub fn indices_mut(&mut self, id: LeafId) -> &mut [i32] {
        let leaf = &self.layout.leaves()[id.0];
        assert!(
            !matches!(leaf.kind, LeafKind::Box(_)),
            "leaf {:?} is a Box",
            leaf.path
        );
        bytemuck::cast_slice_mut(
            &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[leaf.bytes()],
        )
    }

    /// The numbers of a box leaf. Panics on a choice.
    pub fn continuous_mut(&mut self, id: LeafId) -> &mut [f32] {
        let leaf = &self.layout.leaves()[id.0];
        assert!(
            matches!(leaf.kind, LeafKind::Box(_)),
            "leaf {:?} is not a Box",
            leaf.path
        );
        bytemuck::cast_slice_mut(
            &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[leaf.bytes()],
        )
    }

    /// Sets the index (from 0) of a `Discrete` action and returns the action.
    pub fn with_index(mut self, index: usize) -> Self {
        self.indices_mut(LeafId(0))[0] = index as i32;
        self
    }

    /// Sets the numbers of a `Box` action and returns the action.
    pub fn with_continuous(mut self, values: &[f32]) -> Self {
        self.continuous_mut(LeafId(0)).copy_from_slice(values);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Discrete, MultiDiscrete, Space};

    #[test]
    fn br_38_discrete_actions_honour_start() {
        let choice = || {
            Space::Discrete(Discrete {
                n: 3,
                start: -1,
                masked: false,
            })
        };
        let layout = Layout::of_actions(&choice()).unwrap();
        let seen: Vec<i64> = (0..3)
            .map(|i| ActionBuf::new(&layout).with_index(i).view().discrete())
            .collect();
        assert_eq!(seen, [-1, 0, 1]);

        let multi = Space::MultiDiscrete(MultiDiscrete {
            sizes: vec![2, 3],
            start: vec![5, -3],
            masked: false,
        });
        let layout = Layout::of_actions(&Space::dict([("a", choice()), ("b", multi)])).unwrap();
        let mut buf = ActionBuf::new(&layout);
        let b = layout.find("b").unwrap();
        buf.indices_mut(b).copy_from_slice(&[1, 2]);
        assert_eq!(buf.view().key("a").discrete(), -1);
        assert_eq!(buf.view().leaf(b).discretes().collect::<Vec<_>>(), [6, -1]);
    }

    #[test]
    #[should_panic(expected = "reads a Box action")]
    fn reading_the_wrong_kind_is_named() {
        let layout = Layout::of_actions(&Space::discrete(2)).unwrap();
        ActionBuf::new(&layout).view().continuous();
    }
}
