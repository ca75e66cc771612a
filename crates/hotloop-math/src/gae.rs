//! Generalised advantage estimation over the rows of a segment.

use crate::Rows;

/// Computes advantages and value targets by generalised advantage estimation, GAE(γ, λ), of
/// Schulman, Moritz, Levine, Jordan and Abbeel, "High-Dimensional Continuous Control Using Generalized
/// Advantage Estimation" (2016), equations 11–16:
///
/// ```text
/// δ[t] = r[t] + γ·(1 − terminated[t])·V[t+1] − V[t]
/// A[t] = δ[t] + γ·λ·(1 − cut[t])·A[t+1],    A[T] = 0
/// target[t] = A[t] + V[t]
/// ```
///
/// where the trace is cut after `t` if row `t` is terminated or row `t + 1` is not valid (see [`Rows`]
/// for how truncation and failed steps are laid out). A row that is not valid gets the advantage 0 and
/// its own value as target; nothing else of it is read, so it may hold anything, NaN included.
///
/// `advantages` and `targets` are outputs of the shape `[T, L]`; what they held does not matter.
/// `gamma` is the discount per step, `lambda` the trace decay; both are in `[0, 1]`.
///
/// # Panics
///
/// If an output has the wrong length.
pub fn gae(rows: &Rows<'_>, gamma: f32, lambda: f32, advantages: &mut [f32], targets: &mut [f32]) {
    rows.check_output("advantages", advantages.len());
    rows.check_output("targets", targets.len());
    let lanes = rows.lanes;
    for t in (0..rows.steps).rev() {
        let (head, later) = advantages.split_at_mut((t + 1) * lanes);
        let out = (&mut head[t * lanes..], &mut targets[t * lanes..][..lanes]);
        if t + 1 == rows.steps {
            row(rows, t, gamma, out, |_| 0.0);
        } else {
            // A row that is not valid has written 0 here, which is the cut.
            let next = &later[..lanes];
            row(rows, t, gamma, out, |lane| gamma * lambda * next[lane]);
        }
    }
}

