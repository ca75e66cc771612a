//! Where an observation is written, part after part.

/// The place of one observation; parts are written into it one after the other.
#[derive(Debug)]
pub struct Cursor<'a> {
    place: &'a mut [f64],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the begin of `place`, which must be long enough for all parts.
    pub fn new(place: &'a mut [f64]) -> Self {
        Self { place, at: 0 }
    }

    /// Writes these numbers next.
    #[inline]
    pub fn put(&mut self, numbers: &[f64]) {
        self.place[self.at..self.at + numbers.len()].copy_from_slice(numbers);
        self.at += numbers.len();
    }

    /// Writes what `f` makes of these numbers next.
    #[inline]
    pub fn map(&mut self, numbers: &[f64], f: impl Fn(f64) -> f64) {
        for (place, &number) in self.place[self.at..].iter_mut().zip(numbers) {
            *place = f(number);
        }
        self.at += numbers.len();
    }

    /// How many numbers were written.
    pub fn written(&self) -> usize {
        self.at
    }
}
