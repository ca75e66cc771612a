//! What decides for lanes.

use crate::{Batch, PolicyError};

/// A policy, owned by one inference worker thread.
///
/// It must write a value for every lane of the batch, whether the row is valid or not: final
/// observations are evaluated like any other. Actions and log-probabilities are read only of rows that
/// are valid.
pub trait Policy: Send {
    /// Decides for all lanes of `batch`; of a bootstrap batch only values are wanted.
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError>;
}