/// One row of all lanes: selects instead of branches, so that it compiles to vector code, and selects
/// instead of products, so that a NaN beside the mask stays out.
#[inline(always)]
fn row(
    rows: &Rows<'_>,
    t: usize,
    gamma: f32,
    (advantages, targets): (&mut [f32], &mut [f32]),
    carry: impl Fn(usize) -> f32,
) {
    let lanes = targets.len();
    let advantages = &mut advantages[..lanes];
    let rewards = &rows.rewards[t * lanes..][..lanes];
    let terminated = &rows.terminated[t * lanes..][..lanes];
    let valid = &rows.valid[t * lanes..][..lanes];
    let values = &rows.values[t * lanes..][..lanes];
    let next_values = &rows.values[(t + 1) * lanes..][..lanes];
    for lane in 0..lanes {
        let to_come = gamma * next_values[lane] + carry(lane);
        let to_come = if terminated[lane] != 0 { 0.0 } else { to_come };
        let advantage = rewards[lane] + to_come - values[lane];
        let advantage = if valid[lane] != 0 { advantage } else { 0.0 };
        advantages[lane] = advantage;
        targets[lane] = advantage + values[lane];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one lane; `rows` are (reward, value, terminated, valid), `bootstrap` the value of row T.
    fn one_lane(
        rows: &[(f32, f32, u8, u8)],
        bootstrap: f32,
        g: f32,
        l: f32,
    ) -> (Vec<f32>, Vec<f32>) {
        let rewards: Vec<f32> = rows.iter().map(|r| r.0).collect();
        let values: Vec<f32> = rows.iter().map(|r| r.1).chain([bootstrap]).collect();
        let terminated: Vec<u8> = rows.iter().map(|r| r.2).collect();
        let valid: Vec<u8> = rows.iter().map(|r| r.3).chain([1]).collect();
        let mut out = (vec![f32::NAN; rows.len()], vec![f32::NAN; rows.len()]);
        let view = Rows::new(1, &rewards, &values, &terminated, &valid);
        gae(&view, g, l, &mut out.0, &mut out.1);
        out
    }

    fn assert_close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(expected) {
            assert!(
                (f - e).abs() <= 1e-5,
                "found {found:?}, expected {expected:?}"
            );
        }
    }

    #[test]
    fn br_01_truncation_bootstraps_from_final_observation() {
        // Mistakes and what they give on rows 0, 1, 2 and 4: treated as termination
        // [-1.4375, -9.75, -27, -28]; value of the reset observation [-0.1875, -4.75, -7, -28]; value
        // before the action [-0.5, -6, -12, -28]; trace not cut [-1.625, -10.5, -30, -28].
        let rows = [
            (1.0, 10.0, 0, 1),
            (2.0, 20.0, 0, 1),
            (3.0, 30.0, 0, 1),
            (0.0, 8.0, 0, 0), // the final observation
            (4.0, 40.0, 0, 1),
        ];
        let (advantages, targets) = one_lane(&rows, 16.0, 0.5, 0.5);
        assert_eq!(advantages, [-1.1875, -8.75, -23.0, 0.0, -28.0]);
        assert_eq!(targets, [8.8125, 11.25, 7.0, 8.0, 12.0]);
    }

    #[test]
    fn br_01_second_vector() {
        let rows = [
            (1.0, 0.3, 0, 1),
            (0.5, 0.7, 0, 1),
            (-1.0, -0.2, 0, 1),
            (0.0, 0.9, 0, 0),
            (2.0, 1.1, 0, 1),
        ];
        let (advantages, targets) = one_lane(&rows, 0.4, 0.99, 0.95);
        assert_close(&advantages, &[1.099_174, -0.312_414, 0.091, 0.0, 1.296]);
        assert_close(&targets, &[1.399_174, 0.387_586, -0.109, 0.9, 2.396]);
    }

    #[test]
    fn br_01_truncation_in_the_last_row_bootstraps_from_the_bootstrap_row() {
        let rows = [(1.0, 10.0, 0, 1), (2.0, 20.0, 0, 1), (3.0, 30.0, 0, 1)];
        let (advantages, _) = one_lane(&rows, 8.0, 0.5, 0.5);
        assert_eq!(advantages, [-1.1875, -8.75, -23.0]);
    }

    #[test]
    fn br_02_termination_masks_td_error_and_carry() {
        // Mask only in the carry [0.25, -3, -14, -28]; only in the TD error [-4.375, -21.5, -14, -28].
        let rows = [
            (1.0, 10.0, 0, 1),
            (2.0, 20.0, 1, 1),
            (3.0, 30.0, 0, 1),
            (4.0, 40.0, 0, 1),
        ];
        let (advantages, _) = one_lane(&rows, 16.0, 0.5, 0.5);
        assert_eq!(advantages, [-3.5, -18.0, -14.0, -28.0]);
    }

    #[test]
    fn br_02_termination_in_the_last_row_ignores_the_bootstrap() {
        let rows = [
            (1.0, 10.0, 0, 1),
            (2.0, 20.0, 0, 1),
            (3.0, 30.0, 0, 1),
            (4.0, 40.0, 1, 1),
        ];
        let (advantages, _) = one_lane(&rows, 16.0, 0.5, 0.5);
        assert_eq!(advantages, [-0.75, -7.0, -16.0, -36.0]);
    }

    #[test]
    fn a_failed_row_is_bootstrapped_from_and_its_own_contents_are_ignored() {
        // Row 1 failed: its reward is NaN, the row after it a new episode. Row 0: 1 + 0.5·20 − 10.
        let rows = [(1.0, 10.0, 0, 1), (f32::NAN, 20.0, 0, 0), (3.0, 30.0, 0, 1)];
        let (advantages, targets) = one_lane(&rows, 16.0, 0.5, 0.5);
        assert_eq!(advantages, [1.0, 0.0, -19.0]);
        assert_eq!(targets, [11.0, 20.0, 11.0]);
    }

    #[test]
    fn a_nan_value_after_termination_does_not_leak() {
        let rows = [(1.0, 10.0, 1, 1), (f32::NAN, f32::NAN, 0, 0)];
        let (advantages, _) = one_lane(&rows, f32::NAN, 0.5, 0.5);
        assert_eq!(advantages, [-9.0, 0.0]);
    }
}
