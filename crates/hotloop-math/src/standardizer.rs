//! A frozen copy of running moments, ready to normalise rows in `f32`.

use crate::RunningMoments;

/// The fewest entries that one inner loop covers: rows of few features are normalised several at a
/// time, so that the loop is long enough for vector code.
const TILE: usize = 64;

/// Normalises rows of features: `clamp((x − mean) / sqrt(variance + epsilon), ±clip)`.
///
/// This is the half of a normaliser that is published with the weights of a policy version: it knows
/// the statistics of that version and cannot change them. The output goes to another slice than the
/// input, so that a row is not normalised twice by accident.
///
/// The mean is held as the sum of two `f32`, so that a feature with a large offset loses nothing:
/// `x − high` is exact near the mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Standardizer {
    features: usize,
    epsilon: f64,
    clip: f32,
    mean_high: Vec<f32>,
    mean_low: Vec<f32>,
    inverse: Vec<f32>,
}

impl Standardizer {
    /// The standardizer of the given moments. `epsilon` is added to the variance; `clip` bounds the
    /// output on both sides (infinity for no bound).
    ///
    /// # Panics
    ///
    /// If `clip` is not positive.
    #[must_use]
    pub fn new(moments: &RunningMoments, epsilon: f64, clip: f32) -> Self {
        assert!(clip > 0.0, "clip: expected a positive bound, found {clip}");
        let features = moments.features();
        let tile = features * TILE.div_ceil(features);
        let mut new = Self {
            features,
            epsilon,
            clip,
            mean_high: vec![0.0; tile],
            mean_low: vec![0.0; tile],
            inverse: vec![0.0; tile],
        };
        new.set(moments);
        new
    }

    /// Takes over newer moments, in place and without allocating.
    ///
    /// # Panics
    ///
    /// If the number of features differs.
    pub fn set(&mut self, moments: &RunningMoments) {
        assert_eq!(
            moments.features(),
            self.features,
            "standardizer: features per row"
        );
        for i in 0..self.inverse.len() {
            let feature = i % self.features;
            let mean = moments.mean()[feature];
            self.mean_high[i] = mean as f32;
            self.mean_low[i] = (mean - f64::from(mean as f32)) as f32;
            self.inverse[i] = moments.inverse_deviation(feature, self.epsilon) as f32;
        }
    }

    /// Copies another standardizer of the same features, in place and without allocating.
    ///
    /// # Panics
    ///
    /// If the number of features differs.
    pub fn copy_from(&mut self, other: &Self) {
        assert_eq!(
            other.features, self.features,
            "standardizer: features per row"
        );
        (self.epsilon, self.clip) = (other.epsilon, other.clip);
        self.mean_high.copy_from_slice(&other.mean_high);
        self.mean_low.copy_from_slice(&other.mean_low);
        self.inverse.copy_from_slice(&other.inverse);
    }

