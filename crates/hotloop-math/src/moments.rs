//! Running count, mean and variance per feature.

use std::fmt;

use crate::masked::count_valid;

/// How many partial sums a pass over a batch keeps at once: what fits the first-level cache.
const PARTIALS: usize = 2048;

/// Running moments of rows of features, in `f64`: the count, and per feature the mean and the sum of
/// squared deviations `m2`.
///
/// A batch is taken in two passes (its mean, then the deviations from it) and merged by the rule of
/// Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances"
/// (1979). A mean of squares is never subtracted from a square of means, which cancels for features
/// with a large offset.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningMoments {
    count: u64,
    mean: Vec<f64>,
    m2: Vec<f64>,
}

/// Saved moments that cannot be real ones.
#[derive(Clone, Debug, PartialEq)]
pub enum MomentsError {
    /// The two arrays differ in length.
    Length {
        /// Entries of `mean`.
        mean: usize,
        /// Entries of `m2`.
        m2: usize,
    },
    /// A mean or sum of squares is not finite, or the latter is negative.
    Value {
        /// The feature's index.
        feature: usize,
        /// Its mean.
        mean: f64,
        /// Its sum of squared deviations.
        m2: f64,
    },
    /// The moments are of another number of features than is needed.
    Features {
        /// Features that they have.
        found: usize,
        /// Features that are needed.
        expected: usize,
    },
    /// A discounted return accumulated so far is not finite.
    Accumulator {
        /// The lane that it belongs to.
        lane: usize,
        /// What was found.
        value: f64,
    },
}

impl fmt::Display for MomentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { mean, m2 } => write!(
                f,
                "running moments: mean has {mean} features and m2 has {m2}; they must be as many, \
                 so the saved statistics are damaged"
            ),
            Self::Value { feature, mean, m2 } => write!(
                f,
                "running moments: feature {feature} has mean {mean} and m2 {m2}; expected finite \
                 numbers and m2 ≥ 0, so the saved statistics are damaged"
            ),
            Self::Features { found, expected } => write!(
                f,
                "running moments: found {found} features, expected {expected}; the saved statistics \
                 belong to something else"
            ),
            Self::Accumulator { lane, value } => write!(
                f,
                "return scaler: the discounted return of lane {lane} is {value}; expected a finite \
                 number, so the saved statistics are damaged"
            ),
        }
    }
}

impl std::error::Error for MomentsError {}

impl RunningMoments {
    /// Moments of nothing yet, for rows of `features` features.
    ///
    /// # Panics
    ///
    /// If `features` is 0.
    #[must_use]
    pub fn new(features: usize) -> Self {
        assert!(features > 0, "moments need at least one feature");
        Self {
            count: 0,
            mean: vec![0.0; features],
            m2: vec![0.0; features],
        }
    }

    /// Moments as they were saved: what [`RunningMoments::count`], [`RunningMoments::mean`] and
    /// [`RunningMoments::m2`] returned.
    ///
    /// # Errors
    ///
    /// If the arrays differ in length or hold numbers that no data can give.
    pub fn from_parts(count: u64, mean: Vec<f64>, m2: Vec<f64>) -> Result<Self, MomentsError> {
        if mean.len() != m2.len() {
            return Err(MomentsError::Length {
                mean: mean.len(),
                m2: m2.len(),
            });
        }
        for (feature, (&mean, &m2)) in mean.iter().zip(&m2).enumerate() {
            if !(mean.is_finite() && m2.is_finite() && m2 >= 0.0) {
                return Err(MomentsError::Value { feature, mean, m2 });
            }
        }
        Ok(Self { count, mean, m2 })
    }

