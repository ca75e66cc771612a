//! Sums over valid rows, in one fixed order.

/// How many partial sums run side by side: enough to hide the latency of an addition.
const PARTS: usize = 8;

/// Sums `term(i)` over the rows `i` with `valid[i] != 0`.
///
/// The order of the additions depends on the length alone, so the result is the same bit for bit on
/// every machine and with any number of threads around.
pub(crate) fn masked_sum(valid: &[u8], term: impl Fn(usize) -> f64) -> f64 {
    let mut parts = [0.0f64; PARTS];
    let mut chunks = valid.chunks_exact(PARTS);
    let mut at = 0;
    for chunk in &mut chunks {
        for (k, (part, &row)) in parts.iter_mut().zip(chunk).enumerate() {
            *part += if row != 0 { term(at + k) } else { 0.0 };
        }
        at += PARTS;
    }
    for (k, (part, &row)) in parts.iter_mut().zip(chunks.remainder()).enumerate() {
        *part += if row != 0 { term(at + k) } else { 0.0 };
    }
    parts.iter().sum()
}

/// The number of rows with `valid[i] != 0`.
pub(crate) fn count_valid(valid: &[u8]) -> usize {
    valid.iter().filter(|&&row| row != 0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_rows_are_summed_whatever_the_length() {
        for length in [0, 1, 7, 8, 9, 40] {
            let valid: Vec<u8> = (0..length).map(|i| u8::from(i % 3 != 1)).collect();
            let expected: usize = (0..length).filter(|i| i % 3 != 1).sum();
            let found = masked_sum(&valid, |i| if i % 3 == 1 { f64::NAN } else { i as f64 });
            assert_eq!(found, expected as f64);
            assert_eq!(
                count_valid(&valid),
                (0..length).filter(|i| i % 3 != 1).count()
            );
        }
    }
}
