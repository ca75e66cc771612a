//! From the console's screen to an observation: grey, the lighter of the last two frames, 84×84.
//!
//! Sprites that flicker on the console are drawn in every other frame, hence the two.

use crate::resize::{Resize, WIDTH};
use crate::wide;
use hotloop_env::{EnvError, StateReader, StateWriter};

/// Bytes behind the pixels of an image, so that kernels may read over its end.
pub(crate) const SLACK: usize = 32;

/// The frames that the next observation is made of.
pub(crate) struct Screen {
    /// The last frame but one of the present step, by its colours.
    before: Vec<u8>,
    /// The grey image to be shrunk, with [`SLACK`].
    pooled: Vec<u8>,
    grey: [u8; 256],
    resize: Resize,
}

impl Screen {
    /// For screens of `height` lines whose colours have these greys.
    pub(crate) fn new(height: usize, grey: [u8; 256]) -> Self {
        let pixels = height * WIDTH;
        Self {
            before: vec![0; pixels],
            pooled: vec![0; pixels + SLACK],
            grey,
            resize: Resize::new(height),
        }
    }

    /// Starts anew from one frame.
    pub(crate) fn start(&mut self, frame: &[u8]) {
        // Colour 0 is black.
        self.before.fill(0);
        self.end_with(frame);
    }

    /// Keeps the last frame but one of a step.
    pub(crate) fn keep(&mut self, frame: &[u8]) {
        self.before.copy_from_slice(frame);
    }

    /// Takes the last frame of a step, alone or with the one kept.
    pub(crate) fn end(&mut self, frame: &[u8], alone: bool) {
        if alone {
            self.before.copy_from_slice(frame);
        }
        self.end_with(frame);
    }

    fn end_with(&mut self, frame: &[u8]) {
        let pixels = self.before.len();
        let pooled = &mut self.pooled[..pixels];
        if wide::is_available() {
            wide::greys(&self.grey, frame, &self.before, pooled);
        } else {
            wide::greys_one_by_one(&self.grey, frame, &self.before, pooled);
        }
    }

    /// A step that ended before its last frame: the image of the step before stays, with what was kept in this one.
    pub(crate) fn end_early(&mut self) {
        for (pooled, &before) in self.pooled.iter_mut().zip(&self.before) {
            *pooled = (*pooled).max(self.grey[usize::from(before)]);
        }
    }

    /// Writes the observation.
    pub(crate) fn shrink(&self, out: &mut [u8]) {
        self.resize.run(&self.pooled, out);
    }

    pub(crate) fn save(&self, out: &mut StateWriter) {
        out.bytes(&self.before);
        out.bytes(&self.pooled);
    }

    pub(crate) fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        for buffer in [&mut self.before, &mut self.pooled] {
            let bytes = state.bytes()?;
            if bytes.len() != buffer.len() {
                return Err("the saved state is of a game with another screen".into());
            }
            buffer.copy_from_slice(bytes);
        }
        Ok(())
    }
}
