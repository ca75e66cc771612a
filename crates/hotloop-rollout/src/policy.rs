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

    /// The newest version there is, with which the next batch of rows granted with
    /// [`Acting::Newest`](crate::Acting::Newest) is decided: it must not vanish before. It never goes
    /// back, whichever worker's policy is asked.
    fn newest(&mut self) -> u64 {
        0
    }
}
