//! The last frames of the environments of an evaluation, as many as a policy sees at once.

use hotloop_env::{Spaces, Stacks};

/// The last rows of frames, the newest last.
pub(super) struct Frames {
    /// Eight-byte words, so that elements of any type are aligned: `[stack][lanes][record]`.
    words: Vec<u64>,
    /// See [`Stacks::depth`]; empty without a stack.
    depths: Vec<u16>,
    stack: usize,
    lanes: usize,
    /// Bytes of one row.
    row: usize,
}

impl Frames {
    pub(super) fn new(spaces: &Spaces, lanes: usize) -> Self {
        let (stack, row) = (spaces.stack, lanes * spaces.observation.record_bytes());
        Self {
            words: vec![0; (stack * row).div_ceil(8)],
            depths: vec![0; if stack > 1 { lanes } else { 0 }],
            stack,
            lanes,
            row,
        }
    }

    /// What the policy sees.
    pub(super) fn seen(&self, spaces: &Spaces) -> Stacks<'_> {
        let bytes: &[u8] = bytemuck::cast_slice(&self.words);
        let bytes = &bytes[..self.stack * self.row];
        Stacks::new(spaces, self.lanes, bytes, &self.depths)
    }

    /// Makes the newest row the last but one, and returns the place of the next.
    pub(super) fn next(&mut self) -> &mut [u8] {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        let bytes = &mut bytes[..self.stack * self.row];
        bytes.copy_within(self.row.., 0);
        &mut bytes[(self.stack - 1) * self.row..]
    }

    /// Says of the newest row where episodes start.
    pub(super) fn start(&mut self, starts: &[u8]) {
        for (depth, start) in self.depths.iter_mut().zip(starts) {
            *depth = Stacks::depth(self.stack, *depth, *start);
        }
    }
}
