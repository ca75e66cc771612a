//! Stacks of frames: the last few observations of an episode seen as one, while each is stored once.

use crate::{Bound, BoxSpace, ImageLayout, Layout, Space, SpaceError, Spaces};
use std::ops::Range;

/// The largest stack: so many frames can be counted in 16 bits.
const MOST: usize = 1 << 16;

impl Spaces {
    /// The same spaces where a policy sees the last `k` observations as one, oldest first; 0 for the
    /// last alone. The frames before an episode's first are the first, repeated.
    ///
    /// What environments write and a slab stores stays one frame. What is seen has a new leading axis,
    /// `[k, …]`; a stack of images is an image again, channels first, with `k` times the channels:
    /// `[k · channels, height, width]`.
    ///
    /// # Errors
    /// If observations are not a single box, or `k` is more than 65,536.
    pub fn stacked(self, k: usize) -> Result<Self, SpaceError> {
        if k == 0 {
            return Ok(self);
        }
        let seen = stacked(&self.observation_space, k)?;
        let as_seen = Self::new(seen, self.action_space)?;
        Ok(Self {
            observation: self.observation,
            stack: k,
            ..as_seen
        })
    }
}

/// The space of the last `k` observations of `space`.
pub(crate) fn stacked(space: &Space, k: usize) -> Result<Space, SpaceError> {
    let unfit = |reason: String| SpaceError {
        path: "observation".into(),
        reason,
    };
    let Space::Box(frame) = space else {
        return Err(unfit(format!(
            "frames can only be stacked of a single box; the observation space is {space}"
        )));
    };
    if k == 0 || k > MOST {
        return Err(unfit(format!(
            "a stack has 1 to {MOST} frames; {k} were asked for"
        )));
    }
    let order = shown_order(frame);
    let side = |bound: &Bound| match bound {
        Bound::Uniform(bound) => Bound::Uniform(*bound),
        Bound::Each(each) => {
            let shown = match &order {
                Some(order) => order.iter().map(|&i| each[i]).collect(),
                None => each.clone(),
            };
            Bound::Each(shown.repeat(k))
        }
    };
    let shape = match (frame.image, frame.shape.as_slice()) {
        (Some(ImageLayout::Chw), &[c, h, w]) | (Some(ImageLayout::Hwc), &[h, w, c]) => {
            vec![k * c, h, w]
        }
        _ => [&[k], frame.shape.as_slice()].concat(),
    };
    Ok(Space::Box(BoxSpace {
        shape,
        low: side(&frame.low),
        high: side(&frame.high),
        dtype: frame.dtype,
        image: frame.image.map(|_| ImageLayout::Chw),
    }))
}

/// The order that brings the channels of an image that has them last to the front; none if elements stay
/// where they are.
pub(crate) fn shown_order(frame: &BoxSpace) -> Option<Vec<usize>> {
    match (frame.image, frame.shape.as_slice()) {
        (Some(ImageLayout::Hwc), &[h, w, c]) => {
            let pixels = h * w;
            Some(
                (0..pixels * c)
                    .map(|i| i % pixels * c + i / pixels)
                    .collect(),
            )
        }
        _ => None,
    }
}

/// Observations as a policy sees them: each with the frames before it, which lie in the rows before.
/// Without a stack they are records alone.
#[derive(Clone, Copy, Debug)]
pub struct Stacks<'a> {
    records: &'a [u8],
    depths: &'a [u16],
    lanes: usize,
    bytes: usize,
    stack: usize,
}

impl<'a> Stacks<'a> {
    /// Rows of `lanes` observations each, with `spaces.stack − 1` rows before them:
    /// `[stack − 1 + rows][lanes][record]`. `depths`, `[rows][lanes]`, say how many frames before each
    /// observation are of its episode (see [`Stacks::depth`]); they are empty without a stack.
    pub fn new(spaces: &Spaces, lanes: usize, records: &'a [u8], depths: &'a [u16]) -> Self {
        let (bytes, stack) = (spaces.observation.record_bytes(), spaces.stack);
        debug_assert!(stack == 1 || records.len() == (depths.len() + (stack - 1) * lanes) * bytes);
        Self {
            records,
            depths,
            lanes,
            bytes,
            stack,
        }
    }

