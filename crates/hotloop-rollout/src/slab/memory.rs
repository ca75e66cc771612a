//! The memory of segments, side by side in one allocation.

use super::columns::{ALIGNMENT, Columns};
use super::segment::SegmentBuf;
use crate::RolloutError;
use bytemuck::Pod;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// The memory of some segments.
#[derive(Debug)]
pub(crate) struct Slab {
    columns: Columns,
    layout: Layout,
    memory: NonNull<u8>,
}

// SAFETY: the memory is plain bytes that belong to no thread. Which thread reads or writes them is
// decided by the tokens of this module.
unsafe impl Send for Slab {}
// SAFETY: as above; `Slab` itself offers only `unsafe` access.
unsafe impl Sync for Slab {}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `alloc_zeroed` with this layout, and is freed once. All tokens
        // hold the slab in an `Arc`, so none is left.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

/// One column's element: any bit pattern is a value, so that zeroed memory can be read as it.
pub(super) trait Column: Pod {}
impl Column for u8 {}
impl Column for u16 {}
impl Column for u32 {}
impl Column for u64 {}
impl Column for f32 {}

impl Slab {
    /// Takes the memory of `segments` segments; all columns are zero.
    pub(crate) fn new(
        columns: Columns,
        segments: usize,
    ) -> Result<(Arc<Self>, Vec<SegmentBuf>), RolloutError> {
        let needed = columns.bytes().saturating_mul(segments);
        let too_much = || RolloutError::Memory {
            needed,
            available: 0,
        };
        let layout =
            Layout::from_size_align(needed.max(ALIGNMENT), ALIGNMENT).map_err(|_| too_much())?;
        let count = u32::try_from(segments).map_err(|_| too_much())?;
        // SAFETY: the layout's size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_much)?;
        let slab = Arc::new(Self {
            columns,
            layout,
            memory,
        });
        let bufs = (0..count)
            .map(|index| SegmentBuf {
                slab: slab.clone(),
                index,
            })
            .collect();
        Ok((slab, bufs))
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Where a segment begins.
    #[inline]
    fn start(&self, segment: u32) -> usize {
        segment as usize * self.columns.bytes()
    }

    /// `len` elements of the column at byte `offset` of a segment, from element `start`.
    ///
    /// # Safety
    /// The segment must be one of the slab, the elements must lie inside the column, and nobody may write them during `'a`.
    #[inline]
    pub(super) unsafe fn read<'a, T: Column>(
        &self,
        segment: u32,
        offset: usize,
        start: usize,
        len: usize,
    ) -> &'a [T] {
        debug_assert!(offset + (start + len) * size_of::<T>() <= self.columns.bytes());
        // SAFETY: inside the allocation by the caller's word, whose segment is one of this slab; segments
        // and columns are aligned to 64 bytes; the bytes are initialised (zeroed at the start) and any bits
        // are a `T`.
        unsafe {
            let column = self.memory.as_ptr().add(self.start(segment) + offset);
            std::slice::from_raw_parts(column.cast::<T>().add(start), len)
        }
    }

    /// As [`Slab::read`], for writing.
    ///
    /// # Safety
    /// As [`Slab::read`], and nobody else may read them during `'a`.
    #[inline]
    pub(super) unsafe fn write<'a, T: Column>(
        &self,
        segment: u32,
        offset: usize,
        start: usize,
        len: usize,
    ) -> &'a mut [T] {
        debug_assert!(offset + (start + len) * size_of::<T>() <= self.columns.bytes());
        // SAFETY: as in `read`; exclusive by the caller's word.
        unsafe {
            let column = self.memory.as_ptr().add(self.start(segment) + offset);
            std::slice::from_raw_parts_mut(column.cast::<T>().add(start), len)
        }
    }

    /// What a block of `lanes` works on when it steps with the decisions of row `t`.
    ///
    /// # Safety
    /// The segment must be one of the slab, `t` and `lanes` must lie inside it, and during `'a` nobody else may touch what this
    /// returns: of these lanes, everything of row `t` but log-probabilities and values, and
    /// observations, masks and `valid` of row `t + 1`.
    #[inline]
    pub(super) unsafe fn block_rows<'a>(
        &self,
        segment: u32,
        t: usize,
        lanes: &Range<usize>,
    ) -> BlockRows<'a> {
        let c = &self.columns;
        debug_assert!(t < c.steps && lanes.end <= c.lanes);
        let (n, at, next) = (
            lanes.len(),
            t * c.lanes + lanes.start,
            (t + 1) * c.lanes + lanes.start,
        );
        // SAFETY: inside the columns because `t < steps` and `lanes.end <= c.lanes`; the slices do not
        // overlap; exclusive by the caller's word.
        unsafe {
            BlockRows {
                actions: self.read(segment, c.actions, at * c.action, n * c.action),
                valid: self.write(segment, c.valid, at, n),
                rewards: self.write(segment, c.rewards, at, n),
                ends: self.write(segment, c.ends, at, n),
                episode_returns: self.write(segment, c.episode_returns, at, n),
                episode_lengths: self.write(segment, c.episode_lengths, at, n),
                next: FirstRow {
                    observations: self.write(
                        segment,
                        c.observations,
                        c.frame(t + 1) + lanes.start * c.observation,
                        n * c.observation,
                    ),
                    masks: self.write(segment, c.masks, next * c.mask, n * c.mask),
                    valid: self.write(segment, c.valid, next, n),
                },
            }
        }
    }

    /// What a block of `lanes` writes when it is reset: its lanes of row 0.
    ///
    /// # Safety
    /// As [`Slab::block_rows`]: nobody else may touch observations, masks and `valid` of these lanes
    /// in row 0 during `'a`.
    pub(super) unsafe fn first_row<'a>(&self, segment: u32, lanes: &Range<usize>) -> FirstRow<'a> {
        let c = &self.columns;
        debug_assert!(lanes.end <= c.lanes);
        let (n, at) = (lanes.len(), lanes.start);
        // SAFETY: inside the columns because `lanes.end <= c.lanes`; exclusive by the caller's word.
        unsafe {
            FirstRow {
                observations: self.write(
                    segment,
                    c.observations,
                    c.frame(0) + at * c.observation,
                    n * c.observation,
                ),
                masks: self.write(segment, c.masks, at * c.mask, n * c.mask),
                valid: self.write(segment, c.valid, at, n),
            }
        }
    }
}

/// What a block works on in one step: its lanes of rows `t` and `t + 1`.
#[derive(Debug)]
pub(crate) struct BlockRows<'a> {
    pub(crate) actions: &'a [u8],
    pub(crate) valid: &'a mut [u8],
    pub(crate) rewards: &'a mut [f32],
    pub(crate) ends: &'a mut [u8],
    pub(crate) episode_returns: &'a mut [f32],
    pub(crate) episode_lengths: &'a mut [u32],
    pub(crate) next: FirstRow<'a>,
}

/// The part of a row that is written before the decision.
#[derive(Debug)]
pub(crate) struct FirstRow<'a> {
    pub(crate) observations: &'a mut [u8],
    pub(crate) masks: &'a mut [u8],
    pub(crate) valid: &'a mut [u8],
}
