//! The scale of rewards, from the deviation of the discounted return.

use std::ops::Range;

use crate::{MomentsError, RunningMoments};

/// Watches the discounted return that each lane has accumulated so far, `R ← γ·R + r`, and offers the
/// inverse of its deviation as a factor for rewards (Engstrom et al., "Implementation Matters in Deep
/// Policy Gradients: A Case Study on PPO and TRPO", 2020, section 3).
///
/// Rewards are divided by the deviation and nothing is subtracted from them: a shift would change what
/// is optimal. The accumulator of a lane takes in the reward of the row that ends an episode, and is
/// cleared after it, whichever way the episode ended. A row that is not valid is not counted and
/// clears the accumulator as well: the trace is cut there.
#[derive(Clone, Debug, PartialEq)]
pub struct ReturnScaler {
    gamma: f64,
    returns: Vec<f64>,
    moments: RunningMoments,
    /// Accumulators of one batch, kept so that updates of the same shape allocate nothing for them.
    batch: Vec<f64>,
}

impl ReturnScaler {
    /// A scaler for `lanes` lanes; `gamma` is the discount of the agent.
    #[must_use]
    pub fn new(lanes: usize, gamma: f64) -> Self {
        let (returns, batch) = (vec![0.0; lanes], Vec::new());
        Self {
            gamma,
            returns,
            moments: RunningMoments::new(1),
            batch,
        }
    }

    /// A scaler as it was saved: what [`ReturnScaler::gamma`], [`ReturnScaler::returns`] and
    /// [`ReturnScaler::moments`] returned.
    ///
    /// # Errors
    ///
    /// If the moments are not of one feature, or an accumulator is not finite.
    pub fn from_parts(
        gamma: f64,
        returns: Vec<f64>,
        moments: RunningMoments,
    ) -> Result<Self, MomentsError> {
        if moments.features() != 1 {
            return Err(MomentsError::Features {
                found: moments.features(),
                expected: 1,
            });
        }
        if let Some(lane) = returns.iter().position(|r| !r.is_finite()) {
            return Err(MomentsError::Accumulator {
                lane,
                value: returns[lane],
            });
        }
        Ok(Self {
            gamma,
            returns,
            moments,
            batch: Vec::new(),
        })
    }

    /// Takes in a batch of the lanes `lanes`, in time order per lane and lane by lane.
    ///
    /// Shapes: all slices are `[T, number of lanes]`. `ended` is set where an episode ended with that
    /// row's reward, by termination or truncation alike.
    ///
    /// # Panics
    ///
    /// If the lengths do not fit together or a lane does not exist.
    pub fn update(&mut self, lanes: Range<usize>, rewards: &[f32], ended: &[u8], valid: &[u8]) {
        let accumulators = &mut self.returns[lanes];
        let width = accumulators.len();
        assert_eq!(
            rewards.len(),
            ended.len(),
            "rewards and ended: one entry per row each"
        );
        assert_eq!(
            rewards.len(),
            valid.len(),
            "rewards and valid: one entry per row each"
        );
        assert!(
            width > 0 && rewards.len().is_multiple_of(width),
            "rewards: {} entries are not a multiple of {width} lanes",
            rewards.len()
        );
        self.batch.clear();
        for at in (0..rewards.len()).step_by(width) {
            for (lane, accumulator) in accumulators.iter_mut().enumerate() {
                let i = at + lane;
                let value = self.gamma * *accumulator + f64::from(rewards[i]);
                self.batch.push(value);
                let goes_on = valid[i] != 0 && ended[i] == 0;
                *accumulator = if goes_on { value } else { 0.0 };
            }
        }
        self.moments.update(&self.batch, valid, width);
    }

    /// The factor to multiply rewards with, `1 / sqrt(variance + epsilon)`; 1 before the first row.
    ///
    /// Take it once per update: all rows of a batch, and the values that bootstrap them, must be in one
    /// unit.
    #[must_use]
    pub fn scale(&self, epsilon: f64) -> f32 {
        if self.moments.count() == 0 {
            return 1.0;
        }
        self.moments.inverse_deviation(0, epsilon) as f32
    }

    /// The discount of the accumulators.
    #[must_use]
    pub fn gamma(&self) -> f64 {
        self.gamma
    }

    /// The accumulated discounted return per lane.
    #[must_use]
    pub fn returns(&self) -> &[f64] {
        &self.returns
    }

