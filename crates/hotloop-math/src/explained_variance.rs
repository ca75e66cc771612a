//! How much of the value targets' variance the critic explains.

use crate::masked::{count_valid, masked_sum};

/// `1 − Var(target − prediction) / Var(target)` over the valid rows: 1 for a perfect critic, 0 for one
/// that is as good as a constant, negative for a worse one.
///
/// `None` if there is no valid row or the targets do not vary, where the ratio means nothing.
///
/// Shapes: all slices have one entry per row.
///
/// # Panics
///
/// If the lengths differ.
#[must_use]
pub fn explained_variance(predictions: &[f32], targets: &[f32], valid: &[u8]) -> Option<f64> {
    assert_eq!(
        predictions.len(),
        valid.len(),
        "predictions and valid: one entry per row each"
    );
    assert_eq!(
        targets.len(),
        valid.len(),
        "targets and valid: one entry per row each"
    );
    let total = variance(valid, |i| f64::from(targets[i]));
    let residual = variance(valid, |i| f64::from(targets[i]) - f64::from(predictions[i]));
    (total > 0.0).then(|| 1.0 - residual / total)
}

/// The population variance of `at(i)` over the valid rows.
fn variance(valid: &[u8], at: impl Fn(usize) -> f64) -> f64 {
    let count = count_valid(valid) as f64;
    let mean = masked_sum(valid, &at) / count;
    masked_sum(valid, |i| (at(i) - mean) * (at(i) - mean)) / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfect_constant_and_inverted_critics() {
        let targets = [1.0, 2.0, 3.0, 6.0];
        let valid = [1; 4];
        assert_eq!(explained_variance(&targets, &targets, &valid), Some(1.0));
        assert_eq!(explained_variance(&[5.0; 4], &targets, &valid), Some(0.0));
        assert_eq!(
            explained_variance(&targets.map(|t| -t), &targets, &valid),
            Some(-3.0)
        );
    }

    #[test]
    fn rows_that_are_not_valid_are_left_out() {
        let found = explained_variance(&[1.0, f32::NAN, 2.0], &[1.0, 9.0, 2.0], &[1, 0, 1]);
        assert_eq!(found, Some(1.0));
    }

    #[test]
    fn targets_without_variance_have_no_answer() {
        assert_eq!(explained_variance(&[1.0, 2.0], &[3.0, 3.0], &[1, 1]), None);
        assert_eq!(explained_variance(&[1.0], &[3.0], &[0]), None);
    }
}
