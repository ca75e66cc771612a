//! What a policy's outputs mean: one distribution for each leaf of the action space.

use super::{Choice, DistError, categorical, gaussian};
use std::ops::Range;

/// Where the deviations of a Gaussian come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// Parameters of their own, the same in every state.
    Free,
    /// Outputs of the network beside the means, as logarithms between −20 and 2 (Haarnoja et al. 2018).
    State,
}

/// The distribution of one leaf of the action space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadPart {
    /// Independent choices, one per dimension (a Discrete has one, bits have two choices each). One logit per choice.
    Categorical {
        /// Number of choices per dimension.
        sizes: Vec<usize>,
        /// Whether action masks have a byte for each of the choices.
        masked: bool,
    },
    /// Diagonal Gaussian: means, then with [`Deviation::State`] log deviations.
    Gaussian {
        /// Dimensions of the action.
        dim: usize,
        /// Where its deviations come from.
        deviation: Deviation,
        /// Whether the environment is sent `tanh` of the sample, scaled to its bounds.
        squash: bool,
    },
}

impl HeadPart {
    /// Outputs of the network per row.
    fn outputs(&self) -> usize {
        match self {
            Self::Categorical { sizes, .. } => sizes.iter().sum(),
            Self::Gaussian { dim, deviation, .. } => match deviation {
                Deviation::Free => *dim,
                Deviation::State => 2 * dim,
            },
        }
    }

    /// Words of the stored action.
    fn words(&self) -> usize {
        match self {
            Self::Categorical { sizes, .. } => sizes.len(),
            Self::Gaussian { dim, .. } => *dim,
        }
    }

    fn mask_len(&self) -> usize {
        match self {
            Self::Categorical { masked: true, .. } => self.outputs(),
            _ => 0,
        }
    }

    fn free_deviations(&self) -> usize {
        match self {
            Self::Gaussian {
                dim,
                deviation: Deviation::Free,
                ..
            } => *dim,
            _ => 0,
        }
    }

    /// Random numbers that one sample takes.
    fn uniforms(&self) -> usize {
        match self {
            Self::Categorical { sizes, .. } => sizes.len(),
            Self::Gaussian { dim, .. } => dim.next_multiple_of(2),
        }
    }
}

/// A part with its places: in a row of outputs, in a stored action, in a mask, among the free deviations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) part: HeadPart,
    pub(super) outputs: Range<usize>,
    pub(super) words: Range<usize>,
    pub(super) mask: Range<usize>,
    pub(super) log_std: Range<usize>,
}

/// The action distribution: independent parts, one for each leaf of the action space, in leaf order. Log-probabilities
/// and entropies are sums over the parts.
///
/// An action is stored as 4-byte words, one per dimension: choices as `i32` counted from 0, real numbers as the bits of
/// their `f32`. Outputs, masks and words of the parts lie one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadSpec {
    pub(super) parts: Vec<Placed>,
    outputs: usize,
    words: usize,
    mask: usize,
    log_std: usize,
    uniforms: usize,
}

impl FromIterator<HeadPart> for HeadSpec {
    fn from_iter<I: IntoIterator<Item = HeadPart>>(parts: I) -> Self {
        let mut head = Self {
            parts: vec![],
            outputs: 0,
            words: 0,
            mask: 0,
            log_std: 0,
            uniforms: 0,
        };
        let take = |at: &mut usize, n: usize| {
            *at += n;
            *at - n..*at
        };
        for part in parts {
            head.uniforms += part.uniforms();
            head.parts.push(Placed {
                outputs: take(&mut head.outputs, part.outputs()),
                words: take(&mut head.words, part.words()),
                mask: take(&mut head.mask, part.mask_len()),
                log_std: take(&mut head.log_std, part.free_deviations()),
                part,
            });
        }
        head
    }
}

impl From<HeadPart> for HeadSpec {
    fn from(part: HeadPart) -> Self {
        Self::from_iter([part])
    }
}

impl HeadSpec {
    /// One of `n` actions.
    pub fn categorical(n: usize) -> Self {
        Self::multi_categorical(&[n])
    }

    /// Independent choices, one per dimension.
    pub fn multi_categorical(sizes: &[usize]) -> Self {
        Self::from(HeadPart::Categorical {
            sizes: sizes.to_vec(),
            masked: false,
        })
    }

    /// A diagonal Gaussian of `dim` dimensions with free deviations and without a squash.
    pub fn gaussian(dim: usize) -> Self {
        Self::from(HeadPart::Gaussian {
            dim,
            deviation: Deviation::Free,
            squash: false,
        })
    }

