//! Schedules of a hyperparameter over the updates of a run.

/// A hyperparameter as a function of the update.
///
/// A schedule keeps no state: its value depends on the update's number and the run's total alone, so
/// a resumed run goes on where it stopped. If the total was changed on resuming, the value is the
/// one that a run planned with the new total would have had at this update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// The same value throughout.
    Constant(f64),
    /// A straight line from `start` at update 0 to `end` at update `total`; `end` from there on.
    Linear {
        /// The value at update 0.
        start: f64,
        /// The value at update `total` and after it.
        end: f64,
    },
}

impl Schedule {
    /// The value for update number `update` (from 0) of a run of `total` updates.
    #[must_use]
    pub fn at(&self, update: u64, total: u64) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Linear { end, .. } if update >= total => end,
            Self::Linear { start, end } => {
                let progress = update as f64 / total as f64;
                // This form stays between the two ends for every progress in [0, 1].
                start * (1.0 - progress) + end * progress
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_59_linear_schedule_goes_on_after_a_resume() {
        let rate = Schedule::Linear {
            start: 3e-4,
            end: 0.0,
        };
        assert_eq!(rate.at(0, 1000), 3e-4);
        assert!((rate.at(600, 1000) - 1.2e-4).abs() < 1e-18);
        assert!((rate.at(601, 1000) - 1.197e-4).abs() < 1e-18); // counted from the resume: 3e-4
    }

    #[test]
    fn br_59_schedule_ends_exactly_and_is_never_negative() {
        let rate = Schedule::Linear {
            start: 3e-4,
            end: 0.0,
        };
        for update in [1000, 1001, u64::MAX] {
            assert_eq!(rate.at(update, 1000), 0.0);
        }
        assert!((0..1000).all(|update| rate.at(update, 1000) > 0.0));
        assert_eq!(
            Schedule::Linear {
                start: 3e-4,
                end: 1e-5
            }
            .at(5000, 1000),
            1e-5
        );
    }

    #[test]
    fn br_59_a_new_total_follows_the_new_plan() {
        let rate = Schedule::Linear {
            start: 3e-4,
            end: 0.0,
        };
        assert!((rate.at(600, 2000) - 2.1e-4).abs() < 1e-18);
    }

    #[test]
    fn a_constant_is_constant_and_an_empty_run_is_at_its_end() {
        assert_eq!(Schedule::Constant(0.2).at(7, 10), 0.2);
        assert_eq!(
            Schedule::Linear {
                start: 1.0,
                end: 0.5
            }
            .at(0, 0),
            0.5
        );
    }
}
