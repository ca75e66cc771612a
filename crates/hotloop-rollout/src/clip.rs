//! Actions on their way from the policy to environments: boxes are clipped or squashed to their bounds, and
//! what is not a number is held back. The slab keeps the policy's own sample.

use hotloop_env::{Layout, LeafKind, rescale};

/// How the policy's real numbers are kept within the bounds of a box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bounding {
    /// What is beyond a bound becomes the bound.
    #[default]
    Clip,
    /// The hyperbolic tangent, scaled from (−1, 1) to the bounds. Elements without two finite bounds are
    /// handed on as they are.
    Tanh,
}

/// The bounds of one element of an action record.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Bytes from the start of the record.
    offset: usize,
    low: f32,
    high: f32,
}

impl Bounds {
    #[inline]
    fn clip(&self, value: f32) -> f32 {
        // Comparisons keep NaN, which `clamp` and `max` would not all do.
        let value = if value < self.low { self.low } else { value };
        if value > self.high { self.high } else { value }
    }

    fn squash(&self, value: f32) -> f32 {
        if self.low.is_finite() && self.high.is_finite() {
            rescale(self.low.into(), self.high.into(), value.tanh())
        } else {
            value
        }
    }
}

/// How the actions of a space are bounded, with room for those of one block.
#[derive(Debug)]
pub struct Clip {
    elements: Vec<Bounds>,
    bounding: Bounding,
    record: usize,
    /// Words, so that records are aligned for any element.
    clipped: Vec<u64>,
}

impl Clip {
    /// For blocks of `lanes` lanes.
    pub fn new(layout: &Layout, lanes: usize, bounding: Bounding) -> Self {
        let mut elements = vec![];
        for leaf in layout.leaves() {
            if let LeafKind::Box(space) = &leaf.kind {
                elements.extend((0..leaf.elements).map(|i| Bounds {
                    offset: leaf.offset + i * size_of::<f32>(),
                    low: space.low.at(i) as f32,
                    high: space.high.at(i) as f32,
                }));
            }
        }
        let bytes = if elements.is_empty() {
            0
        } else {
            lanes * layout.record_bytes()
        };
        Self {
            elements,
            bounding,
            record: layout.record_bytes(),
            clipped: vec![0; bytes.div_ceil(size_of::<u64>())],
        }
    }

    /// Makes the actions that environments get. `lost(i)` is called for each lane whose action is not finite
    /// and has no finite bound to be clipped to.
    #[inline]
    pub fn apply(&mut self, actions: &[u8], mut lost: impl FnMut(usize)) {
        if self.elements.is_empty() {
            return;
        }
        let clipped = &mut bytemuck::cast_slice_mut(&mut self.clipped)[..actions.len()];
        clipped.copy_from_slice(actions);
        for (lane, record) in clipped.chunks_exact_mut(self.record).enumerate() {
            let mut finite = true;
            for bounds in &self.elements {
                let place = &mut record[bounds.offset..bounds.offset + size_of::<f32>()];
                let value: f32 = bytemuck::pod_read_unaligned(place);
                let value = match self.bounding {
                    Bounding::Clip => bounds.clip(value),
                    Bounding::Tanh => bounds.squash(value),
                };
                finite &= value.is_finite();
                place.copy_from_slice(bytemuck::bytes_of(&value));
            }
            if !finite {
                lost(lane);
            }
        }
    }

    /// What [`Clip::apply`] made of `actions`.
    #[inline]
    pub fn clipped<'a>(&'a self, actions: &'a [u8]) -> &'a [u8] {
        if self.elements.is_empty() {
            actions
        } else {
            &bytemuck::cast_slice(&self.clipped)[..actions.len()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop_env::{Space, Spaces};

    fn clip(low: Vec<f64>, high: Vec<f64>, actions: &[f32]) -> (Vec<f32>, Vec<usize>) {
        bound(Bounding::Clip, low, high, actions)
    }

    fn bound(
        bounding: Bounding,
        low: Vec<f64>,
        high: Vec<f64>,
        actions: &[f32],
    ) -> (Vec<f32>, Vec<usize>) {
        let n = low.len();
        let spaces = Spaces::new(Space::discrete(2), Space::boxed(low, high, &[n])).unwrap();
        let mut clip = Clip::new(&spaces.action, actions.len() / n, bounding);
        let mut lost = vec![];
        let actions = bytemuck::cast_slice(actions);
        clip.apply(actions, |lane| lost.push(lane));
        let clipped = clip.clipped(actions);
        (
            clipped
                .chunks(4)
                .map(bytemuck::pod_read_unaligned)
                .collect(),
            lost,
        )
    }

    #[test]
    fn br_40_each_dimension_is_clipped_to_its_own_bounds() {
        const INF: f64 = f64::INFINITY;
        let low = vec![0.0, -INF, 0.0, 2.0, -3e38];
        let high = vec![5.0, INF, INF, 2.0, 3e38];
        let (clipped, lost) = clip(
            low,
            high,
            &[
                -1.0,
                -9e37,
                -1.0,
                7.0,
                f32::INFINITY,
                2.5,
                9e37,
                1e30,
                2.0,
                -3.2e38,
            ],
        );
        assert_eq!(
            clipped,
            [0.0, -9e37, 0.0, 2.0, 3e38, 2.5, 9e37, 1e30, 2.0, -3e38]
        );
        assert!(lost.is_empty());
    }

    #[test]
    fn what_is_not_finite_is_lost() {
        let inf = f64::INFINITY;
        let actions = [0.0, f32::NAN, f32::INFINITY, 0.0, 1.0, 1.0];
        let (_, lost) = clip(vec![-inf, -1.0], vec![inf, 1.0], &actions);
        assert_eq!(lost, [0, 1]);
    }

    #[test]
    fn br_23_br_40_a_squash_reaches_the_bounds_and_no_further() {
        let inf = f64::INFINITY;
        let low = vec![-2.0, 0.0, 3.0, -3e38, -inf];
        let high = vec![2.0, 5.0, 3.0, 3e38, inf];
        let actions = [
            0.0, 0.0, 7.0, 0.0, -9.0, //
            1.5, 30.0, -7.0, 30.0, 2.5, //
            -1.5, -30.0, 0.0, -30.0, 0.0,
        ];
        let (sent, lost) = bound(Bounding::Tanh, low, high, &actions);
        let at = 2.0 * 1.5f32.tanh();
        assert_eq!(
            sent,
            [
                0.0, 2.5, 3.0, 0.0, -9.0, //
                at, 5.0, 3.0, 3e38, 2.5, //
                -at, 0.0, 3.0, -3e38, 0.0,
            ]
        );
        assert!(lost.is_empty());
        let nan = bound(Bounding::Tanh, vec![-1.0], vec![1.0], &[0.0, f32::NAN]);
        assert_eq!(nan.1, [1]);
    }
}
