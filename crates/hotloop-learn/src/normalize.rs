//! The running statistics that are part of a policy: of observations, and of discounted returns.
//!
//! They change once per update, after training on a batch, and only by its valid rows; every row is
//! normalized with the statistics of the version that acted on it, in the rollout and here alike.

use hotloop_env::{FeaturePlan, end_flags};
use hotloop_math::{ReturnScaler, RunningMoments, Standardizer};
use hotloop_rollout::Segment;

/// What is normalized, and how far results may go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NormalizerSpec {
    /// Bound of standardized features; `None` leaves observations alone.
    pub observation_clip: Option<f32>,
    /// Bound of scaled rewards; `None` leaves rewards alone.
    pub reward_clip: Option<f32>,
}

/// Added to variances before the root is taken (Gymnasium's value).
const EPSILON: f64 = 1e-8;

/// Statistics of observations and returns.
#[derive(Clone, Debug)]
pub struct Normalizer {
    observations: Option<Observations>,
    rewards: Option<Rewards>,
}

#[derive(Clone, Debug)]
struct Observations {
    moments: RunningMoments,
    clip: f32,
    standardizer: Standardizer,
    /// Of the version before, with which overlapped rollouts acted.
    before: Standardizer,
    features: Vec<f32>,
}

#[derive(Clone, Debug)]
struct Rewards {
    scaler: ReturnScaler,
    clip: f32,
    ended: Vec<u8>,
}

impl Normalizer {
    /// Statistics of nothing yet, for `lanes` lanes and `features` features. `gamma` is the agent's
    /// discount.
    pub fn new(spec: NormalizerSpec, features: usize, lanes: usize, gamma: f64) -> Self {
        Self {
            observations: spec.observation_clip.map(|clip| {
                let moments = RunningMoments::new(features);
                let standardizer = standardizer_of(&moments, clip);
                Observations {
                    before: standardizer.clone(),
                    standardizer,
                    clip,
                    moments,
                    features: vec![],
                }
            }),
            rewards: spec.reward_clip.map(|clip| Rewards {
                scaler: ReturnScaler::new(lanes, gamma),
                clip,
                ended: vec![],
            }),
        }
    }

    /// What this version makes of features; `None` if they are used as they are.
    pub fn standardizer(&self) -> Option<&Standardizer> {
        self.observations.as_ref().map(|o| &o.standardizer)
    }

    /// What the version before this one made of features.
    pub fn standardizer_before(&self) -> Option<&Standardizer> {
        self.observations.as_ref().map(|o| &o.before)
    }

    /// Remembers `before` as the version before this one.
    pub fn follow(&mut self, before: &Self) {
        if let (Some(o), Some(standardizer)) = (&mut self.observations, before.standardizer()) {
            o.before.copy_from(standardizer);
        }
    }

    /// Writes `rewards` in the one unit of this version.
    pub fn scale_rewards(&self, rewards: &[f32], out: &mut Vec<f32>) {
        out.clear();
        match &self.rewards {
            None => out.extend_from_slice(rewards),
            Some(r) => {
                let scale = r.scaler.scale(EPSILON);
                out.extend(
                    rewards
                        .iter()
                        .map(|reward| (reward * scale).clamp(-r.clip, r.clip)),
                );
            }
        }
    }

    /// The factor of rewards; 1 if they are not scaled.
    pub fn reward_scale(&self) -> f64 {
        self.rewards
            .as_ref()
            .map_or(1.0, |r| f64::from(r.scaler.scale(EPSILON)))
    }

    /// Takes in the valid rows of a batch: segments in order, and in each lane by lane.
    pub fn update(&mut self, segments: &[Segment], plan: &FeaturePlan) {
        for segment in segments {
            let rows = segment.rows() * segment.lanes();
            let valid = &segment.valid()[..rows];
            if let Some(o) = &mut self.observations {
                let features = encode(plan, segment, rows, &mut o.features);
                o.moments.update(features, valid, segment.lanes());
            }
            if let Some(r) = &mut self.rewards {
                r.ended.clear();
                let over = end_flags::TERMINATED | end_flags::TRUNCATED;
                r.ended.extend(
                    segment
                        .ends()
                        .iter()
                        .map(|flags| u8::from(flags & over != 0)),
                );
                let lanes = segment.first_lane()..segment.first_lane() + segment.lanes();
                r.scaler.update(lanes, segment.rewards(), &r.ended, valid);
            }
        }
        if let Some(o) = &mut self.observations {
            o.before.copy_from(&o.standardizer);
            o.standardizer = standardizer_of(&o.moments, o.clip);
        }
    }

    /// The statistics, for a checkpoint.
    pub fn parts(&self) -> (Option<&RunningMoments>, Option<&ReturnScaler>) {
        (
            self.observations.as_ref().map(|o| &o.moments),
            self.rewards.as_ref().map(|r| &r.scaler),
        )
    }

    /// Goes on from saved statistics of the same shape. The version before is taken to have had them, too,
    /// until [`follow`](Self::follow) says otherwise.
    pub fn restore(&mut self, moments: Option<RunningMoments>, scaler: Option<ReturnScaler>) {
        if let (Some(o), Some(moments)) = (&mut self.observations, moments) {
            o.standardizer = standardizer_of(&moments, o.clip);
            o.before.copy_from(&o.standardizer);
            o.moments = moments;
        }
        if let (Some(r), Some(scaler)) = (&mut self.rewards, scaler) {
            r.scaler = scaler;
        }
    }
}

/// Standardizes by these statistics; before there are any it leaves features as they are, but for the
/// clip.
fn standardizer_of(moments: &RunningMoments, clip: f32) -> Standardizer {
    if moments.count() > 0 {
        return Standardizer::new(moments, EPSILON, clip);
    }
    let n = moments.features();
    let unit = RunningMoments::from_parts(1, vec![0.0; n], vec![1.0; n])
        .expect("mean 0 and sum of squares 1 of one row are valid statistics");
    Standardizer::new(&unit, 0.0, clip)
}

/// The features of the first `rows` rows of a segment, `[rows, features]`: the slab's own memory where
/// records are features already, else encoded into `scratch`.
pub(crate) fn encode<'a>(
    plan: &FeaturePlan,
    segment: &'a Segment,
    rows: usize,
    scratch: &'a mut Vec<f32>,
) -> &'a [f32] {
    let bytes = segment.spaces().observation.record_bytes();
    let records = &segment.observations()[..rows * bytes];
    if plan.is_plain() {
        return bytemuck::cast_slice(records);
    }
    let width = plan.features();
    scratch.resize(rows * width, 0.0);
    for (record, out) in records
        .chunks_exact(bytes)
        .zip(scratch.chunks_exact_mut(width))
    {
        plan.encode(record, out);
    }
    scratch
}
