//! Drawing with smooth edges into a frame: what pictures of mechanisms need, and no more.

use crate::Frame;

/// A frame while it is drawn, in the units of what it shows, with y upwards.
///
/// ```
/// use hotloop_env::{Canvas, Frame};
///
/// let mut frame = Frame::new();
/// // 600 × 400 pixels, 100 to the metre, the point (0, 1) in the middle.
/// let mut canvas = Canvas::new(&mut frame, [600, 400], [0.0, 1.0], 100.0, [255, 255, 255]);
/// canvas.line([-2.0, 0.0], [2.0, 0.0], 0.02, [0, 0, 0]);
/// canvas.circle([0.0, 1.0], 0.5, [200, 30, 30]);
/// assert_eq!((frame.width, frame.height), (600, 400));
/// assert_eq!(frame.rgb[3 * (200 * 600 + 300)..][..3], [200, 30, 30]);
/// ```
#[derive(Debug)]
pub struct Canvas<'a> {
    frame: &'a mut Frame,
    centre: [f64; 2],
    scale: f64,
}

impl<'a> Canvas<'a> {
    /// A canvas of `size` (width, height) pixels, `scale` of them to a unit, with the point `centre` in the
    /// middle, filled with `background` (red, green, blue).
    pub fn new(
        frame: &'a mut Frame,
        size: [u32; 2],
        centre: [f64; 2],
        scale: f64,
        background: [u8; 3],
    ) -> Self {
        for pixel in frame.resize(size[0], size[1]).chunks_exact_mut(3) {
            pixel.copy_from_slice(&background);
        }
        Self {
            frame,
            centre,
            scale,
        }
    }

    /// A filled circle.
    pub fn circle(&mut self, centre: [f64; 2], radius: f64, colour: [u8; 3]) {
        let (centre, radius) = (self.place(centre), radius * self.scale);
        self.fill(&[centre], radius, colour, |p| {
            length(less(p, centre)) - radius
        });
    }

    /// A line with round ends.
    pub fn line(&mut self, from: [f64; 2], to: [f64; 2], width: f64, colour: [u8; 3]) {
        let ends = [self.place(from), self.place(to)];
        let radius = 0.5 * width * self.scale;
        self.fill(&ends, radius, colour, |p| {
            to_segment(p, ends[0], ends[1]) - radius
        });
    }

    /// A filled polygon that does not cross itself.
    pub fn polygon(&mut self, corners: &[[f64; 2]], colour: [u8; 3]) {
        let corners: Vec<[f64; 2]> = corners.iter().map(|&corner| self.place(corner)).collect();
        self.fill(&corners, 0.0, colour, |p| {
            let (mut distance, mut inside) = (f64::INFINITY, false);
            for (i, &a) in corners.iter().enumerate() {
                let b = corners[(i + 1) % corners.len()];
                distance = distance.min(to_segment(p, a, b));
                // A ray to the right crosses an odd number of edges if it starts inside.
                let crosses = (a[1] > p[1]) != (b[1] > p[1]);
                inside ^= crosses && p[0] < a[0] + (p[1] - a[1]) / (b[1] - a[1]) * (b[0] - a[0]);
            }
            if inside { -distance } else { distance }
        });
    }

    /// Where a point is, in pixels from the top left.
    fn place(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        [
            0.5 * f64::from(self.frame.width) + (x - self.centre[0]) * self.scale,
            0.5 * f64::from(self.frame.height) - (y - self.centre[1]) * self.scale,
        ]
    }

