//! Shrinking a grey image to 84×84 by the mean of the area that each pixel covers, to the very bit of OpenCV's
//! `resize` with `INTER_AREA`.
//!
//! A pixel of the result covers `scale = source / 84` pixels of the source along each axis; what it covers only in part
//! counts by that part. Horizontal sums come first, then vertical ones, all in `f32` from the left and from the top, and
//! the result is rounded to the nearest whole number, ties to the even one. One mean in two hundred is a tie but for
//! rounding errors, so the order of additions cannot be chosen freely.

use crate::wide;

/// Height and width of the result.
pub(crate) const SIDE: usize = 84;
/// The width of the console's screen; its height depends on the game.
pub(crate) const WIDTH: usize = 160;
/// Pixels of the source under one of the result, horizontally: 160 / 84 < 2, so three at most.
pub(crate) const TAPS: usize = 3;
/// A row's length in buffers: a multiple of eight.
pub(crate) const PADDED: usize = 88;
/// Horizontally shrunk rows that are kept: more than one of the result covers, for any screen of up to 500 lines.
const KEPT: usize = 8;

/// Which pixels of a line `at ..` are summed with which weights.
#[derive(Clone, Debug, PartialEq)]
struct Cover {
    first: usize,
    weights: Vec<f32>,
}

/// What each of the `SIDE` pixels of a line covers of a line of `source` pixels.
fn covers(source: usize) -> Vec<Cover> {
    let scale = source as f64 / SIDE as f64;
    let cover = |at: usize| {
        let (from, to) = (at as f64 * scale, at as f64 * scale + scale);
        let size = scale.min(source as f64 - from);
        let last = (to.floor() as usize).min(source - 1);
        let whole = (from.ceil() as usize).min(last);
        let mut weights = Vec::new();
        let before = whole as f64 - from;
        let starts_before = before > 1e-3;
        if starts_before {
            weights.push((before / size) as f32);
        }
        weights.extend((whole..last).map(|_| (1.0 / size) as f32));
        let after = to - last as f64;
        if after > 1e-3 {
            weights.push((after.min(1.0).min(size) / size) as f32);
        }
        Cover {
            first: whole - usize::from(starts_before),
            weights,
        }
    };
    (0..SIDE).map(cover).collect()
}

/// Horizontal sums: for each pixel of the result the first pixel of the source, and three weights from there on, of which
/// the last may be 0.
#[derive(Debug)]
pub(crate) struct Columns {
    first: [u8; PADDED],
    pub(crate) weights: [[f32; PADDED]; TAPS],
    /// For eight pixels of the result the first pixel of all of them, and the distance from there to the first of each.
    pub(crate) eights: [(usize, [u8; 16]); PADDED / 8],
}

impl Columns {
    fn new() -> Self {
        let covers = covers(WIDTH);
        // Behind the end the last pixel is summed again, with weights of 0.
        let first = std::array::from_fn(|at| covers[at.min(SIDE - 1)].first as u8);
        let mut weights = [[0.0; PADDED]; TAPS];
        for (at, cover) in covers.iter().enumerate() {
            for (weights, &weight) in weights.iter_mut().zip(&cover.weights) {
                weights[at] = weight;
            }
        }
        let eights = std::array::from_fn(|eight| {
            let firsts: &[u8] = &first[8 * eight..][..8];
            let mut distances = [0; 16];
            for (distance, at) in distances.iter_mut().zip(firsts) {
                *distance = at - firsts[0];
            }
            (usize::from(firsts[0]), distances)
        });
        Self {
            first,
            weights,
            eights,
        }
    }
}

/// Shrinks screens of one height.
#[derive(Debug)]
pub(crate) struct Resize {
    columns: Columns,
    rows: Vec<Cover>,
}

