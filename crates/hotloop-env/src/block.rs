//! A block of lanes of either kind, as the registry makes it.

use crate::{AsyncVectorEnv, VectorEnv};

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
