//! V-trace: value targets and advantages from rows that another policy than the current one chose.

use crate::Rows;

/// Log-ratios are cut off here, so that no clip, however wide, meets an infinity: `exp(20)` is 4.85e8.
const MAX_LOG_RATIO: f32 = 20.0;

/// Coefficients of [`vtrace`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VTrace {
    /// Discount per step, in `[0, 1]`.
    pub gamma: f32,
    /// Trace decay, in `[0, 1]`.
    pub lambda: f32,
    /// Largest weight of a temporal difference, ρ̄: it decides which policy's values are learned.
    pub rho_clip: f32,
    /// Largest factor of a trace, c̄: it decides how fast they are learned.
    pub c_clip: f32,
    /// Largest weight of an advantage. `None` weighs none: for losses that bring the ratio themselves.
    pub rho_pg_clip: Option<f32>,
}

impl Default for VTrace {
    /// The clips of the paper, all 1, with the discount 0.99 and full traces.
    fn default() -> Self {
        Self {
            gamma: 0.99,
            lambda: 1.0,
            rho_clip: 1.0,
            c_clip: 1.0,
            rho_pg_clip: Some(1.0),
        }
    }
}

/// Computes advantages and value targets by V-trace of Espeholt, Soyer, Munos et al., "IMPALA: Scalable
/// Distributed Deep-RL with Importance Weighted Actor-Learner Architectures" (2018), section 4.1, with
/// the trace decay λ of its remark 2. With `w = exp(log-ratio)`:
///
/// ```text
/// δ[t] = r[t] + γ·(1 − terminated[t])·V[t+1] − V[t]
/// x[t] = min(ρ̄, w[t])·δ[t] + γ·λ·(1 − cut[t])·min(c̄, w[t])·x[t+1],    x[T] = 0
/// target[t] = V[t] + x[t]
/// A[t] = min(ρ̄_pg, w[t])·(r[t] + γ·(1 − terminated[t])·q[t] − V[t])
/// ```
///
/// where the trace is cut as for [`gae`](crate::gae), and `q[t]` is `target[t+1]` inside a segment but
/// `V[t+1]` wherever a trace ends: at the last row, and before a row that is not valid.
///
/// The ratios are those of [`Rows::with_log_ratios`]; rows without any are taken to be on-policy. A
/// ratio cannot overflow; a log-ratio that is NaN stays visible. A row that is not valid gets the
/// advantage 0 and its own value as target; nothing else of it is read.
///
/// `advantages` and `targets` are outputs of the shape `[T, L]`; what they held does not matter.
///
/// # Panics
///
/// If an output has the wrong length.
pub fn vtrace(rows: &Rows<'_>, by: &VTrace, advantages: &mut [f32], targets: &mut [f32]) {
    rows.check_output("advantages", advantages.len());
    rows.check_output("targets", targets.len());
    let lanes = rows.lanes;
    let mut carried = vec![0.0; lanes];
    for t in (0..rows.steps).rev() {
        let (here, later) = targets.split_at_mut((t + 1) * lanes);
        let next_values = &rows.values[(t + 1) * lanes..][..lanes];
        // A row that is not valid has its own value as target: where the trace ends, so does `q`.
        let next_targets = later.get(..lanes).unwrap_or(next_values);
        for lane in 0..lanes {
            let i = t * lanes + lane;
            let weight = rows.log_ratios.map_or(1.0, |all| ratio(all[i]));
            let goes_on = rows.terminated[i] == 0;
            let discounted = |value: f32| if goes_on { by.gamma * value } else { 0.0 };
            let (reward, value) = (rows.rewards[i], rows.values[i]);
            let surprise = reward + discounted(next_values[lane]) - value;
            let trace = discounted(by.lambda * carried[lane]);
            let x = clipped(weight, by.rho_clip) * surprise + clipped(weight, by.c_clip) * trace;
            let advantage = reward + discounted(next_targets[lane]) - value;
            let weighted = by
                .rho_pg_clip
                .map_or(advantage, |clip| clipped(weight, clip) * advantage);
            let valid = rows.valid[i] != 0;
            carried[lane] = if valid { x } else { 0.0 };
            advantages[i] = if valid { weighted } else { 0.0 };
            here[i] = if valid { value + x } else { value };
        }
    }
}

/// The ratio of a log-ratio. Not `min`, which would swallow a NaN.
fn ratio(log_ratio: f32) -> f32 {
    if log_ratio > MAX_LOG_RATIO {
        MAX_LOG_RATIO.exp()
    } else {
        log_ratio.exp()
    }
}

