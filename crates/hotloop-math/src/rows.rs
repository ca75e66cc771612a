//! The rows of one segment as the estimators read them.

/// Rewards, values and flags of `T` time steps of `L` lanes, row-major: the entry of row `t` and lane
/// `l` is at `t * L + l`.
///
/// `values` and `valid` have one row more than the rest: row `T` is the bootstrap row.
///
/// How ends of episodes are laid out, and why no `truncated` flag is needed:
/// - *terminated at `t`*: row `t + 1` is the first observation of the next episode; `terminated[t]`
///   says that its value is not a successor of row `t`.
/// - *truncated at `t`*: row `t + 1` holds the final observation with `valid = 0`, row `t + 2` the
///   first observation of the next episode. The value of the true successor is thus in the next row,
///   as everywhere else, and the invalid row cuts the trace.
/// - *failed at `t`*: `valid[t] = 0`, and row `t + 1` is the first observation of the rebuilt env. Row
///   `t - 1` bootstraps from the value of the failed row's observation.
///
/// The bootstrap row is only ever read for its value, so it makes no difference whether it is a final
/// observation (`valid = 0`) or an ordinary one.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    pub(crate) lanes: usize,
    pub(crate) steps: usize,
    pub(crate) rewards: &'a [f32],
    pub(crate) values: &'a [f32],
    pub(crate) terminated: &'a [u8],
    pub(crate) valid: &'a [u8],
    pub(crate) log_ratios: Option<&'a [f32]>,
}

impl<'a> Rows<'a> {
    /// Views slices as rows of `lanes` lanes.
    ///
    /// Shapes: `rewards` and `terminated` are `[T, lanes]`; `values` and `valid` are `[T + 1, lanes]`.
    ///
    /// # Panics
    ///
    /// If `lanes` is 0 or the lengths do not fit together.
    #[must_use]
    pub fn new(
        lanes: usize,
        rewards: &'a [f32],
        values: &'a [f32],
        terminated: &'a [u8],
        valid: &'a [u8],
    ) -> Self {
        assert!(lanes > 0, "rows need at least one lane");
        let steps = rewards.len() / lanes;
        assert_eq!(
            rewards.len(),
            steps * lanes,
            "rewards: length is not a multiple of {lanes} lanes"
        );
        assert_eq!(
            terminated.len(),
            steps * lanes,
            "terminated: expected {steps} × {lanes} entries"
        );
        assert_eq!(
            values.len(),
            (steps + 1) * lanes,
            "values: expected ({steps} + 1) × {lanes} entries"
        );
        assert_eq!(
            valid.len(),
            (steps + 1) * lanes,
            "valid: expected ({steps} + 1) × {lanes} entries"
        );
        Self {
            lanes,
            steps,
            rewards,
            values,
            terminated,
            valid,
            log_ratios: None,
        }
    }

    /// The same rows with the log-ratios of their actions, `ln π(a|s) − ln μ(a|s)`: π is the policy that
    /// is trained, μ the one that chose. Shape `[T, lanes]`; rows that are not valid may hold anything.
    ///
    /// # Panics
    ///
    /// If the length does not fit.
    #[must_use]
    pub fn with_log_ratios(self, log_ratios: &'a [f32]) -> Self {
        self.check_output("log-ratios", log_ratios.len());
        Self {
            log_ratios: Some(log_ratios),
            ..self
        }
    }

    /// The number of lanes `L`.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// The number of time steps `T`, the bootstrap row not counted.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Checks that an output slice has the shape `[T, L]`.
    pub(crate) fn check_output(&self, name: &str, length: usize) {
        assert_eq!(
            length,
            self.steps * self.lanes,
            "{name}: expected {} × {} entries",
            self.steps,
            self.lanes
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_from_the_slices() {
        let rows = Rows::new(2, &[0.0; 6], &[0.0; 8], &[0; 6], &[1; 8]);
        assert_eq!((rows.steps(), rows.lanes()), (3, 2));
    }

    #[test]
    #[should_panic(expected = "values: expected (3 + 1) × 2 entries")]
    fn a_missing_bootstrap_row_is_refused() {
        let _ = Rows::new(2, &[0.0; 6], &[0.0; 6], &[0; 6], &[1; 8]);
    }
}
