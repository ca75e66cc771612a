//! Action distributions over the network's outputs.
//!
//! Each has two faces that must agree: plain Rust on host memory, one row at a time for sampling in the
//! rollout (`categorical`, `gaussian`) and on many rows for hand-written gradients (`rows`), and
//! tensors, for any loss that autograd differentiates (`tensor`). What is stored, and what a log-probability is of, is
//! the policy's own sample before any clip; for a tanh-squashed Gaussian the pre-squash value.

mod categorical;
mod gaussian;
mod rows;
pub(crate) mod tensor;
#[cfg(test)]
mod tests;

pub use rows::{Densities, DensityGrads};

/// Why a row's action distribution cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistError {
    /// The mask leaves nothing to choose from.
    #[error(
        "the action mask of dimension {dimension} allows no action; an environment must leave at \
         least one action valid in every state that is not terminal"
    )]
    NoValidAction {
        /// Action dimension, 0 for a single discrete action.
        dimension: usize,
    },
    /// The network's outputs are NaN or infinite.
    #[error(
        "the network's output for action dimension {dimension} is not finite; look for NaN or \
         infinite observations, or a learning rate that is too high"
    )]
    NotFinite {
        /// Action dimension, 0 for a single discrete action.
        dimension: usize,
    },
}

/// The action distribution, as a function of the action space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadSpec {
    /// One of `n` actions; stored as one 0-based `i32`.
    Categorical {
        /// Number of actions.
        n: usize,
    },
    /// Independent choices, one per dimension (MultiBinary: all sizes 2); stored as one 0-based
    /// `i32` per dimension. Logits and masks of the dimensions lie one after the other.
    MultiCategorical {
        /// Number of choices per dimension.
        sizes: Vec<usize>,
    },
    /// Diagonal Gaussian with state-independent deviations; stored as one `f32` per dimension.
    Gaussian {
        /// Dimensions of the action.
        dim: usize,
        /// Whether the environment is sent `tanh` of the sample.
        squash: bool,
    },
}

/// How an action is chosen from its distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Drawn.
    Sample,
    /// The likeliest: ties go to the lowest index; the mean of a Gaussian.
    Greedy,
}

/// Where the chosen action of one row goes.
#[derive(Debug)]
pub enum ActionMut<'a> {
    /// 0-based indices, one per dimension.
    Index(&'a mut [i32]),
    /// Real numbers, one per dimension, before any squash or clip.
    Real(&'a mut [f32]),
}

/// Stored actions, of one row or of many.
#[derive(Clone, Copy, Debug)]
pub enum ActionRef<'a> {
    /// 0-based indices, one per dimension.
    Index(&'a [i32]),
    /// Real numbers, one per dimension, before any squash or clip.
    Real(&'a [f32]),
}

impl HeadSpec {
    /// Logits or means per row.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Categorical { n } => *n,
            Self::MultiCategorical { sizes } => sizes.iter().sum(),
            Self::Gaussian { dim, .. } => *dim,
        }
    }

    /// Elements of one stored action.
    pub fn action_len(&self) -> usize {
        match self {
            Self::Categorical { .. } => 1,
            Self::MultiCategorical { sizes } => sizes.len(),
            Self::Gaussian { dim, .. } => *dim,
        }
    }

    /// Elements of one mask row, 0 where masks have no meaning.
    pub fn mask_len(&self) -> usize {
        match self {
            Self::Gaussian { .. } => 0,
            _ => self.outputs(),
        }
    }

    /// Dimensions of the state-independent log deviations, if the distribution has them.
    pub fn log_std_dim(&self) -> Option<usize> {
        match self {
            Self::Gaussian { dim, .. } => Some(*dim),
            _ => None,
        }
    }

    /// Whether stored actions are indices (`i32`) and not real numbers (`f32`).
    pub fn is_discrete(&self) -> bool {
        !matches!(self, Self::Gaussian { .. })
    }

    /// Sizes of the categorical dimensions.
    fn sizes(&self) -> &[usize] {
        match self {
            Self::Categorical { n } => std::slice::from_ref(n),
            Self::MultiCategorical { sizes } => sizes,
            Self::Gaussian { .. } => &[],
        }
    }

    /// Chooses the action of one row and returns its log-probability.
    ///
    /// `row` holds the row's `outputs()` logits or means, `log_std` the deviations of a Gaussian
    /// (else empty), `mask` one byte per logit (0 forbids). `uniform` yields numbers in `[0, 1)`
    /// from the lane's own stream: one per categorical dimension, two per pair of Gaussian
    /// dimensions; none when greedy.
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
        action: ActionMut<'_>,
    ) -> Result<f32, DistError> {
        match (self, action) {
            (Self::Gaussian { squash, .. }, ActionMut::Real(action)) => {
                gaussian::choose(choice, row, log_std, *squash, uniform, action)
            }
            (Self::Categorical { .. }, ActionMut::Index([action])) => {
                let (index, log_prob) =
                    categorical::choose(choice, row, mask, &mut uniform).map_err(|e| e.at(0))?;
                *action = index as i32;
                Ok(log_prob)
            }
            (Self::MultiCategorical { sizes }, ActionMut::Index(action)) => {
                let (mut start, mut log_prob) = (0, 0.0);
                for (dimension, (size, action)) in sizes.iter().zip(action).enumerate() {
                    let range = start..start + size;
                    let mask = mask.map(|m| &m[range.clone()]);
                    let (index, lp) = categorical::choose(choice, &row[range], mask, &mut uniform)
                        .map_err(|e| e.at(dimension))?;
                    *action = index as i32;
                    log_prob += lp;
                    start += size;
                }
                Ok(log_prob)
            }
            (spec, action) => panic!("{spec:?} cannot write its action into {action:?}"),
        }
    }

    /// What the environment is sent for a stored real action: `tanh` of it where the head
    /// squashes, else the sample itself (clipping to bounds comes after).
    pub fn to_env(&self, stored: &[f32], sent: &mut [f32]) {
        let squash = matches!(self, Self::Gaussian { squash: true, .. });
        for (out, u) in sent.iter_mut().zip(stored) {
            *out = if squash { u.tanh() } else { *u };
        }
    }
}