fn clipped(ratio: f32, most: f32) -> f32 {
    if ratio > most { most } else { ratio }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: VTrace = VTrace {
        gamma: 0.5,
        lambda: 1.0,
        rho_clip: 2.0,
        c_clip: 1.0,
        rho_pg_clip: Some(3.0),
    };
    const RATIOS: [f32; 4] = [0.5, 2.0, 4.0, 1.0];

    /// Runs one lane; `rows` are (reward, value, ratio, terminated, valid), `bootstrap` the value of row T.
    fn one_lane(
        rows: &[(f32, f32, f32, u8, u8)],
        bootstrap: f32,
        by: &VTrace,
    ) -> (Vec<f32>, Vec<f32>) {
        let rewards: Vec<f32> = rows.iter().map(|r| r.0).collect();
        let values: Vec<f32> = rows.iter().map(|r| r.1).chain([bootstrap]).collect();
        let log_ratios: Vec<f32> = rows.iter().map(|r| r.2.ln()).collect();
        let terminated: Vec<u8> = rows.iter().map(|r| r.3).collect();
        let valid: Vec<u8> = rows.iter().map(|r| r.4).chain([1]).collect();
        let (mut advantages, mut targets) =
            (vec![f32::NAN; rows.len()], vec![f32::NAN; rows.len()]);
        let view =
            Rows::new(1, &rewards, &values, &terminated, &valid).with_log_ratios(&log_ratios);
        vtrace(&view, by, &mut advantages, &mut targets);
        (advantages, targets)
    }

    /// The case's rows with these ratios and a termination at row 1 or nowhere.
    fn case(ratios: [f32; 4], terminated: bool) -> Vec<(f32, f32, f32, u8, u8)> {
        let (rewards, values) = ([1.0, 2.0, 3.0, 4.0], [2.0, 8.0, 4.0, 6.0]);
        (0..4)
            .map(|t| {
                let end = u8::from(terminated && t == 1);
                (rewards[t], values[t], ratios[t], end, 1)
            })
            .collect()
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
    fn br_06_vtrace_clips_are_three() {
        // Thresholds swapped (rho 1, c 2) would give the targets [3.75, 9, 9, 9]; one clip of 1 everywhere
        // [2.9375, 5.75, 7.5, 9] and the advantages [0.9375, -2.25, 3.5, 3].
        let (advantages, targets) = one_lane(&case(RATIOS, false), 10.0, &CASE);
        assert_close(&targets, &[2.1875, 2.75, 9.5, 9.0]);
        assert_close(&advantages, &[0.1875, -2.5, 10.5, 3.0]);
    }

    #[test]
    fn br_06_on_policy_targets_are_discounted_returns() {
        let (_, targets) = one_lane(&case([1.0; 4], false), 10.0, &CASE);
        assert_close(&targets, &[3.875, 5.75, 7.5, 9.0]);
    }

    #[test]
    fn br_06_vtrace_termination_bootstraps_from_nothing() {
        let (advantages, targets) = one_lane(&case(RATIOS, true), 10.0, &CASE);
        assert_close(&targets, &[0.5, -4.0, 9.5, 9.0]);
        assert_close(&advantages, &[-1.5, -12.0, 10.5, 3.0]);
    }

    #[test]
    fn br_06_vtrace_truncation_bootstraps_from_the_final_observation() {
        // With the reset observation's value instead: [1.5, 0, 9.5, 9]. What the row of the final
        // observation holds beside its value is not read.
        let mut rows = case(RATIOS, false);
        rows.insert(2, (f32::NAN, 16.0, f32::NAN, 0, 0));
        let (advantages, targets) = one_lane(&rows, 10.0, &CASE);
        assert_close(&targets, &[4.5, 12.0, 16.0, 9.5, 9.0]);
        assert_close(&advantages, &[2.5, 4.0, 0.0, 10.5, 3.0]);
    }

    #[test]
    fn br_06_vtrace_reads_the_last_reward() {
        let (_, before) = one_lane(&case(RATIOS, false), 10.0, &CASE);
        let mut rows = case(RATIOS, false);
        rows[3].0 += 1.0;
        let (_, after) = one_lane(&rows, 10.0, &CASE);
        assert_close(&[after[3] - before[3]], &[1.0]);
    }

    #[test]
    fn br_06_vtrace_advantages_without_a_weight_of_their_own() {
        let by = VTrace {
            rho_pg_clip: None,
            ..CASE
        };
        let (advantages, targets) = one_lane(&case(RATIOS, false), 10.0, &by);
        assert_close(&targets, &[2.1875, 2.75, 9.5, 9.0]);
        assert_close(&advantages, &[0.375, -1.25, 3.5, 3.0]);
    }

    #[test]
    fn br_07_vtrace_weights_are_their_clips_and_nan_stays_visible() {
        let run = |log_ratio: f32, by: &VTrace| {
            let (mut advantage, mut target) = ([0.0], [0.0]);
            let log_ratios = [log_ratio];
            let rows =
                Rows::new(1, &[3.0], &[1.0, 4.0], &[0], &[1; 2]).with_log_ratios(&log_ratios);
            vtrace(&rows, by, &mut advantage, &mut target);
            (advantage[0], target[0])
        };
        // The temporal difference is 3 + 0.5 · 4 − 1 = 4.
        assert_eq!(run(100.0, &CASE), (12.0, 9.0));
        assert_eq!(run(f32::INFINITY, &CASE), (12.0, 9.0));
        assert_eq!(run(-100.0, &CASE).1, 1.0);
        let open = VTrace {
            rho_clip: f32::INFINITY,
            rho_pg_clip: Some(f32::INFINITY),
            ..CASE
        };
        let (advantage, target) = run(1e9, &open);
        assert!(advantage.is_finite() && target.is_finite() && target > 1e9);
        let (advantage, target) = run(f32::NAN, &CASE);
        assert!(advantage.is_nan() && target.is_nan());
    }
}
