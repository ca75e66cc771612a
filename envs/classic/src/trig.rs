//! Sine and cosine in one go, accurate to about one unit in the last place.
//!
//! The C library computes each on its own behind a call, which costs more than the rest of a CartPole
//! step. These are plain arithmetic, so they are inlined, overlap between lanes, and give the same
//! bits on every machine.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_4};

/// Up to here `x` minus its multiple of π/2 is exact in the first part of π/2 below.
const REDUCIBLE: f64 = 1e6;

/// π/2 as the sum of its first 33 bits and the rest.
const PIO2_HIGH: f64 = 1.570_796_326_734_125_6;
const PIO2_LOW: f64 = 6.077_100_506_506_192e-11;

/// Adding and subtracting this rounds a small number to the nearest whole one.
const ROUNDER: f64 = 1.5 * (1u64 << 52) as f64;

/// The sine and cosine of an angle that is nearly always within ±π/4, where no reduction is needed.
#[inline]
pub(crate) fn sin_cos_small(x: f64) -> (f64, f64) {
    if x.abs() <= FRAC_PI_4 {
        kernel(x)
    } else {
        sin_cos_large(x)
    }
}

/// Kept out of line, so that what it is called from stays small enough to be inlined itself.
#[cold]
#[inline(never)]
fn sin_cos_large(x: f64) -> (f64, f64) {
    sin_cos(x)
}

/// The sine and cosine of any angle.
#[inline]
pub(crate) fn sin_cos(x: f64) -> (f64, f64) {
    if x.abs() <= REDUCIBLE {
        reduced(x)
    } else {
        x.sin_cos() // NaN and infinities as well
    }
}

/// Subtracts the nearest multiple of π/2 in two parts (Cody and Waite, "Software Manual for the
/// Elementary Functions", 1980) and turns by as many quarters.
#[inline]
fn reduced(x: f64) -> (f64, f64) {
    let shifted = x * FRAC_2_PI + ROUNDER;
    let quarters = shifted - ROUNDER;
    let (sin, cos) = kernel((x - quarters * PIO2_HIGH) - quarters * PIO2_LOW);
    // The low bits of the shifted number are the whole number, modulo their range.
    let n = shifted.to_bits();
    let (sin, cos) = if n & 1 == 0 { (sin, cos) } else { (cos, sin) };
    let negate = |value: f64, yes: bool| f64::from_bits(value.to_bits() ^ (u64::from(yes) << 63));
    (
        negate(sin, n & 2 != 0),
        negate(cos, n.wrapping_add(1) & 2 != 0),
    )
}

/// Sine and cosine on ±π/4 by the minimax polynomials of FDLIBM (`k_sin.c`, `k_cos.c`; Sun
/// Microsystems, 1993), whose truncation error is below 2⁻⁵⁷.
#[inline]
fn kernel(x: f64) -> (f64, f64) {
    const SIN: [f64; 6] = [
        -1.666_666_666_666_663_2e-1,
        8.333_333_333_322_49e-3,
        -1.984_126_982_985_795e-4,
        2.755_731_370_707_006_8e-06,
        -2.505_076_025_340_686_3e-08,
        1.589_690_995_211_55e-10,
    ];
    const COS: [f64; 6] = [
        4.166_666_666_666_66e-2,
        -1.388_888_888_887_411e-3,
        2.480_158_728_947_673e-5,
        -2.755_731_435_139_066_3e-7,
        2.087_572_321_298_175e-9,
        -1.135_964_755_778_819_5e-11,
    ];
    let z = x * x;
    let zz = z * z;
    // Estrin's scheme: a shorter chain of dependent operations than Horner's.
    let sum =
        |c: &[f64; 6]| (c[0] + z * c[1]) + zz * (c[2] + z * c[3]) + (zz * zz) * (c[4] + z * c[5]);
    let sin = x + (x * z) * sum(&SIN);
    let cos = 1.0 - (0.5 * z - zz * sum(&COS));
    (sin, cos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(from: f64, to: f64, f: impl Fn(f64) -> (f64, f64)) -> f64 {
        let n = 200_000;
        (0..=n)
            .map(|i| {
                let x = from + (to - from) * f64::from(i) / f64::from(n);
                let ((sin, cos), (s, c)) = (f(x), x.sin_cos());
                (sin - s).abs().max((cos - c).abs())
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn within_an_ulp_of_the_library() {
        let ulp = f64::EPSILON / 2.0; // of a number just below 1
        assert!(worst(-FRAC_PI_4, FRAC_PI_4, kernel) <= 2.0 * ulp);
        assert!(worst(-40.0, 40.0, sin_cos) <= 2.0 * ulp);
        assert!(worst(-3.0, 3.0, sin_cos_small) <= 2.0 * ulp);
        assert!(worst(-2e6, 2e6, sin_cos) <= 2.0 * ulp);
    }

    #[test]
    fn small_angles_keep_their_relative_accuracy() {
        for x in [1e-300, 1e-9, 1e-4, 0.01, 0.2] {
            for x in [x, -x] {
                assert!((kernel(x).0 / x.sin() - 1.0).abs() <= f64::EPSILON, "{x}");
            }
        }
        assert_eq!(kernel(0.0), (0.0, 1.0));
    }

    #[test]
    fn quarter_turns_have_the_right_signs() {
        for n in -9..=9 {
            let x = f64::from(n) * 2.0 * FRAC_PI_4 + 0.1;
            let ((sin, cos), (s, c)) = (sin_cos(x), x.sin_cos());
            assert!(
                (sin - s).abs() < 1e-15 && (cos - c).abs() < 1e-15,
                "quarter {n}"
            );
        }
    }

    #[test]
    fn what_is_no_angle_is_nan() {
        for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let (sin, cos) = sin_cos_small(x);
            assert!(sin.is_nan() && cos.is_nan());
        }
    }
}
