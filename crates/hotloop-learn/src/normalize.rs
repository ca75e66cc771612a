//! The running statistics that are part of a policy: of observations, of discounted returns, and of
//! value targets.
//!
//! Those of observations and returns change once per update, after training on a batch, and only by the
//! rows that were trained on; every row is normalized with the statistics of the version that acted on
//! it, in the rollout and here alike. Those of value targets change before the first step of an update,
//! by the targets that it is about to train on.

use crate::{error::LearnError, incoming::Incoming, params::Params};
use hotloop_env::{FeaturePlan, end_flags};
use hotloop_math::{ReturnScaler, RunningMoments, Standardizer, TargetScale};
use hotloop_rollout::Segment;
use std::collections::VecDeque;

/// What is normalized, and how far results may go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NormalizerSpec {
    /// Bound of standardized features; `None` leaves observations alone.
    pub observation_clip: Option<f32>,
    /// Bound of scaled rewards; `None` leaves rewards alone.
    pub reward_clip: Option<f32>,
    /// The unit in which values are learned.
    pub values: ValueNormalization,
}

/// The unit in which a network says values. Outside of it (in segments, estimators and reports) values
/// are always in the unit of rewards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueNormalization {
    /// That of rewards.
    #[default]
    None,
    /// The running mean and deviation of value targets. As these move, so does what the network says.
    Running,
    /// The same, and as they move the last layer is rescaled so that what the network says stays as it
    /// was, in the unit of rewards: PopArt (van Hasselt et al. 2016; Hessel et al. 2018). The moments of
    /// the optimiser stay: errors in the moving unit, and with them gradients, keep their size, and a
    /// rescaling is no step that a later one should follow.
    PopArt,
}

/// A network's unit of values: it says `(V − mean) / deviation`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueUnit {
    /// What 0 stands for.
    pub mean: f32,
    /// What 1 is more than 0.
    pub deviation: f32,
}

impl ValueUnit {
    /// Turns what a network says into values in the unit of rewards, in place.
    pub fn denormalize(&self, values: &mut [f32]) {
        values
            .iter_mut()
            .for_each(|v| *v = self.mean + self.deviation * *v);
    }

    /// Turns values in the unit of rewards into what a network should say, in place.
    pub fn normalize(&self, values: &mut [f32]) {
        let factor = 1.0 / self.deviation;
        values
            .iter_mut()
            .for_each(|v| *v = (*v - self.mean) * factor);
    }
}

/// Added to variances before the root is taken (Gymnasium's value).
const EPSILON: f64 = 1e-8;

/// The most versions before the newest whose statistics are kept. Rows that are older still would be
/// standardized as by the oldest of these.
pub const MAX_STALENESS: u64 = 63;

/// Statistics of observations, returns and value targets. The default normalizes nothing.
#[derive(Clone, Debug, Default)]
pub struct Normalizer {
    observations: Option<Observations>,
    rewards: Option<Rewards>,
    values: Option<TargetScale>,
}

#[derive(Clone, Debug)]
struct Observations {
    moments: RunningMoments,
    clip: f32,
    /// Of this version and those before it, newest first: rows that these acted on are still to come.
    standardizers: VecDeque<Standardizer>,
    features: Vec<f32>,
}

#[derive(Clone, Debug)]
struct Rewards {
    scaler: ReturnScaler,
    clip: f32,
    ended: Vec<u8>,
    valid: Vec<u8>,
}

impl Normalizer {
    /// Statistics of nothing yet, for `lanes` lanes and `features` features. `gamma` is the agent's
    /// discount, and rows are up to `max_staleness` versions old.
    pub fn new(
        spec: NormalizerSpec,
        features: usize,
        lanes: usize,
        gamma: f64,
        max_staleness: u64,
    ) -> Self {
        Self {
            observations: spec.observation_clip.map(|clip| {
                let moments = RunningMoments::new(features);
                let kept = max_staleness.min(MAX_STALENESS) as usize + 1;
                Observations {
                    standardizers: vec![standardizer_of(&moments, clip); kept].into(),
                    clip,
                    moments,
                    features: vec![],
                }
            }),
            rewards: spec.reward_clip.map(|clip| Rewards {
                scaler: ReturnScaler::new(lanes, gamma),
                clip,
                ended: vec![],
                valid: vec![],
            }),
            values: (spec.values != ValueNormalization::None).then(TargetScale::default),
        }
    }

    /// What this version makes of features; `None` if they are used as they are.
    pub fn standardizer(&self) -> Option<&Standardizer> {
        self.standardizer_before(0)
    }

    /// What the version `versions` before this one made of features. Of those that are too old to be
    /// trained on the oldest is returned.
    pub fn standardizer_before(&self, versions: u64) -> Option<&Standardizer> {
        let standardizers = &self.observations.as_ref()?.standardizers;
        standardizers.get((standardizers.len() - 1).min(versions as usize))
    }

