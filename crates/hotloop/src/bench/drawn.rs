//! A policy without a network: rollouts alone are measured with it.

use hotloop_env::{EnvRng, LeafKind, Spaces, Stream};
use hotloop_rollout::{Batch, Policy, PolicyError};

/// Actions drawn once, before anything is measured, and used again and again: rollouts without
/// inference, whose episodes are as long as those of random play.
pub(super) struct Drawn {
    records: Vec<u8>,
    record: usize,
    calls: usize,
}

impl Drawn {
    /// Successive calls begin at another record, so that no lane always takes the same action.
    const SHIFTS: usize = 61;

    pub(super) fn new(spaces: &Spaces, lanes: usize, seed: u64) -> Self {
        let layout = &spaces.action;
        let record = layout.record_bytes();
        let mut rng = EnvRng::new(seed, 0, Stream::Action);
        let mut records = vec![0; (lanes + Self::SHIFTS) * record];
        for action in records.chunks_exact_mut(record.max(1)) {
            for leaf in layout.leaves() {
                let elements = action[leaf.bytes()].chunks_exact_mut(leaf.dtype.size());
                for (i, element) in elements.enumerate() {
                    match &leaf.kind {
                        LeafKind::Box(space) => {
                            let (low, high) =
                                (space.low.at(i).max(-1.0), space.high.at(i).min(1.0));
                            let value = rng.range(low, high.max(low)) as f32;
                            element.copy_from_slice(&value.to_ne_bytes());
                        }
                        choice => {
                            let index = rng.below(choice.choices()[i] as u64) as i32;
                            element.copy_from_slice(&index.to_ne_bytes());
                        }
                    }
                }
            }
        }
        Self {
            records,
            record,
            calls: 0,
        }
    }
}

impl Policy for Drawn {
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        if !batch.bootstrap() {
            let start = self.calls % Self::SHIFTS * self.record;
            let actions = batch.outputs().actions;
            actions.copy_from_slice(&self.records[start..start + actions.len()]);
            self.calls += 1;
        }
        Ok(())
    }
}