    /// The same with masks for all choices.
    #[must_use]
    pub fn masked(self) -> Self {
        self.map(|part| match part {
            HeadPart::Categorical { sizes, .. } => HeadPart::Categorical {
                sizes,
                masked: true,
            },
            gaussian => gaussian,
        })
    }

    /// The same with tanh squashed Gaussians.
    #[must_use]
    pub fn squashed(self) -> Self {
        self.map(|part| match part {
            HeadPart::Gaussian { dim, deviation, .. } => HeadPart::Gaussian {
                dim,
                deviation,
                squash: true,
            },
            categorical => categorical,
        })
    }

    fn map(self, f: impl Fn(HeadPart) -> HeadPart) -> Self {
        self.parts
            .into_iter()
            .map(|placed| f(placed.part))
            .collect()
    }

    /// The parts, in the order of the action space's leaves.
    pub fn parts(&self) -> impl Iterator<Item = &HeadPart> {
        self.parts.iter().map(|placed| &placed.part)
    }

    /// Logits, means and log deviations per row.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Words of one stored action.
    pub fn action_len(&self) -> usize {
        self.words
    }

    /// Bytes of one mask row: one for each choice of every masked part.
    pub fn mask_len(&self) -> usize {
        self.mask
    }

    /// Dimensions of the state-independent log deviations, if any part has them.
    pub fn log_std_dim(&self) -> Option<usize> {
        (self.log_std > 0).then_some(self.log_std)
    }

    /// Whether environments are to be sent the `tanh` of real actions.
    pub fn squashes(&self) -> bool {
        self.parts()
            .any(|part| matches!(part, HeadPart::Gaussian { squash: true, .. }))
    }

    /// Uniform random numbers that one sample takes.
    pub fn uniforms(&self) -> usize {
        self.uniforms
    }

    /// Chooses the action of one row and returns its log-probability.
    ///
    /// `row` holds the row's `outputs()`, `log_std` the free log deviations, `mask` one byte per masked choice
    /// (0 forbids). `uniform` yields numbers in `[0, 1)` from the lane's own stream: one per categorical dimension, two
    /// per pair of a Gaussian's dimensions, part after part; none when greedy.
    ///
    /// # Errors
    /// If a mask allows nothing, or the outputs are not finite.
    ///
    /// # Panics
    /// If a slice has another length than this specification says.
    #[inline]
    pub fn choose(
        &self,
        choice: Choice,
        row: &[f32],
        log_std: &[f32],
        mask: Option<&[u8]>,
        mut uniform: impl FnMut() -> f32,
        action: &mut [i32],
    ) -> Result<f32, DistError> {
        let mut log_prob = 0.0;
        for placed in &self.parts {
            let row = &row[placed.outputs.clone()];
            let first = placed.words.start;
            let words = &mut action[placed.words.clone()];
            match &placed.part {
                HeadPart::Categorical { sizes, masked } => {
                    let mask = mask.filter(|_| *masked).map(|m| &m[placed.mask.clone()]);
                    let mut start = 0;
                    for (i, (size, word)) in sizes.iter().zip(words).enumerate() {
                        let range = start..start + size;
                        let mask = mask.map(|m| &m[range.clone()]);
                        let (index, lp) =
                            categorical::choose(choice, &row[range], mask, &mut uniform)
                                .map_err(|e| e.at(first + i))?;
                        *word = index as i32;
                        log_prob += lp;
                        start += size;
                    }
                }
                HeadPart::Gaussian { squash, .. } => {
                    let gaussian = placed.gaussian(row, log_std);
                    let action = bytemuck::cast_slice_mut(words);
                    log_prob += gaussian::choose(choice, gaussian, *squash, &mut uniform, action)
                        .map_err(|e| e.after(first))?;
                }
            }
        }
        Ok(log_prob)
    }
}

impl Placed {
    /// Means and log deviations of a Gaussian part, of its outputs in one row and all free deviations.
    pub(super) fn gaussian<'a>(&self, row: &'a [f32], log_std: &'a [f32]) -> gaussian::Outputs<'a> {
        let bounded = self.log_std.is_empty();
        let (means, log_std) = if bounded {
            row.split_at(row.len() / 2)
        } else {
            (row, &log_std[self.log_std.clone()])
        };
        gaussian::Outputs {
            means,
            log_std,
            bounded,
        }
    }
}

impl DistError {
    /// The same with dimensions counted from `first`.
    fn after(self, first: usize) -> Self {
        match self {
            Self::NoValidAction { dimension } => Self::NoValidAction {
                dimension: dimension + first,
            },
            Self::NotFinite { dimension } => Self::NotFinite {
                dimension: dimension + first,
            },
        }
    }
}