    /// Remembers `before` as the version before this one, and all earlier ones.
    pub fn follow(&mut self, before: &Self) {
        if let (Some(o), Some(standardizer)) = (&mut self.observations, before.standardizer()) {
            for old in o.standardizers.iter_mut().skip(1) {
                old.copy_from(standardizer);
            }
        }
    }

    /// The unit in which this version's network says values; `None` if it is that of rewards.
    pub fn value_unit(&self) -> Option<ValueUnit> {
        self.values.as_ref().map(|scale| ValueUnit {
            mean: scale.mean() as f32,
            deviation: scale.deviation() as f32,
        })
    }

    /// Takes in the value targets of an update, one for each row.
    pub fn update_values(&mut self, targets: &[f32], valid: &[u8]) {
        if let Some(scale) = &mut self.values {
            scale.update(targets, valid);
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

    /// Takes in the rows that an update trained on: segments in order, and in each lane by lane. A stale
    /// row cuts its lane's return, as one that is not valid does.
    pub(crate) fn update(&mut self, incoming: &Incoming<'_>, plan: &FeaturePlan) {
        for segment in incoming.segments {
            let (lanes, rows) = (segment.lanes(), segment.rows() * segment.lanes());
            let stale = incoming.stale_rows(segment) * lanes;
            let valid = &segment.valid()[..rows];
            if let Some(o) = &mut self.observations {
                let features = encode(plan, segment, rows, &mut o.features);
                let fresh = &features[stale * plan.features()..];
                o.moments.update(fresh, &valid[stale..], lanes);
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
                r.valid.clear();
                r.valid.extend_from_slice(valid);
                r.valid[..stale].fill(0);
                let lanes = segment.first_lane()..segment.first_lane() + lanes;
                r.scaler
                    .update(lanes, segment.rewards(), &r.ended, &r.valid);
            }
        }
        if let Some(o) = &mut self.observations {
            // The oldest becomes the newest; with one there is nothing to be kept.
            o.standardizers.rotate_right(1);
            o.standardizers[0] = standardizer_of(&o.moments, o.clip);
        }
    }

    /// The statistics, for a checkpoint: of observations, returns and value targets.
    pub fn parts(
        &self,
    ) -> (
        Option<&RunningMoments>,
        Option<&ReturnScaler>,
        Option<&TargetScale>,
    ) {
        (
            self.observations.as_ref().map(|o| &o.moments),
            self.rewards.as_ref().map(|r| &r.scaler),
            self.values.as_ref(),
        )
    }

    /// Goes on from saved statistics of the same shape. The versions before are taken to have had them,
    /// too, until [`follow`](Self::follow) says otherwise.
    pub fn restore(
        &mut self,
        moments: Option<RunningMoments>,
        scaler: Option<ReturnScaler>,
        values: Option<TargetScale>,
    ) {
        if let (Some(o), Some(moments)) = (&mut self.observations, moments) {
            let standardizer = standardizer_of(&moments, o.clip);
            o.standardizers
                .iter_mut()
                .for_each(|old| old.clone_from(&standardizer));
            o.moments = moments;
        }
        if let (Some(r), Some(scaler)) = (&mut self.rewards, scaler) {
            r.scaler = scaler;
        }
        if let (Some(v), Some(values)) = (&mut self.values, values) {
            *v = values;
        }
    }
}

/// Rescales the last layer of the values so that, in the unit of rewards, they stay as they were: with
/// `V = σ·n + μ` and `n = w·h + b`, `w' = w·σ/σ'` and `b' = (σ·b + μ − μ')/σ'`.
pub(crate) fn keep_outputs(
    params: &Params,
    old: ValueUnit,
    new: ValueUnit,
) -> Result<(), LearnError> {
    let part = |name: &str| {
        params.get(name).ok_or_else(|| LearnError::Spec {
            what: "network",
            reason: format!("PopArt rescales the parameter {name}, which it does not have"),
        })
    };
    let _guard = tch::no_grad_guard();
    let scale = f64::from(old.deviation) / f64::from(new.deviation);
    let shift = (f64::from(old.mean) - f64::from(new.mean)) / f64::from(new.deviation);
    let _ = part("value.weight")?.shallow_clone().f_mul_scalar_(scale)?;
    let mut bias = part("value.bias")?.shallow_clone();
    let _ = bias.f_mul_scalar_(scale)?.f_add_scalar_(shift)?;
    Ok(())
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
    let stacks = segment.stacks();
    if plan.is_plain() {
        let records: &[f32] = bytemuck::cast_slice(stacks.last());
        return &records[..rows * plan.features()];
    }
    scratch.resize(rows * plan.features(), 0.0);
    plan.encode_stacks(&stacks, 0..rows, scratch);
    scratch
}