    /// Paints a shape by its signed distance in pixels: a pixel is covered as far as its middle lies inside.
    /// Nothing of the shape is further than `margin` from the box around `points`.
    fn fill(
        &mut self,
        points: &[[f64; 2]],
        margin: f64,
        colour: [u8; 3],
        distance: impl Fn([f64; 2]) -> f64,
    ) {
        let span = |axis: usize, pixels: u32| {
            let along = points.iter().map(|point| point[axis]);
            let low = along.clone().fold(f64::INFINITY, f64::min) - margin - 1.0;
            let high = along.fold(f64::NEG_INFINITY, f64::max) + margin + 1.0;
            // Saturating casts: what lies outside, or nowhere, paints nothing.
            low.floor() as u32..(high.ceil() as u32).min(pixels)
        };
        let (columns, rows) = (span(0, self.frame.width), span(1, self.frame.height));
        for y in rows {
            for x in columns.clone() {
                let covered = 0.5 - distance([f64::from(x) + 0.5, f64::from(y) + 0.5]);
                if covered <= 0.0 {
                    continue;
                }
                let covered = covered.min(1.0);
                let at = 3 * (y as usize * self.frame.width as usize + x as usize);
                for (to, from) in self.frame.rgb[at..at + 3].iter_mut().zip(colour) {
                    let mixed = f64::from(*to) + covered * (f64::from(from) - f64::from(*to));
                    *to = mixed.round() as u8;
                }
            }
        }
    }
}

fn less(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] - b[0], a[1] - b[1]]
}

fn dot(a: [f64; 2], b: [f64; 2]) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

fn length(a: [f64; 2]) -> f64 {
    dot(a, a).sqrt()
}

/// The distance of `p` from the segment from `a` to `b`.
fn to_segment(p: [f64; 2], a: [f64; 2], b: [f64; 2]) -> f64 {
    let (along, to) = (less(b, a), less(p, a));
    let share = (dot(to, along) / dot(along, along).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    length(less(to, along.map(|x| x * share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: [u8; 3] = [0; 3];

    /// The share of a 40 × 20 picture, four pixels to a unit, that is painted, in square units.
    fn painted(draw: impl FnOnce(&mut Canvas<'_>)) -> (f64, Frame) {
        let mut frame = Frame::new();
        draw(&mut Canvas::new(
            &mut frame,
            [40, 20],
            [1.0, -1.0],
            4.0,
            [255; 3],
        ));
        let ink = frame.rgb.iter().map(|&x| 255.0 - f64::from(x)).sum::<f64>();
        (ink / (3.0 * 255.0 * 16.0), frame)
    }

    #[test]
    fn shapes_have_their_areas() {
        let (circle, _) = painted(|c| c.circle([1.0, -1.0], 2.0, BLACK));
        assert!(
            (circle - 4.0 * std::f64::consts::PI).abs() < 0.05,
            "{circle}"
        );
        let (line, _) = painted(|c| c.line([-1.0, -1.0], [3.0, -1.0], 1.0, BLACK));
        let expected = 4.0 + 0.25 * std::f64::consts::PI;
        assert!((line - expected).abs() < 0.05, "{line}");
        // An L, which is not convex.
        let corners = [
            [0.0, 1.0],
            [0.0, -3.0],
            [3.0, -3.0],
            [3.0, -2.0],
            [1.0, -2.0],
            [1.0, 1.0],
        ];
        let (polygon, _) = painted(|c| c.polygon(&corners, BLACK));
        assert!((polygon - 6.0).abs() < 0.05, "{polygon}");
    }

    #[test]
    fn y_goes_upwards_and_the_middle_is_where_it_was_put() {
        let (_, frame) = painted(|c| c.circle([-3.0, 1.0], 0.5, BLACK));
        // 4 units left of the middle of 40 pixels, 2 units above the middle of 20.
        let at = |x: usize, y: usize| frame.rgb[3 * (40 * y + x)];
        assert_eq!((at(4, 2), at(4, 17), at(35, 2)), (0, 255, 255));
    }

    #[test]
    fn what_lies_outside_is_cut_off() {
        let (all, _) = painted(|c| c.circle([0.0, 0.0], 1e6, BLACK));
        assert_eq!(all, 50.0);
        for far in [1e9, -1e9, f64::NAN] {
            let (none, _) = painted(|c| c.line([far, far], [far, far + 1.0], 1.0, BLACK));
            assert_eq!(none, 0.0);
        }
    }
}
