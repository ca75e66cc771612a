//! n-step bootstrapped returns over the rows of a segment.

use crate::Rows;

/// Computes n-step returns (Sutton and Barto, "Reinforcement Learning: An Introduction", 2nd edition,
/// equation 7.1):
///
/// ```text
/// G[t] = r[t] + γ·r[t+1] + … + γ^(m−1)·r[t+m−1] + γ^m·V[t+m]
/// ```
///
/// with `m = n` unless the episode or the segment ends sooner: a terminated row adds its reward and
/// nothing after it; a row whose successor is not valid, or is the bootstrap row, bootstraps from that
/// successor's value (see [`Rows`]). A row that is not valid gets its own value.
///
/// `returns` is an output of the shape `[T, L]`, `gamma` the discount per step.
///
/// # Panics
///
/// If `n` is 0 or the output has the wrong length.
pub fn n_step(rows: &Rows<'_>, gamma: f32, n: usize, returns: &mut [f32]) {
    assert!(n > 0, "an n-step return needs n of at least 1");
    rows.check_output("returns", returns.len());
    let lanes = rows.lanes;
    for (t, out) in returns.chunks_exact_mut(lanes).enumerate() {
        let end = (t + n).min(rows.steps);
        out.copy_from_slice(&rows.values[end * lanes..][..lanes]);
        for k in (t..end).rev() {
            let at = k * lanes;
            for (lane, ret) in out.iter_mut().enumerate() {
                let i = at + lane;
                let to_come = if rows.terminated[i] != 0 {
                    0.0
                } else {
                    gamma * *ret
                };
                // A row that is not valid stands for its value: the row before it bootstraps there.
                *ret = if rows.valid[i] != 0 {
                    rows.rewards[i] + to_come
                } else {
                    rows.values[i]
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_04_n_step_return_stops_at_termination() {
        // Leak across the boundary [8, 12.25, 19.5, 31, 46]; terminal reward dropped: row 2 is 4, row 3 is 0.
        let rewards = [1.0, 2.0, 4.0, 8.0, 16.0];
        let values = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        let rows = Rows::new(1, &rewards, &values, &[0, 0, 0, 1, 0], &[1; 6]);
        let mut returns = [f32::NAN; 5];
        n_step(&rows, 0.5, 3, &mut returns);
        assert_eq!(returns, [8.0, 6.0, 8.0, 8.0, 46.0]);
    }

    #[test]
    fn br_04_n_step_return_bootstraps_at_truncation() {
        let rewards = [1.0, 2.0, 4.0, 8.0, f32::NAN, 16.0];
        let values = [10.0, 20.0, 30.0, 40.0, 24.0, 50.0, 60.0];
        let rows = Rows::new(1, &rewards, &values, &[0; 6], &[1, 1, 1, 1, 0, 1, 1]);
        let mut returns = [f32::NAN; 6];
        n_step(&rows, 0.5, 3, &mut returns);
        assert_eq!(returns, [8.0, 9.0, 14.0, 20.0, 24.0, 46.0]);
    }

    #[test]
    #[should_panic(expected = "n of at least 1")]
    fn zero_steps_are_refused() {
        n_step(
            &Rows::new(1, &[1.0], &[0.0; 2], &[0], &[1; 2]),
            0.5,
            0,
            &mut [0.0],
        );
    }
}