    /// The number of features per row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Normalises whole rows: `rows` and `out` are `[N, features]`. NaN stays NaN.
    ///
    /// # Panics
    ///
    /// If the lengths differ or are no whole number of rows.
    pub fn apply(&self, rows: &[f32], out: &mut [f32]) {
        assert_eq!(
            rows.len(),
            out.len(),
            "normalised rows: length of the output"
        );
        assert!(
            rows.len().is_multiple_of(self.features),
            "rows: {} entries are no whole number of rows of {} features",
            rows.len(),
            self.features
        );
        let tile = self.inverse.len();
        for (rows, out) in rows.chunks(tile).zip(out.chunks_mut(tile)) {
            let n = rows.len();
            let (high, low) = (&self.mean_high[..n], &self.mean_low[..n]);
            let inverse = &self.inverse[..n];
            for i in 0..n {
                let normalized = ((rows[i] - high[i]) - low[i]) * inverse[i];
                out[i] = normalized.clamp(-self.clip, self.clip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(rows: &[f32], features: usize) -> RunningMoments {
        let mut moments = RunningMoments::new(features);
        moments.update(rows, &vec![1; rows.len() / features], 1);
        moments
    }

    fn apply(standardizer: &Standardizer, rows: &[f32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; rows.len()];
        standardizer.apply(rows, &mut out);
        out
    }

    #[test]
    fn br_14_large_offsets_are_normalised_in_f32_without_loss() {
        let rows = [1_000_000.0, 1_000_001.0, 1_000_002.0, 1_000_003.0];
        let out = apply(&Standardizer::new(&moments(&rows, 1), 0.0, 10.0), &rows);
        for (found, x) in out.iter().zip([-1.5, -0.5, 0.5, 1.5]) {
            assert!(
                (f64::from(*found) - x / 1.25f64.sqrt()).abs() < 1e-6,
                "{out:?}"
            );
        }
        // A mean that is no f32: 100,000.3 would be rounded by 0.003 if it were held as one.
        let mean = 100_000.3;
        let moments = RunningMoments::from_parts(1, vec![mean], vec![1.0]).unwrap();
        let out = apply(&Standardizer::new(&moments, 0.0, 10.0), &[100_000.0]);
        assert!(
            (f64::from(out[0]) - (100_000.0 - mean)).abs() < 1e-6,
            "{out:?}"
        );
    }

    #[test]
    fn br_14e_a_constant_feature_becomes_zero_and_the_clip_holds() {
        let standardizer = Standardizer::new(&moments(&[3.0; 5], 1), 1e-8, 10.0);
        assert_eq!(apply(&standardizer, &[3.0, 3.5, -1e9]), [0.0, 10.0, -10.0]);
    }

    #[test]
    fn br_14f_the_input_is_left_alone_and_normalised_once() {
        let rows = [0.0, 10.0, 4.0, 30.0];
        let standardizer = Standardizer::new(&moments(&rows, 2), 0.0, 10.0);
        assert_eq!(apply(&standardizer, &rows), [-1.0, -1.0, 1.0, 1.0]);
        // Normalised twice, the first row would be (-1.5, -2.1).
        assert_eq!(rows, [0.0, 10.0, 4.0, 30.0]);
    }

    #[test]
    fn br_18_applying_changes_no_statistics() {
        let moments = moments(&[1.0, 2.0, 3.0, 3.0, 4.0, 5.0], 3);
        let standardizer = Standardizer::new(&moments, 1e-8, 10.0);
        let fixed = apply(&standardizer, &[1.0, 3.0, 9.0]);
        for _ in 0..8 {
            apply(&standardizer, &[100.0; 3]);
        }
        assert_eq!((moments.count(), moments.mean()), (2, &[2.0, 3.0, 4.0][..]));
        assert_eq!(apply(&standardizer, &[1.0, 3.0, 9.0]), fixed);
    }

    #[test]
    fn every_row_of_a_long_batch_uses_its_own_features() {
        // 5 features do not divide the tile's minimum, and 33 rows do not fill a whole number of tiles.
        let base = [10.0, 20.0, 30.0, 40.0, 50.0];
        let moments =
            RunningMoments::from_parts(4, base.map(f64::from).to_vec(), vec![16.0; 5]).unwrap();
        let rows: Vec<f32> = (0..33)
            .flat_map(|n| base.map(|b| b + 2.0 * n as f32))
            .collect();
        let out = apply(&Standardizer::new(&moments, 0.0, 1e9), &rows);
        for (n, row) in out.chunks(5).enumerate() {
            assert_eq!(row, [n as f32; 5]);
        }
    }

    #[test]
    fn nothing_seen_yet_changes_nothing_but_the_clip_and_copies_are_equal() {
        let fresh = Standardizer::new(&RunningMoments::new(1), 0.0, 5.0);
        assert_eq!(apply(&fresh, &[1.5, 7.0]), [1.5, 5.0]);
        let other = Standardizer::new(&moments(&[1.0, 3.0], 1), 1e-8, 10.0);
        let mut copy = fresh.clone();
        copy.copy_from(&other);
        assert_eq!(copy, other);
        let mut set = Standardizer::new(&RunningMoments::new(1), 1e-8, 10.0);
        set.set(&moments(&[1.0, 3.0], 1));
        assert_eq!(set, other);
    }

    #[test]
    fn nan_stays_visible() {
        let standardizer = Standardizer::new(&moments(&[1.0, 3.0], 1), 1e-8, 10.0);
        assert!(apply(&standardizer, &[f32::NAN])[0].is_nan());
    }
}
