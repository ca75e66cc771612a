//! A picture of an environment, for those who look at a policy.

/// A picture: `height` rows of `width` pixels, from the top, three bytes (red, green, blue) each.
///
/// One is handed from call to call of [`Env::render`](crate::Env::render), so that its memory is taken once.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// `3 · width · height` bytes.
    pub rgb: Vec<u8>,
    /// How many of them make one second at the environment's natural pace; 30 unless it says otherwise.
    pub fps: f64,
}

impl Default for Frame {
    fn default() -> Self {
        Self {
            width: 0,
            height: 0,
            rgb: vec![],
            fps: 30.0,
        }
    }
}

impl Frame {
    /// A picture without pixels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes it `width × height` pixels, and returns its bytes to be written: what they are is unspecified.
    pub fn resize(&mut self, width: u32, height: u32) -> &mut [u8] {
        (self.width, self.height) = (width, height);
        self.rgb.resize(3 * width as usize * height as usize, 0);
        &mut self.rgb
    }
}