    /// The moments of the accumulators over all valid rows.
    #[must_use]
    pub fn moments(&self) -> &RunningMoments {
        &self.moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REWARDS: [f32; 5] = [1.0, 2.0, 4.0, 1.0, 2.0];
    const ENDED: [u8; 5] = [0, 0, 1, 0, 0];

    fn scaler() -> ReturnScaler {
        let mut scaler = ReturnScaler::new(1, 0.5);
        scaler.update(0..1, &REWARDS, &ENDED, &[1; 5]);
        scaler
    }

    #[test]
    fn br_16_deviation_of_the_discounted_return() {
        // Cleared on the ending step itself: 1.06; never cleared: 2.01625; deviation of the raw
        // rewards: 1.095445.
        let scaler = scaler();
        assert!((scaler.moments().variance(0) - 2.41).abs() < 1e-12);
        assert!((scaler.moments().variance(0).sqrt() - 1.552_417).abs() < 1e-6);
        assert_eq!(scaler.returns(), [2.5]);
        for (reward, expected) in [(1.0, 0.644_157), (2.0, 1.288_313), (4.0, 2.576_627)] {
            assert!((reward * scaler.scale(1e-8) - expected).abs() < 1e-5);
        }
    }

    #[test]
    fn br_16_lanes_accumulate_apart() {
        // The second lane is one step behind and ends elsewhere.
        let mut both = ReturnScaler::new(2, 0.5);
        let rewards = [1.0, 3.0, 2.0, 1.0, 4.0, 2.0, 1.0, 4.0, 2.0, 1.0];
        let ended = [0, 1, 0, 0, 1, 0, 0, 1, 0, 0];
        both.update(0..2, &rewards, &ended, &[1; 10]);
        let mut second = ReturnScaler::new(1, 0.5);
        second.update(0..1, &[3.0, 1.0, 2.0, 4.0, 1.0], &[1, 0, 0, 1, 0], &[1; 5]);
        assert_eq!(second.returns(), [1.0]);
        let mut merged = scaler().moments().clone();
        merged.merge(second.moments());
        assert_eq!(both.returns(), [2.5, 1.0]);
        assert!((both.moments().variance(0) - merged.variance(0)).abs() < 1e-12);
        assert!((both.moments().mean()[0] - merged.mean()[0]).abs() < 1e-12);
    }

    #[test]
    fn br_16_the_split_into_batches_and_lane_ranges_changes_nothing() {
        let mut parts = ReturnScaler::new(3, 0.5);
        parts.update(2..3, &REWARDS[..2], &ENDED[..2], &[1; 2]);
        parts.update(2..3, &REWARDS[2..], &ENDED[2..], &[1; 3]);
        assert_eq!(parts.returns(), [0.0, 0.0, 2.5]);
        assert!((parts.moments().variance(0) - 2.41).abs() < 1e-12);
    }

    #[test]
    fn br_16_constant_reward_is_scaled_and_not_shifted() {
        let moments = RunningMoments::from_parts(10, vec![1.5], vec![40.0]).unwrap();
        let scaler = ReturnScaler::from_parts(0.5, vec![0.0], moments).unwrap();
        assert_eq!(scaler.scale(0.0), 0.5); // deviation 2: a reward of 1 becomes 0.5, not 0
    }

    #[test]
    fn rows_that_are_not_valid_are_not_counted_and_cut() {
        let mut scaler = ReturnScaler::new(1, 0.5);
        let rewards = [1.0, 2.0, 4.0, f32::NAN, 1.0, 2.0];
        scaler.update(0..1, &rewards, &[0; 6], &[1, 1, 1, 0, 1, 1]);
        assert!((scaler.moments().variance(0) - 2.41).abs() < 1e-12);
        assert_eq!(scaler.moments().count(), 5);
        assert_eq!(scaler.returns(), [2.5]);
    }

    #[test]
    fn saved_parts_go_on_as_if_nothing_had_happened() {
        let mut whole = scaler();
        let (gamma, returns) = (whole.gamma(), whole.returns().to_vec());
        let mut resumed =
            ReturnScaler::from_parts(gamma, returns, whole.moments().clone()).unwrap();
        for scaler in [&mut whole, &mut resumed] {
            scaler.update(0..1, &[8.0], &[0], &[1]);
        }
        assert_eq!(resumed, whole);
        assert_eq!(ReturnScaler::new(1, 0.5).scale(1e-8), 1.0);
        let moments = RunningMoments::new(1);
        let error = ReturnScaler::from_parts(0.5, vec![0.0, f64::NAN], moments).unwrap_err();
        assert!(error.to_string().contains("lane 1"), "{error}");
        let error = ReturnScaler::from_parts(0.5, vec![0.0], RunningMoments::new(3)).unwrap_err();
        assert!(
            error.to_string().contains("found 3 features, expected 1"),
            "{error}"
        );
    }
}
