//! The memory of segments, and the tokens that are the only way to reach it.
//!
//! All `unsafe` of the crate is in this folder. A segment's memory is owned by its [`SegmentBuf`],
//! which moves between the free list, the scheduler and the consumer. While a group's actors step, the
//! [`Lender`] keeps the `SegmentBuf` locked away and each actor's [`BlockToken`] reaches the columns of
//! its own lanes, for the duration of one turn.

mod columns;
mod lease;
mod memory;
mod segment;

pub(crate) use columns::Columns;
pub(crate) use lease::{BlockToken, BlockTurn, Lender, lease};
pub(crate) use memory::{BlockRows, FirstRow, Slab};
pub(crate) use segment::SegmentBuf;
