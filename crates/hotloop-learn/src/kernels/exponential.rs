//! Exponentials and logarithms of whole rows, for softmax distributions and importance ratios.

use super::{Isa, body::madd};
use std::f32::consts::{LN_2, LOG2_E, SQRT_2};

/// Rows of logits taken at a time, one per vector lane.
const LANES: usize = 16;

/// Below this the result is 0; it would be subnormal.
const LOWEST: f32 = -87.3;
/// Above this f32 overflows.
const HIGHEST: f32 = 88.72;
/// ln 2 in two parts, the first with zeros at its end, so that its products with small integers are
/// exact (Cody & Waite 1980).
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 · 2²³: adding it rounds to an integer, which then stands in the low bits.
const ROUNDER: f32 = 12_582_912.0;

/// exp(x) = 2ᵏ exp(r), |r| ≤ ln 2 / 2, by the Taylor polynomial of degree 7.
#[inline(always)]
fn exp1<I: Isa>(x: f32) -> f32 {
    let inside = x.clamp(LOWEST, HIGHEST);
    let shifted = madd::<I>(inside, LOG2_E, ROUNDER);
    let k = shifted - ROUNDER;
    let r = madd::<I>(k, -LN_2_LOW, madd::<I>(k, -LN_2_HIGH, inside));
    let mut p = 1.0 / 5040.0;
    for c in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        p = madd::<I>(p, r, c);
    }
    // The integer k, moved into the exponent's bits in two halves: 2¹²⁸ is no f32.
    let bits = shifted.to_bits().wrapping_sub(ROUNDER.to_bits()) as i32;
    let half = bits >> 1;
    let power = |k: i32| f32::from_bits(((k + 127) << 23) as u32);
    let y = p * power(half) * power(bits - half);
    if x < LOWEST { 0.0 } else { y }
}

/// ln(x) for normal x > 0, by the series of artanh: ln m = 2 (s + s³/3 + …), s = (m − 1)/(m + 1).
/// NaN stays NaN.
#[inline(always)]
fn ln1<I: Isa>(x: f32) -> f32 {
    // The exponent that leaves the mantissa in [√½, √2).
    let bits = x.to_bits();
    let shifted = bits.wrapping_sub((0.5 * SQRT_2).to_bits());
    let k = (shifted as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((k << 23) as u32));
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let mut p = 2.0 / 9.0;
    for c in [2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0] {
        p = madd::<I>(p, s2, c);
    }
    let y = madd::<I>(k as f32, LN_2, p * s);
    if x.is_nan() { x } else { y }
}

#[inline(always)]
pub(super) fn exp<I: Isa>(x: &mut [f32]) {
    for v in x {
        *v = exp1::<I>(*v);
    }
}

#[inline(always)]
pub(super) fn log_softmax<I: Isa>(
    z: &mut [f32],
    p: &mut [f32],
    stride: usize,
    first: usize,
    n: usize,
) {
    let rows = z.len() / stride;
    for start in (0..rows).step_by(LANES) {
        let count = LANES.min(rows - start);
        // Lanes past the end repeat the last row, so that every lane computes something.
        let mut at = [0usize; LANES];
        for (lane, at) in at.iter_mut().enumerate() {
            *at = (start + lane.min(count - 1)) * stride + first;
        }
        let mut max = [f32::NEG_INFINITY; LANES];
        for j in 0..n {
            for (max, at) in max.iter_mut().zip(&at) {
                let v = z[at + j];
                *max = if v > *max { v } else { *max };
            }
        }
        let mut sum = [0.0f32; LANES];
        for j in 0..n {
            let mut e = [0.0f32; LANES];
            for ((e, max), at) in e.iter_mut().zip(&max).zip(&at) {
                *e = z[at + j] - max;
            }
            for (e, sum) in e.iter_mut().zip(&mut sum) {
                *e = exp1::<I>(*e);
                *sum += *e;
            }
            for (e, at) in e.iter().zip(&at) {
                p[at + j] = *e;
            }
        }
        let (mut log_sum, mut inverse) = ([0.0f32; LANES], [0.0f32; LANES]);
        for ((sum, log_sum), inverse) in sum.iter().zip(&mut log_sum).zip(&mut inverse) {
            *log_sum = ln1::<I>(*sum);
            *inverse = 1.0 / *sum;
        }
        for (lane, at) in at[..count].iter().enumerate() {
            for j in 0..n {
                z[at + j] = z[at + j] - max[lane] - log_sum[lane];
                p[at + j] *= inverse[lane];
            }
        }
    }
}
