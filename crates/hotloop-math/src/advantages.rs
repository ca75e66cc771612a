//! Normalisation of advantages over a minibatch.

use crate::masked::{count_valid, masked_sum};

/// Added to the deviation before the division, as is usual for PPO.
const EPSILON: f64 = 1e-8;

/// Mean and population deviation of the advantages before they were normalised, for the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Mean over the valid rows; 0 if there are none.
    pub mean: f64,
    /// Population deviation (divided by the count) over the valid rows; 0 if there are none.
    pub deviation: f64,
}

/// Normalises advantages in place to mean 0 and population deviation 1 over the valid rows.
///
/// Take the whole minibatch, before it is split into shards: the statistics must not depend on the
/// split. Rows that are not valid become 0. One row, or rows that are all alike, become 0, never NaN:
/// they carry no preference.
///
/// Shapes: `advantages` and `valid` have one entry per row.
///
/// # Panics
///
/// If the lengths differ.
pub fn normalize_advantages(advantages: &mut [f32], valid: &[u8]) -> Spread {
    assert_eq!(
        advantages.len(),
        valid.len(),
        "advantages and valid: one entry per row each"
    );
    let count = count_valid(valid).max(1) as f64;
    let mean = masked_sum(valid, |i| f64::from(advantages[i])) / count;
    let square = |x: f64| x * x;
    let variance = masked_sum(valid, |i| square(f64::from(advantages[i]) - mean)) / count;
    let deviation = variance.sqrt();
    let factor = 1.0 / (deviation + EPSILON);
    for (advantage, &row) in advantages.iter_mut().zip(valid) {
        let normalized = ((f64::from(*advantage) - mean) * factor) as f32;
        *advantage = if row != 0 { normalized } else { 0.0 };
    }
    Spread { mean, deviation }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_21_one_row_is_finite() {
        let mut advantages = [2.5];
        let spread = normalize_advantages(&mut advantages, &[1]);
        assert_eq!(advantages, [0.0]);
        assert_eq!(
            spread,
            Spread {
                mean: 2.5,
                deviation: 0.0
            }
        );
    }

    #[test]
    fn br_21_constant_rows_become_zeros() {
        let mut advantages = [3.0; 3];
        normalize_advantages(&mut advantages, &[1; 3]);
        assert_eq!(advantages, [0.0; 3]);
        // 0.1 is no binary fraction: the mean must still come out as the value itself, or nearly so.
        let mut advantages = [0.1; 7];
        normalize_advantages(&mut advantages, &[1; 7]);
        assert!(advantages.iter().all(|a| a.abs() < 1e-6), "{advantages:?}");
    }

    #[test]
    fn br_21_two_rows_use_the_population_deviation() {
        // The sample deviation would give ±0.70711.
        let mut advantages = [1.0, 3.0];
        normalize_advantages(&mut advantages, &[1; 2]);
        assert_eq!(advantages, [-1.0, 1.0]);
    }

    #[test]
    fn rows_that_are_not_valid_count_for_nothing() {
        let mut advantages = [1.0, f32::NAN, 3.0, 1e30];
        let spread = normalize_advantages(&mut advantages, &[1, 0, 1, 0]);
        assert_eq!(advantages, [-1.0, 0.0, 1.0, 0.0]);
        assert_eq!(
            spread,
            Spread {
                mean: 2.0,
                deviation: 1.0
            }
        );
    }

    #[test]
    fn no_valid_row_gives_zeros() {
        let mut advantages = [1.0, 2.0];
        let spread = normalize_advantages(&mut advantages, &[0; 2]);
        assert_eq!(advantages, [0.0; 2]);
        assert_eq!(
            spread,
            Spread {
                mean: 0.0,
                deviation: 0.0
            }
        );
    }

    #[test]
    fn a_nan_in_a_valid_row_stays_visible() {
        let mut advantages = [1.0, f32::NAN];
        normalize_advantages(&mut advantages, &[1; 2]);
        assert!(advantages.iter().all(|a| a.is_nan()));
    }
}
