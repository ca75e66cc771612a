//! The generic bodies behind [`super`]: plain loops that vectorise.
//!
//! Without a fused multiply-add in the instruction set, `mul_add` would be a library call per
//! element.

use super::{AdamStep, Isa};

/// Columns summed at a time: enough to fill the vector registers, few enough to stay in them.
const COLUMNS: usize = 32;

#[inline(always)]
pub(super) fn madd<I: Isa>(a: f32, b: f32, c: f32) -> f32 {
    if I::FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Rational minimax approximation of tanh, the 13/6-degree form and coefficients of Eigen's
/// `ptanh`. It stays within 1e-7 up to the clamp, where it is a hair above 1, so that the second
/// clamp makes saturation exact. `clamp` hands NaN through.
#[inline(always)]
pub(super) fn tanh1<I: Isa>(x: f32) -> f32 {
    let x = x.clamp(-9.8, 9.8);
    let x2 = x * x;
    let mut p = -2.760_768_4e-16;
    for c in [
        2.000_188e-13,
        -8.604_672e-11,
        5.122_297_3e-8,
        1.485_722_35e-5,
        6.372_619_5e-4,
        4.893_524_6e-3,
    ] {
        p = madd::<I>(p, x2, c);
    }
    let mut q = 1.198_258_4e-6;
    for c in [1.185_347_1e-4, 2.268_434_7e-3, 4.893_525e-3] {
        q = madd::<I>(q, x2, c);
    }
    (x * p / q).clamp(-1.0, 1.0)
}

#[inline(always)]
pub(super) fn tanh<I: Isa>(x: &mut [f32]) {
    for v in x {
        *v = tanh1::<I>(*v);
    }
}

#[inline(always)]
fn map_rows(x: &mut [f32], bias: &[f32], f: impl Fn(f32, f32) -> f32) {
    if bias.is_empty() {
        return;
    }
    for row in x.chunks_exact_mut(bias.len()) {
        for (v, b) in row.iter_mut().zip(bias) {
            *v = f(*v, *b);
        }
    }
}

#[inline(always)]
pub(super) fn bias_tanh<I: Isa>(x: &mut [f32], bias: &[f32]) {
    map_rows(x, bias, |v, b| tanh1::<I>(v + b));
}

#[inline(always)]
pub(super) fn bias_relu<I: Isa>(x: &mut [f32], bias: &[f32]) {
    map_rows(x, bias, |v, b| {
        let z = v + b;
        if z < 0.0 { 0.0 } else { z }
    });
}

#[inline(always)]
pub(super) fn bias_add<I: Isa>(x: &mut [f32], bias: &[f32]) {
    map_rows(x, bias, |v, b| v + b);
}

/// `d = f(d, y)` and `sums += Σ_rows d`, a block of columns at a time.
#[inline(always)]
fn backward(d: &mut [f32], y: &[f32], sums: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    let width = sums.len();
    let mut start = 0;
    while start < width {
        let end = (start + COLUMNS).min(width);
        let mut acc = [0.0f32; COLUMNS];
        let rows = d.chunks_exact_mut(width).zip(y.chunks_exact(width));
        if end - start == COLUMNS {
            for (d, y) in rows {
                let (d, y) = (&mut d[start..end], &y[start..end]);
                for ((a, d), y) in acc.iter_mut().zip(d).zip(y) {
                    *d = f(*d, *y);
                    *a += *d;
                }
            }
        } else {
            for (d, y) in rows {
                let (d, y) = (&mut d[start..end], &y[start..end]);
                for ((a, d), y) in acc[..end - start].iter_mut().zip(d).zip(y) {
                    *d = f(*d, *y);
                    *a += *d;
                }
            }
        }
        for (sum, a) in sums[start..end].iter_mut().zip(acc) {
            *sum += a;
        }
        start = end;
    }
}

#[inline(always)]
pub(super) fn tanh_backward<I: Isa>(d: &mut [f32], y: &[f32], bias_grad: &mut [f32]) {
    backward(d, y, bias_grad, |d, y| d * madd::<I>(-y, y, 1.0));
}

#[inline(always)]
pub(super) fn relu_backward<I: Isa>(d: &mut [f32], y: &[f32], bias_grad: &mut [f32]) {
    backward(d, y, bias_grad, |d, y| if y <= 0.0 { 0.0 } else { d });
}

#[inline(always)]
pub(super) fn column_sums<I: Isa>(d: &[f32], sums: &mut [f32]) {
    if sums.is_empty() {
        return;
    }
    for row in d.chunks_exact(sums.len()) {
        for (s, v) in sums.iter_mut().zip(row) {
            *s += *v;
        }
    }
}

#[inline(always)]
pub(super) fn add_assign<I: Isa>(y: &mut [f32], x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += *x;
    }
}

#[inline(always)]
pub(super) fn sum_squares<I: Isa>(x: &[f32]) -> f64 {
    // Eight independent sums, so that the additions vectorise; f64, so that f32 cannot overflow.
    let mut acc = [0.0f64; 8];
    let chunks = x.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (a, v) in acc.iter_mut().zip(chunk) {
            let v = f64::from(*v);
            *a += v * v;
        }
    }
    let tail: f64 = rest.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
    acc.iter().sum::<f64>() + tail
}

#[inline(always)]
pub(super) fn adam<I: Isa>(
    w: &mut [f32],
    m: &mut [f32],
    v: &mut [f32],
    g: &[f32],
    step: &AdamStep,
) {
    let s = *step;
    for (((w, m), v), g) in w.iter_mut().zip(m).zip(v).zip(g) {
        let g = *g * s.grad_scale;
        *m += (g - *m) * (1.0 - s.beta1);
        *v = *v * s.beta2 + (1.0 - s.beta2) * g * g;
        *w -= s.step_size * *m / (v.sqrt() * s.inv_sqrt_bias2 + s.eps);
    }
}
