//! The segments that an update is made of, with what it takes to read them.

use crate::{
    learner::UpdateStats,
    normalize::{Normalizer, encode},
};
use hotloop_env::FeaturePlan;
use hotloop_rollout::Segment;

/// Segments, and the version that is to be trained on them.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub(crate) segments: &'a [Segment],
    /// The learner's version: updates made so far.
    pub(crate) version: u64,
    /// Rows decided with a version older by more than this are not trained on.
    pub(crate) max_staleness: u64,
}

impl Incoming<'_> {
    /// How many rows at the beginning of `segment` are too old to be trained on.
    pub(crate) fn stale_rows(&self, segment: &Segment) -> usize {
        segment.rows_before(self.version.saturating_sub(self.max_staleness))
    }

    /// How many versions older than the learner's that of a row is.
    pub(crate) fn staleness(&self, version: u64) -> u64 {
        self.version.saturating_sub(version)
    }

    /// How old the valid rows are, and how many too old; the rest is left at its default.
    pub(crate) fn ages(&self) -> UpdateStats {
        let (mut stats, mut sum) = (UpdateStats::default(), 0.0);
        let mut rows = 0;
        for segment in self.segments {
            let fresh_from = self.stale_rows(segment);
            let by_row = segment.valid().chunks_exact(segment.lanes());
            for (row, (valid, &version)) in by_row
                .zip(segment.versions())
                .take(segment.rows())
                .enumerate()
            {
                let valid = valid.iter().filter(|v| **v != 0).count();
                if row < fresh_from {
                    stats.stale += valid;
                } else if valid > 0 {
                    let age = self.staleness(version);
                    stats.staleness_max = stats.staleness_max.max(age);
                    sum += age as f64 * valid as f64;
                    rows += valid;
                }
            }
        }
        stats.staleness_mean = sum / rows.max(1) as f64;
        stats
    }
}

/// Observations as the network sees them.
pub(crate) struct Features {
    pub(crate) plan: FeaturePlan,
    encoded: Vec<f32>,
    standardized: Vec<f32>,
}

impl Features {
    pub(crate) fn new(plan: FeaturePlan) -> Self {
        Self {
            plan,
            encoded: vec![],
            standardized: vec![],
        }
    }

    /// The first `rows` rows of all lanes, `[rows][L][features]`, each normalized as the version did that
    /// acted on it. `normalizer` is of `incoming`'s version.
    pub(crate) fn of<'a>(
        &'a mut self,
        segment: &'a Segment,
        rows: usize,
        incoming: &Incoming<'_>,
        normalizer: &Normalizer,
    ) -> &'a [f32] {
        let width = segment.lanes() * self.plan.features();
        let lanes = rows * segment.lanes();
        let features = encode(&self.plan, segment, lanes, &mut self.encoded);
        if normalizer.standardizer().is_none() {
            return features;
        }
        self.standardized.resize(features.len(), 0.0);
        let mut from = 0;
        for same in segment.versions()[..rows].chunk_by(|a, b| a == b) {
            let part = from * width..(from + same.len()) * width;
            let before = incoming.staleness(same[0]);
            if let Some(standardizer) = normalizer.standardizer_before(before) {
                standardizer.apply(&features[part.clone()], &mut self.standardized[part]);
            }
            from += same.len();
        }
        &self.standardized
    }
}