    /// Records of `layout` of which each is an observation by itself.
    pub fn single(layout: &Layout, records: &'a [u8]) -> Self {
        Self {
            records,
            depths: &[],
            lanes: 1,
            bytes: layout.record_bytes(),
            stack: 1,
        }
    }

    /// How many frames before an observation are of its episode, at most `stack − 1`, if that of the
    /// lane's row before is `before`. `start` is 1 for the first of an episode.
    pub fn depth(stack: usize, before: u16, start: u8) -> u16 {
        match start {
            0 => (before as usize + 1).min(stack - 1) as u16,
            _ => 0,
        }
    }

    /// These rows of them.
    pub fn rows(&self, rows: Range<usize>) -> Self {
        let row = self.lanes * self.bytes;
        let depths = match self.stack {
            1 => self.depths,
            _ => &self.depths[rows.start * self.lanes..rows.end * self.lanes],
        };
        Self {
            records: &self.records[rows.start * row..(rows.end + self.stack - 1) * row],
            depths,
            ..*self
        }
    }

    /// The last frame of every observation, `[rows][lanes][record]`: all there is without a stack.
    pub fn last(&self) -> &'a [u8] {
        &self.records[(self.stack - 1) * self.lanes * self.bytes..]
    }

    /// The frames of observation `i`, counted lane by lane in row after row, oldest first.
    pub fn frames(&self, i: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let depth = self.depths.get(i).map_or(0, |&depth| depth as usize);
        let Self {
            records,
            lanes,
            bytes,
            stack,
            ..
        } = *self;
        (0..stack).rev().map(move |back| {
            let at = (stack - 1 - back.min(depth)) * lanes + i;
            &records[at * bytes..(at + 1) * bytes]
        })
    }

    /// Copies all frames of one row of observations, as they are seen, into `out`, `[stack][lanes][record]`.
    /// There all frames are of the episode of the last.
    pub fn keep(&self, out: &mut [u8]) {
        if self.stack == 1 {
            return out.copy_from_slice(self.records);
        }
        for lane in 0..self.lanes {
            for (row, frame) in self.frames(lane).enumerate() {
                let at = (row * self.lanes + lane) * self.bytes;
                out[at..at + self.bytes].copy_from_slice(frame);
            }
        }
    }

    /// Calls `each(record, place)` for the frames of `observations`, whose places in `out` have `width` elements
    /// and follow each other.
    pub(crate) fn for_each<T>(
        &self,
        observations: Range<usize>,
        width: usize,
        out: &mut [T],
        mut each: impl FnMut(&[u8], &mut [T]),
    ) {
        let mut places = out.chunks_exact_mut(width.max(1));
        if self.stack == 1 {
            let records = observations.start * self.bytes..observations.end * self.bytes;
            let records = self.records[records].chunks_exact(self.bytes.max(1));
            return records
                .zip(places)
                .for_each(|(record, place)| each(record, place));
        }
        for i in observations {
            for (frame, place) in self.frames(i).zip(places.by_ref()) {
                each(frame, place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FeaturePlan;

    fn spaces(frame: Space, k: usize) -> Spaces {
        let spaces = Spaces::new(frame, Space::discrete(1)).unwrap();
        spaces.stacked(k).unwrap()
    }

    #[test]
    fn what_is_seen_is_a_stack_and_what_is_stored_a_frame() {
        let of = spaces(Space::unbounded(&[3]), 4);
        assert_eq!(of.observation_space, Space::unbounded(&[4, 3]));
        assert_eq!((of.observation.record_bytes(), of.stack), (12, 4));
        assert_eq!(of.seen, Layout::new(&of.observation_space).unwrap());

        let image = spaces(Space::image([2, 3, 1], ImageLayout::Hwc), 4);
        let seen = Space::image([4, 2, 3], ImageLayout::Chw);
        assert_eq!(image.observation_space, seen);

        let alone = spaces(Space::unbounded(&[3]), 0);
        assert!(alone.are_stored_as(&of) && !alone.are_stored_as(&image));
        assert_eq!(alone.observation_space, Space::unbounded(&[3]));
        assert_eq!((&alone.seen, alone.stack), (&alone.observation, 1));
        assert!(FeaturePlan::of(&alone).is_plain());
    }

    #[test]
    fn frames_are_stacked_of_a_single_box() {
        let refused = |space: Space, k| {
            let spaces = Spaces::new(space, Space::discrete(1)).unwrap();
            spaces.stacked(k).unwrap_err().to_string()
        };
        let error = refused(Space::dict([("x", Space::unbounded(&[1]))]), 2);
        assert!(error.contains("single box"), "{error}");
        let error = refused(Space::unbounded(&[1]), 65_537);
        assert!(error.contains("65537 were asked for"), "{error}");
    }

    /// Two lanes, three rows of history and three rows, in a stack of 4: lane 0 begins an episode in the
    /// second row, lane 1 is long in one.
    const RECORDS: [u8; 12] = [10, 20, 11, 21, 12, 22, 13, 23, 14, 24, 15, 25];
    const DEPTHS: [u16; 6] = [3, 3, 0, 3, 1, 3];

    fn frames() -> Spaces {
        spaces(Space::image([1, 1, 1], ImageLayout::Chw), 4)
    }

    #[test]
    fn br_34_frames_of_the_episode_before_are_the_first_one_repeated() {
        let spaces = frames();
        let stacks = Stacks::new(&spaces, 2, &RECORDS, &DEPTHS);
        let of = |i| stacks.frames(i).map(|frame| frame[0]).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![10, 11, 12, 13], vec![20, 21, 22, 23]));
        assert_eq!((of(2), of(3)), (vec![14; 4], vec![21, 22, 23, 24]));
        assert_eq!((of(4), of(5)), (vec![14, 14, 14, 15], vec![22, 23, 24, 25]));
        assert_eq!(stacks.last(), [13, 23, 14, 24, 15, 25]);
        let mut depths = DEPTHS[..2].to_vec();
        for starts in [[1, 0], [0, 0]] {
            for (depth, start) in depths.iter_mut().zip(starts) {
                *depth = Stacks::depth(4, *depth, start);
            }
        }
        assert_eq!(depths, DEPTHS[4..]);
    }

    #[test]
    fn a_row_is_kept_as_it_is_seen() {
        let (spaces, mut kept) = (frames(), [0; 8]);
        let stacks = Stacks::new(&spaces, 2, &RECORDS, &DEPTHS);
        stacks.rows(2..3).keep(&mut kept);
        assert_eq!(kept, [14, 22, 14, 23, 14, 24, 15, 25]);

        let alone = Stacks::single(&spaces.observation, &RECORDS).rows(3..5);
        let mut kept = [0; 2];
        alone.keep(&mut kept);
        assert_eq!((kept, alone.last()), ([21, 12], &[21, 12][..]));
    }

    #[test]
    fn the_features_of_a_stack_are_those_of_what_is_seen() {
        let spaces = spaces(Space::image([1, 2, 2], ImageLayout::Hwc), 3);
        // One lane: two frames of history, of which the first is of another episode, and one row.
        let records = [9, 9, 9, 9, 0, 1, 10, 11, 100, 101, 110, 111u8];
        let stacks = Stacks::new(&spaces, 1, &records, &[1]);
        let plan = FeaturePlan::of(&spaces);
        let mut features = [0.0; 12];
        plan.encode_stacks(&stacks, 0..1, &mut features);
        let seen = [0, 10, 1, 11, 0, 10, 1, 11, 100, 110, 101, 111u8];
        let mut expected = [0.0; 12];
        FeaturePlan::new(&spaces.seen).encode(&seen, &mut expected);
        assert_eq!(features, expected);
        assert!(!plan.is_plain() && plan.features() == 12);
    }
}
