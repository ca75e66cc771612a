//! Orthogonal initialisation (Saxe, McClelland & Ganguli 2014), from our own counter generator, so
//! that a seed gives the same weights whatever else has drawn random numbers in the process.

/// A stream of standard normal numbers: SplitMix64 (Steele, Lea & Flood 2014) and Box–Muller.
struct Normals {
    state: u64,
    spare: Option<f64>,
}

impl Normals {
    fn new(seed: u64, stream: u64) -> Self {
        let mut s = Self {
            state: seed,
            spare: None,
        };
        s.state = s.next_u64() ^ stream.wrapping_mul(0xd605_1f3a_6e2b_9b4d);
        s
    }

    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn next(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // (0, 1], so that the logarithm is finite.
        let mut uniform = || ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let (radius, angle) = (
            (-2.0 * uniform().ln()).sqrt(),
            std::f64::consts::TAU * uniform(),
        );
        self.spare = Some(radius * angle.sin());
        radius * angle.cos()
    }
}

/// A `rows × cols` row-major matrix with orthonormal rows or columns (whichever are fewer), times
/// `gain`. `stream` keeps the matrices of one seed apart.
pub fn orthogonal(rows: usize, cols: usize, gain: f64, seed: u64, stream: u64) -> Vec<f32> {
    let (count, length) = (rows.min(cols), rows.max(cols));
    let mut normals = Normals::new(seed, stream);
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut v: Vec<f64> = (0..length).map(|_| normals.next()).collect();
        let drawn = norm(&v);
        // Twice is enough (Kahan, in Parlett 1980): the second pass removes the rounding of the first.
        for _ in 0..2 {
            for b in &basis {
                let along: f64 = v.iter().zip(b).map(|(x, y)| x * y).sum();
                v.iter_mut().zip(b).for_each(|(x, y)| *x -= along * y);
            }
        }
        let left = norm(&v);
        // A draw inside the span of the earlier vectors has no direction of its own: draw again.
        if left > 1e-6 * drawn && left > 0.0 {
            v.iter_mut().for_each(|x| *x /= left);
            basis.push(v);
        }
    }
    let at = |r: usize, c: usize| {
        if rows <= cols {
            basis[r][c]
        } else {
            basis[c][r]
        }
    };
    (0..rows * cols)
        .map(|i| (gain * at(i / cols, i % cols)) as f32)
        .collect()
}

fn norm(v: &[f64]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_side_is_orthonormal_times_the_gain() {
        for (rows, cols) in [(64, 4), (4, 64), (64, 64), (1, 64), (3, 3), (5, 1)] {
            let gain = 2f64.sqrt();
            let m = orthogonal(rows, cols, gain, 7, 1);
            let n = rows.min(cols);
            let at = |i: usize, k: usize| {
                f64::from(if rows <= cols {
                    m[i * cols + k]
                } else {
                    m[k * cols + i]
                })
            };
            for i in 0..n {
                for j in 0..n {
                    let dot: f64 = (0..rows.max(cols)).map(|k| at(i, k) * at(j, k)).sum();
                    let expected = if i == j { gain * gain } else { 0.0 };
                    assert!(
                        (dot - expected).abs() < 1e-5,
                        "{rows}×{cols}: {i}·{j} = {dot}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_seed_and_a_stream_give_one_matrix() {
        assert_eq!(orthogonal(8, 4, 1.0, 1, 0), orthogonal(8, 4, 1.0, 1, 0));
        assert_ne!(orthogonal(8, 4, 1.0, 1, 0), orthogonal(8, 4, 1.0, 2, 0));
        assert_ne!(orthogonal(8, 4, 1.0, 1, 0), orthogonal(8, 4, 1.0, 1, 1));
    }

    #[test]
    fn draws_look_normal() {
        let mut n = Normals::new(3, 0);
        let x: Vec<f64> = (0..100_000).map(|_| n.next()).collect();
        let mean = x.iter().sum::<f64>() / 1e5;
        let fourth = x.iter().map(|v| v.powi(4)).sum::<f64>() / 1e5;
        let variance = x.iter().map(|v| v * v).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02 && (fourth - 3.0).abs() < 0.15);
    }
}