    /// The number of features per row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.mean.len()
    }

    /// The number of rows taken in so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean per feature; 0 before the first row.
    #[must_use]
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The sum of squared deviations from the mean per feature.
    #[must_use]
    pub fn m2(&self) -> &[f64] {
        &self.m2
    }

    /// The population variance (divided by the count) of a feature; 1 before the first row, so that
    /// nothing is scaled while nothing is known.
    #[must_use]
    pub fn variance(&self, feature: usize) -> f64 {
        if self.count == 0 {
            1.0
        } else {
            self.m2[feature] / self.count as f64
        }
    }

    /// `1 / sqrt(variance + epsilon)` of a feature: finite even for a feature that never varies.
    #[must_use]
    pub fn inverse_deviation(&self, feature: usize, epsilon: f64) -> f64 {
        1.0 / (self.variance(feature) + epsilon).sqrt()
    }

    /// Takes in the valid rows of a batch of `lanes` lanes.
    ///
    /// Shapes: `rows` is `[T, lanes, features]`, `valid` is `[T, lanes]`; with `lanes = 1` that is a
    /// plain list of rows. Sums run over the time steps of each lane first and over the lanes in order
    /// then, so the result does not depend on how the rows were produced. Rows that are not valid are
    /// not looked at.
    ///
    /// # Panics
    ///
    /// If the lengths do not fit together.
    pub fn update<X: Copy + Into<f64>>(&mut self, rows: &[X], valid: &[u8], lanes: usize) {
        let features = self.features();
        assert!(
            lanes > 0 && valid.len().is_multiple_of(lanes),
            "valid: {} entries are not a multiple of {lanes} lanes",
            valid.len()
        );
        assert_eq!(
            rows.len(),
            valid.len() * features,
            "rows: expected {} rows of {features} features",
            valid.len()
        );
        let count = count_valid(valid);
        if count == 0 {
            return;
        }
        let zero = vec![0.0; features];
        let mut mean = sum_by_lane(rows, valid, lanes, &zero, |x, _| x);
        for sum in &mut mean {
            *sum /= count as f64;
        }
        let m2 = sum_by_lane(rows, valid, lanes, &mean, |x, mean| (x - mean) * (x - mean));
        self.merge(&Self {
            count: count as u64,
            mean,
            m2,
        });
    }

    /// Takes in everything that `other` has seen. Merging in any order or grouping gives the same
    /// moments up to rounding.
    ///
    /// # Panics
    ///
    /// If the numbers of features differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(
            self.features(),
            other.features(),
            "moments to merge: features per row"
        );
        if other.count == 0 {
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let n = a + b;
        for (feature, (mean, m2)) in self.mean.iter_mut().zip(&mut self.m2).enumerate() {
            let delta = other.mean[feature] - *mean;
            *mean += delta * (b / n);
            *m2 += other.m2[feature] + delta * delta * (a * b / n);
        }
        self.count += other.count;
    }
}