impl Resize {
    /// For screens of `height` × [`WIDTH`] pixels.
    pub(crate) fn new(height: usize) -> Self {
        Self {
            columns: Columns::new(),
            rows: covers(height),
        }
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Shrinks `image`, which is [`SLACK`](crate::screen::SLACK) bytes longer than its pixels, into `out`.
    pub(crate) fn run(&self, image: &[u8], out: &mut [u8]) {
        if wide::is_available() {
            return wide::shrink(self, image, out);
        }
        let weights = &self.columns.weights;
        self.run_by(image, out, |line, row| {
            for (at, out) in row[..SIDE].iter_mut().enumerate() {
                let first = usize::from(self.columns.first[at]);
                let value = |tap: usize| f32::from(line[first + tap]) * weights[tap][at];
                *out = value(0) + value(1) + value(2);
            }
        });
    }

    /// As [`run`](Self::run), with `shrink_row` for the horizontal sums of a line.
    #[inline(always)]
    pub(crate) fn run_by(
        &self,
        image: &[u8],
        out: &mut [u8],
        shrink_row: impl Fn(&[u8], &mut [f32; PADDED]),
    ) {
        let mut kept = [[0.0; PADDED]; KEPT];
        let mut next = 0;
        for (cover, out) in self.rows.iter().zip(out.chunks_exact_mut(SIDE)) {
            let mut sums = [0.0; PADDED];
            for (row, &weight) in (cover.first..).zip(&cover.weights) {
                while next <= row {
                    shrink_row(&image[next * WIDTH..], &mut kept[next % KEPT]);
                    next += 1;
                }
                for (sum, &value) in sums.iter_mut().zip(&kept[row % KEPT]) {
                    *sum += value * weight;
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                // Above 2²³ a float has no fraction left: the addition rounds, ties to even, into the lowest bits.
                *out = (sum + 8_388_608.0).to_bits() as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::SLACK;

    fn run(height: usize, pixel: impl Fn(usize, usize) -> u8) -> Vec<u8> {
        let mut image = vec![77; height * WIDTH + SLACK];
        for (at, value) in image[..height * WIDTH].iter_mut().enumerate() {
            *value = pixel(at / WIDTH, at % WIDTH);
        }
        let mut out = vec![0; SIDE * SIDE];
        Resize::new(height).run(&image, &mut out);
        out
    }

    #[test]
    fn what_a_pixel_covers_is_as_computed_by_hand() {
        // 160 / 84 = 40/21: the first pixel covers pixel 0 and 19/21 of pixel 1.
        let columns = covers(WIDTH);
        let part = |whole: f64| (whole / (40.0 / 21.0)) as f32;
        assert_eq!(columns[0].first, 0);
        assert_eq!(columns[0].weights.len(), 2);
        assert!((columns[0].weights[0] - part(1.0)).abs() < 1e-7);
        assert!((columns[0].weights[1] - part(19.0 / 21.0)).abs() < 1e-7);
        // The second begins where the first ends: 2/21 of pixel 1, pixel 2, and 17/21 of pixel 3.
        assert_eq!(columns[1].first, 1);
        for (weight, whole) in columns[1]
            .weights
            .iter()
            .zip([2.0 / 21.0, 1.0, 17.0 / 21.0])
        {
            assert!((weight - part(whole)).abs() < 1e-7);
        }
        // The last one ends with the line.
        let last = &columns[SIDE - 1];
        assert_eq!(last.first + last.weights.len(), WIDTH);
        // 210 / 84 = 5/2 lines, without rounding.
        let rows = covers(210);
        assert_eq!(
            (rows[0].first, &rows[0].weights[..]),
            (0, &[0.4, 0.4, 0.2][..])
        );
        assert_eq!(
            (rows[1].first, &rows[1].weights[..]),
            (2, &[0.2, 0.4, 0.4][..])
        );
    }

    #[test]
    fn means_are_as_computed_by_hand() {
        assert!(run(210, |_, _| 200).iter().all(|&pixel| pixel == 200));
        // One white pixel at (2, 1) of 255: 19/40 of a column, a fifth of a row, in two pixels below each other; and 2/40
        // of the next column.
        let out = run(210, |y, x| if (y, x) == (2, 1) { 255 } else { 0 });
        assert_eq!([out[0], out[1], out[2]], [24, 3, 0]); // 24.225, 2.55
        assert_eq!([out[SIDE], out[SIDE + 1], out[2 * SIDE]], [24, 3, 0]);
        // A ramp down the lines: the mean of lines 0, 1 and half of 2 is 4/5, of half of 2, 3 and 4 is 16/5.
        let out = run(210, |y, _| y as u8);
        assert_eq!([out[0], out[SIDE], out[2 * SIDE]], [1, 3, 6]);
        // The last pixel: white in the last column only, 21/40 of it.
        let out = run(210, |_, x| if x == WIDTH - 1 { 200 } else { 0 });
        assert_eq!([out[SIDE - 2], out[SIDE - 1]], [0, 105]);
    }

    #[test]
    fn kernels_agree_to_the_bit_on_screens_of_any_height() {
        let mut word = 1u32;
        for height in [180, 210, 220, 250, 300] {
            let image: Vec<u8> = (0..height * WIDTH + SLACK)
                .map(|_| {
                    word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (word >> 24) as u8
                })
                .collect();
            let resize = Resize::new(height);
            let (mut fast, mut plain) = (vec![0; SIDE * SIDE], vec![0; SIDE * SIDE]);
            resize.run(&image, &mut fast);
            resize.run_by(&image, &mut plain, |line, row| {
                for (at, cover) in covers(WIDTH).iter().enumerate() {
                    let pixels = &line[cover.first..];
                    row[at] = cover
                        .weights
                        .iter()
                        .zip(pixels)
                        .fold(0.0, |sum, (weight, &pixel)| sum + f32::from(pixel) * weight);
                }
            });
            assert_eq!(fast, plain, "height {height}");
        }
    }
}
