//! What wrappers of box actions share: the action handed on, with every box element mapped.

use crate::{ActionBuf, ActionView, BoxSpace, EnvError, Layout, LeafId, LeafKind, Space};

/// The inner environment's action, in the making.
pub(super) struct InnerAction {
    layout: Layout,
    buf: ActionBuf,
}

impl InnerAction {
    pub(super) fn new(space: &Space) -> Result<Self, EnvError> {
        let layout = Layout::of_actions(space)?;
        let buf = ActionBuf::new(&layout);
        Ok(Self { layout, buf })
    }

    /// The outer action with `f(box, i, x)` for each element `x` of each box. Inner and outer space
    /// differ in nothing but the bounds of their boxes.
    pub(super) fn map(
        &mut self,
        outer: ActionView<'_>,
        f: impl Fn(&BoxSpace, usize, f32) -> f32,
    ) -> ActionView<'_> {
        self.buf.copy_from(outer);
        for (at, leaf) in self.layout.leaves().iter().enumerate() {
            if let LeafKind::Box(space) = &leaf.kind {
                for (i, x) in self.buf.continuous_mut(LeafId(at)).iter_mut().enumerate() {
                    *x = f(space, i, *x);
                }
            }
        }
        self.buf.view()
    }
}
