//! The valid rows of a batch of segments, as the columns that minibatches are drawn from.

use crate::{
    algo::{Algorithm, Minibatch},
    dist::HeadSpec,
    error::LearnError,
    memory,
    normalize::{Normalizer, encode},
};
use hotloop_env::{FeaturePlan, Layout, end_flags};
use hotloop_math::Rows;
use hotloop_rollout::Segment;
use tch::{Device, Kind, Tensor};

/// Columns with room for every row of a batch; rows that are not valid are left out.
pub(crate) struct Columns {
    plan: FeaturePlan,
    room: Minibatch,
    device: Device,
    rows: usize,
    rewards: Vec<f32>,
    terminated: Vec<u8>,
    advantages: Vec<f32>,
    targets: Vec<f32>,
    features: Vec<f32>,
    standardized: Vec<f32>,
}

impl Columns {
    pub(crate) fn new(
        plan: FeaturePlan,
        head: &HeadSpec,
        action: &Layout,
        capacity: usize,
        device: Device,
    ) -> Self {
        let n = capacity as i64;
        let column = |shape: &[i64], kind| Tensor::zeros(shape, (kind, Device::Cpu));
        let room = Minibatch {
            observations: column(&[n, plan.features() as i64], Kind::Float),
            actions: column(&[n, head.action_len() as i64], Kind::Int),
            old_log_probs: column(&[n], Kind::Float),
            old_values: column(&[n], Kind::Float),
            advantages: column(&[n], Kind::Float),
            targets: column(&[n], Kind::Float),
            valid: Tensor::ones([n], (Kind::Uint8, Device::Cpu)),
            masks: (action.mask_bytes() > 0)
                .then(|| column(&[n, action.mask_bytes() as i64], Kind::Uint8)),
            valid_count: 1.0,
            sequences: None,
        };
        Self {
            plan,
            room,
            device,
            rows: 0,
            rewards: vec![],
            terminated: vec![],
            advantages: vec![],
            targets: vec![],
            features: vec![],
            standardized: vec![],
        }
    }

    /// Valid rows taken in.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn plan(&self) -> &FeaturePlan {
        &self.plan
    }

    /// The advantages, by row.
    pub(crate) fn advantages(&self) -> &[f32] {
        // SAFETY: `&self` keeps `fill` away, which alone writes the columns.
        let all = unsafe { memory::f32s(&self.room.advantages) };
        &all[..self.rows]
    }

    /// Value targets and the rollout's values, by row.
    pub(crate) fn targets_and_values(&self) -> (&[f32], &[f32]) {
        // SAFETY: as for the advantages.
        let (targets, values) = unsafe {
            (
                memory::f32s(&self.room.targets),
                memory::f32s(&self.room.old_values),
            )
        };
        (&targets[..self.rows], &values[..self.rows])
    }

    /// Takes in the valid rows of `segments`, in order, with the advantages and targets of `algorithm`.
    /// Rows are normalized as the version that acted on them did: `version`, which is that of
    /// `normalizer`, or the one before. Returns the whole batch, on the device that is trained on.
    pub(crate) fn fill(
        &mut self,
        segments: &[Segment],
        algorithm: &dyn Algorithm,
        normalizer: &Normalizer,
        version: u64,
    ) -> Result<Minibatch, LearnError> {
        self.rows = 0;
        for segment in segments {
            let standardizer = if segment.version() == version {
                normalizer.standardizer()
            } else {
                normalizer.standardizer_before()
            };
            let (lanes, rows) = (segment.lanes(), segment.rows() * segment.lanes());
            normalizer.scale_rewards(segment.rewards(), &mut self.rewards);
            self.terminated.clear();
            self.terminated.extend(
                segment
                    .ends()
                    .iter()
                    .map(|flags| flags & end_flags::TERMINATED),
            );
            self.advantages.resize(rows, 0.0);
            self.targets.resize(rows, 0.0);
            let view = Rows::new(
                lanes,
                &self.rewards,
                segment.values(),
                &self.terminated,
                segment.valid(),
            );
            algorithm.estimate(&view, &mut self.advantages, &mut self.targets);

            let mut features = encode(&self.plan, segment, rows, &mut self.features);
            if let Some(standardizer) = standardizer {
                self.standardized.resize(features.len(), 0.0);
                standardizer.apply(features, &mut self.standardized);
                features = &self.standardized;
            }
            let at = self.rows;
            let valid = &segment.valid()[..rows];
            let action = segment.spaces().action.record_bytes();
            let room = &mut self.room;
            // SAFETY: the columns are this struct's own, and `&mut self` makes this the only access;
            // minibatches drawn from them before are gone (`fill` begins an update).
            unsafe {
                pack(
                    features,
                    valid,
                    self.plan.features(),
                    at,
                    memory::f32s_mut(&room.observations),
                );
                pack(
                    segment.actions(),
                    valid,
                    action,
                    at,
                    memory::bytes_mut(&room.actions),
                );
                pack(
                    segment.log_probs(),
                    valid,
                    1,
                    at,
                    memory::f32s_mut(&room.old_log_probs),
                );
                pack(
                    segment.values(),
                    valid,
                    1,
                    at,
                    memory::f32s_mut(&room.old_values),
                );
                pack(
                    &self.advantages,
                    valid,
                    1,
                    at,
                    memory::f32s_mut(&room.advantages),
                );
                pack(&self.targets, valid, 1, at, memory::f32s_mut(&room.targets));
                if let Some(masks) = &room.masks {
                    let width = segment.spaces().action.mask_bytes();
                    pack(segment.masks(), valid, width, at, memory::bytes_mut(masks));
                }
            }
            self.rows += valid.iter().map(|&v| usize::from(v)).sum::<usize>();
        }
        Ok(self.room.slice(0, self.rows as i64).to_device(self.device))
    }
}

/// Copies the items of valid rows (`width` elements each) behind each other, from row `at` of `out` on.
fn pack<T: Copy>(items: &[T], valid: &[u8], width: usize, at: usize, out: &mut [T]) {
    let mut to = at * width;
    let mut from = 0;
    // Runs of valid rows are copied at once: most batches have few that are not.
    while from < valid.len() {
        let run = valid[from..].iter().take_while(|&&v| v != 0).count();
        let items = &items[from * width..(from + run) * width];
        out[to..to + items.len()].copy_from_slice(items);
        to += items.len();
        from += run;
        from += valid[from..].iter().take_while(|&&v| v == 0).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_08_rows_that_are_not_valid_are_left_out() {
        let mut out = [0; 8];
        pack(&[1, 2, 3, 4, 5, 6, 7, 8], &[1, 0, 1, 1], 2, 1, &mut out);
        assert_eq!(out, [0, 0, 1, 2, 5, 6, 7, 8]);
        pack(&[9, 9], &[0, 0], 1, 0, &mut out);
        assert_eq!(out, [0, 0, 1, 2, 5, 6, 7, 8]);
    }
}
