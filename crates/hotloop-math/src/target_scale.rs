//! The mean and deviation of value targets, as they move while a policy gets better.

use crate::{
    MomentsError,
    masked::{count_valid, masked_sum},
};

/// How many updates the statistics look back on: fewer, and they follow noise; more, and they lag behind
/// returns that grow.
const WINDOW: u64 = 32;

/// The smallest deviation, as in PopArt's published settings: targets that do not vary are not blown up.
const LEAST_DEVIATION: f64 = 1e-4;

/// Mean and variance of value targets over the last updates, in `f64`: of all of them while they are few,
/// then with weights that fall off exponentially.
///
/// The first half of PopArt (van Hasselt, Guez, Hessel, Mnih and Silver, "Learning values across many
/// orders of magnitude", 2016). The variance is that of the mixture of the batch and what was before, and
/// is never a difference of squares.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetScale {
    updates: u64,
    mean: f64,
    variance: f64,
}

impl Default for TargetScale {
    /// Statistics of nothing yet: mean 0 and deviation 1, which change nothing.
    fn default() -> Self {
        Self {
            updates: 0,
            mean: 0.0,
            variance: 1.0,
        }
    }
}

impl TargetScale {
    /// Statistics as they were saved: what [`TargetScale::updates`], [`TargetScale::mean`] and
    /// [`TargetScale::variance`] returned.
    ///
    /// # Errors
    ///
    /// If the numbers are none that targets can give.
    pub fn from_parts(updates: u64, mean: f64, variance: f64) -> Result<Self, MomentsError> {
        if mean.is_finite() && variance.is_finite() && variance >= 0.0 {
            return Ok(Self {
                updates,
                mean,
                variance,
            });
        }
        Err(MomentsError::Value {
            feature: 0,
            mean,
            m2: variance,
        })
    }

    /// Takes in the valid targets of one update. None, or one that is not finite, changes nothing.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn update(&mut self, targets: &[f32], valid: &[u8]) {
        assert_eq!(
            targets.len(),
            valid.len(),
            "targets and valid: one entry per row each"
        );
        let count = count_valid(valid) as f64;
        let mean = masked_sum(valid, |i| f64::from(targets[i])) / count;
        let from_mean = |i: usize| f64::from(targets[i]) - mean;
        let variance = masked_sum(valid, |i| from_mean(i) * from_mean(i)) / count;
        if !(mean.is_finite() && variance.is_finite()) {
            return;
        }
        self.updates += 1;
        let new = 1.0 / self.updates.min(WINDOW) as f64;
        let apart = mean - self.mean;
        self.variance =
            (1.0 - new) * self.variance + new * variance + new * (1.0 - new) * apart * apart;
        self.mean += new * apart;
    }

    /// Updates taken in.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The population variance.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.variance
    }

    /// The deviation to divide by: at least 0.0001.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.variance.sqrt().max(LEAST_DEVIATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_updates_count_alike() {
        let mut scale = TargetScale::default();
        assert_eq!((scale.mean(), scale.deviation()), (0.0, 1.0));
        for batch in [[1.0, 3.0], [5.0, 7.0], [9.0, 11.0]] {
            scale.update(&batch, &[1; 2]);
        }
        // Of 1, 3, …, 11 together.
        assert!((scale.mean() - 6.0).abs() < 1e-12);
        assert!((scale.variance() - 70.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn later_updates_push_the_first_ones_out() {
        let mut scale = TargetScale::default();
        for _ in 0..100 {
            scale.update(&[0.0], &[1]);
        }
        for _ in 0..10 * WINDOW {
            scale.update(&[99.0, 101.0], &[1; 2]);
        }
        assert!((scale.mean() - 100.0).abs() < 0.1);
        assert!((scale.deviation() - 1.0).abs() < 0.3, "{scale:?}");
    }

    #[test]
    fn only_valid_and_finite_targets_count_and_constant_ones_have_a_deviation() {
        let mut scale = TargetScale::default();
        scale.update(&[f32::NAN, 2.0, 2.0], &[0, 1, 1]);
        assert_eq!((scale.mean(), scale.deviation()), (2.0, 1e-4));
        let before = scale.clone();
        scale.update(&[f32::NAN], &[1]);
        scale.update(&[5.0], &[0]);
        scale.update(&[], &[]);
        assert_eq!(scale, before);
    }

    #[test]
    fn saved_parts_come_back_and_damaged_ones_are_refused() {
        let mut scale = TargetScale::default();
        scale.update(&[1.0, 4.0], &[1; 2]);
        let (updates, mean, variance) = (scale.updates(), scale.mean(), scale.variance());
        assert_eq!(TargetScale::from_parts(updates, mean, variance), Ok(scale));
        assert!(TargetScale::from_parts(1, f64::NAN, 1.0).is_err());
        assert!(TargetScale::from_parts(1, 0.0, -1.0).is_err());
    }
}