/// Sums `term(x, centre)` per feature over valid rows: lane by lane, and over time within a lane.
///
/// Lanes are taken in blocks whose partial sums stay in the cache, while memory is read in the order in
/// which it lies.
fn sum_by_lane<X: Copy + Into<f64>>(
    rows: &[X],
    valid: &[u8],
    lanes: usize,
    centre: &[f64],
    term: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let features = centre.len();
    let block = (PARTIALS / features).clamp(1, lanes);
    let mut partials = vec![0.0; block * features];
    let mut sums = vec![0.0; features];
    for first in (0..lanes).step_by(block) {
        let width = block.min(lanes - first);
        partials.fill(0.0);
        for at in (first..valid.len()).step_by(lanes) {
            let here = rows[at * features..(at + width) * features].chunks_exact(features);
            let partials = partials.chunks_exact_mut(features);
            for ((row, &valid), partial) in here.zip(&valid[at..at + width]).zip(partials) {
                if valid != 0 {
                    for ((partial, &x), &centre) in partial.iter_mut().zip(row).zip(centre) {
                        *partial += term(x.into(), centre);
                    }
                }
            }
        }
        for partial in partials.chunks_exact(features).take(width) {
            for (sum, &partial) in sums.iter_mut().zip(partial) {
                *sum += partial;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[f32]) -> RunningMoments {
        let mut moments = RunningMoments::new(1);
        moments.update(rows, &vec![1; rows.len()], 1);
        moments
    }

    #[test]
    fn br_14a_large_offset_does_not_cancel() {
        // The difference of mean square and squared mean gives 0 in f32.
        let moments = of(&[10_000.0, 10_001.0, 10_002.0]);
        assert_eq!(moments.mean(), [10_001.0]);
        assert!((moments.variance(0).sqrt() - 0.816_496_580_927_726).abs() < 1e-12);
    }

    #[test]
    fn br_14b_larger_offset_does_not_cancel() {
        // There f32 gives the variance -65536, and with it NaN.
        let moments = of(&[1_000_000.0, 1_000_001.0, 1_000_002.0, 1_000_003.0]);
        assert_eq!(moments.variance(0), 1.25);
    }

    #[test]
    fn br_14c_merge_equals_the_whole_in_any_order() {
        let (a, b) = (of(&[1.0, 2.0, 3.0]), of(&[8.0, 12.0]));
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        for merged in [ab, ba, of(&[1.0, 2.0, 3.0, 8.0, 12.0])] {
            assert_eq!(merged.count(), 5);
            assert!((merged.mean()[0] - 5.2).abs() < 1e-9);
            assert!((merged.m2()[0] - 86.8).abs() < 1e-9);
            assert!((merged.variance(0) - 17.36).abs() < 1e-9);
        }
    }

    #[test]
    fn br_14d_an_empty_batch_changes_nothing() {
        let before = of(&[1.0, 2.0]);
        let mut moments = before.clone();
        moments.merge(&RunningMoments::new(1));
        moments.update::<f32>(&[], &[], 4);
        moments.update(&[f32::NAN, 7.0], &[0, 0], 2);
        assert_eq!(moments, before);
    }

    #[test]
    fn br_14e_a_constant_feature_has_a_finite_inverse_deviation() {
        let moments = of(&[3.0; 5]);
        assert_eq!(moments.variance(0), 0.0);
        assert_eq!(moments.inverse_deviation(0, 1e-8), 1e4);
    }

    #[test]
    fn rows_that_are_not_valid_are_not_looked_at() {
        let mut moments = RunningMoments::new(2);
        let rows = [1.0, 2.0, 3.0, f32::NAN, f32::INFINITY, 0.0, 3.0, 4.0, 5.0];
        let rows = [&rows[..], &[0.0]].concat();
        // Rows (1,2) and (3,4) count; the others do not.
        moments.update(&rows, &[1, 0, 0, 0, 0], 1);
        moments.update(&[3.0f32, 4.0], &[1], 1);
        assert_eq!((moments.count(), moments.mean()), (2, &[2.0, 3.0][..]));
    }

    #[test]
    fn the_split_into_lane_blocks_is_exact() {
        // More lanes × features than partial sums fit, so that several blocks are taken.
        let (steps, lanes, features) = (3, 1500, 3);
        let rows: Vec<f32> = (0..steps * lanes * features)
            .map(|i| (i % 101) as f32)
            .collect();
        let valid: Vec<u8> = (0..steps * lanes).map(|i| u8::from(i % 7 != 0)).collect();
        let mut moments = RunningMoments::new(features);
        moments.update(&rows, &valid, lanes);
        for feature in 0..features {
            let kept = (0..steps * lanes).filter(|i| i % 7 != 0);
            let xs: Vec<f64> = kept
                .map(|i| f64::from(rows[i * features + feature]))
                .collect();
            let mean = xs.iter().sum::<f64>() / xs.len() as f64;
            let m2: f64 = xs.iter().map(|x| (x - mean) * (x - mean)).sum();
            assert_eq!(moments.count(), xs.len() as u64);
            assert!((moments.mean()[feature] - mean).abs() < 1e-9);
            assert!((moments.m2()[feature] / m2 - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn saved_parts_come_back_and_damaged_ones_are_refused() {
        let moments = of(&[1.0, 2.0, 4.0]);
        let (mean, m2) = (moments.mean().to_vec(), moments.m2().to_vec());
        assert_eq!(RunningMoments::from_parts(3, mean, m2), Ok(moments));
        let short = RunningMoments::from_parts(3, vec![0.0; 2], vec![0.0]);
        assert_eq!(short, Err(MomentsError::Length { mean: 2, m2: 1 }));
        for m2 in [-1.0, f64::NAN, f64::INFINITY] {
            let error = RunningMoments::from_parts(3, vec![0.0, 0.0], vec![0.0, m2]).unwrap_err();
            assert!(error.to_string().contains("feature 1"), "{error}");
        }
    }
}
