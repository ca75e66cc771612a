//! A block of lanes of either kind, as the registry makes it.

use crate::{AsyncVectorEnv, EnvError, Frame, VectorEnv};

/// A block that answers at once, or one that waits.
pub enum Block {
    /// Stepped by one call.
    Sync(Box<dyn VectorEnv>),
    /// Begun and polled.
    Async(Box<dyn AsyncVectorEnv>),
}

impl Block {
    /// The number of lanes.
    pub fn lanes(&self) -> usize {
        match self {
            Block::Sync(block) => block.lanes(),
            Block::Async(block) => block.lanes(),
        }
    }

    /// As [`VectorEnv::render`].
    pub fn render(&mut self, lane: usize, frame: &mut Frame) -> Result<bool, EnvError> {
        match self {
            Block::Sync(block) => block.render(lane, frame),
            Block::Async(block) => block.render(lane, frame),
        }
    }

    /// As [`VectorEnv::glyphs`].
    pub fn glyphs(&self, lane: usize) -> Option<String> {
        match self {
            Block::Sync(block) => block.glyphs(lane),
            Block::Async(block) => block.glyphs(lane),
        }
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Block::Sync(_) => "Sync",
            Block::Async(_) => "Async",
        };
        write!(f, "Block::{kind}({} lanes)", self.lanes())
    }
}
