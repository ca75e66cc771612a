//! The gates of recurrent cells, forward and backward, in PyTorch's definitions and gate order.
//!
//! Sections of one row lie behind each other: input, forget, candidate and output gate of an LSTM
//! (Hochreiter & Schmidhuber 1997; Gers et al. 2000), reset and update gate and candidate of a GRU
//! (Cho et al. 2014, with the reset after the product). `width` is the size of one section. Each
//! function works on `N` neighbouring units of a row at a time, in arrays that become registers: a
//! compiler cannot know that the sections of one row do not overlap.

use super::{
    Isa,
    body::{madd, tanh1},
};

/// Units taken at a time; those left over are taken one by one.
const UNITS: usize = 16;

/// The logistic function, as a hyperbolic tangent: absolute error below 3e-7.
#[inline(always)]
fn sigmoid<I: Isa>(x: f32) -> f32 {
    madd::<I>(0.5, tanh1::<I>(0.5 * x), 0.5)
}

#[inline(always)]
fn load<const N: usize>(row: &[f32], at: usize) -> [f32; N] {
    let mut units = [0.0; N];
    units.copy_from_slice(&row[at..at + N]);
    units
}

#[inline(always)]
fn store<const N: usize>(row: &mut [f32], at: usize, units: [f32; N]) {
    row[at..at + N].copy_from_slice(&units);
}

#[inline(always)]
fn each<const N: usize>(f: impl Fn(usize) -> f32) -> [f32; N] {
    let mut units = [0.0; N];
    for (j, unit) in units.iter_mut().enumerate() {
        *unit = f(j);
    }
    units
}

/// Calls `$f::<I, N>(…, at, width)` for all units `at` of a row.
macro_rules! all_units {
    ($width:ident, $f:ident($($arg:expr),*)) => {
        let whole = $width - $width % UNITS;
        for at in (0..whole).step_by(UNITS) {
            $f::<I, UNITS>($($arg,)* at, $width);
        }
        for at in whole..$width {
            $f::<I, 1>($($arg,)* at, $width);
        }
    };
}

#[inline(always)]
pub(super) fn lstm<I: Isa>(
    gates: &mut [f32],
    hidden: &[f32],
    bias: &[f32],
    before: &[f32],
    cell: &mut [f32],
    out: &mut [f32],
) {
    let width = bias.len() / 4;
    if width == 0 {
        return;
    }
    let rows = gates
        .chunks_exact_mut(4 * width)
        .zip(hidden.chunks_exact(4 * width))
        .zip(before.chunks_exact(width))
        .zip(cell.chunks_exact_mut(width))
        .zip(out.chunks_exact_mut(width));
    for ((((gates, hidden), before), cell), out) in rows {
        all_units!(width, lstm_units(gates, hidden, bias, before, cell, out));
    }
}

#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the columns of one row")]
fn lstm_units<I: Isa, const N: usize>(
    gates: &mut [f32],
    hidden: &[f32],
    bias: &[f32],
    before: &[f32],
    cell: &mut [f32],
    out: &mut [f32],
    at: usize,
    width: usize,
) {
    let sums = |gates: &[f32], section: usize| -> [f32; N] {
        let at = at + section * width;
        let (x, h, b) = (
            load::<N>(gates, at),
            load::<N>(hidden, at),
            load::<N>(bias, at),
        );
        each(|j| x[j] + h[j] + b[j])
    };
    let (i, f) = (sums(gates, 0), sums(gates, 1));
    let (g, o) = (sums(gates, 2), sums(gates, 3));
    let before = load::<N>(before, at);
    let i: [f32; N] = each(|j| sigmoid::<I>(i[j]));
    let f: [f32; N] = each(|j| sigmoid::<I>(f[j]));
    let g: [f32; N] = each(|j| tanh1::<I>(g[j]));
    let o: [f32; N] = each(|j| sigmoid::<I>(o[j]));
    let c: [f32; N] = each(|j| madd::<I>(f[j], before[j], i[j] * g[j]));
    for (section, gate) in [i, f, g, o].into_iter().enumerate() {
        store(gates, at + section * width, gate);
    }
    store(cell, at, c);
    store::<N>(out, at, each(|j| o[j] * tanh1::<I>(c[j])));
}

#[inline(always)]
pub(super) fn lstm_backward<I: Isa>(
    gates: &mut [f32],
    before: &[f32],
    d_out: &[f32],
    d_cell: &mut [f32],
    width: usize,
) {
    if width == 0 {
        return;
    }
    let rows = gates
        .chunks_exact_mut(4 * width)
        .zip(before.chunks_exact(width))
        .zip(d_out.chunks_exact(width))
        .zip(d_cell.chunks_exact_mut(width));
    for (((gates, before), d_out), d_cell) in rows {
        all_units!(width, lstm_units_backward(gates, before, d_out, d_cell));
    }
}

#[inline(always)]
fn lstm_units_backward<I: Isa, const N: usize>(
    gates: &mut [f32],
    before: &[f32],
    d_out: &[f32],
    d_cell: &mut [f32],
    at: usize,
    width: usize,
) {
    let [i, f, g, o]: [[f32; N]; 4] =
        std::array::from_fn(|section| load(gates, at + section * width));
    let (before, d) = (load::<N>(before, at), load::<N>(d_out, at));
    let above = load::<N>(d_cell, at);
    let squashed: [f32; N] = each(|j| tanh1::<I>(madd::<I>(f[j], before[j], i[j] * g[j])));
    let dc: [f32; N] = each(|j| {
        let slope = madd::<I>(-squashed[j], squashed[j], 1.0);
        madd::<I>(d[j] * o[j], slope, above[j])
    });
    let sums: [[f32; N]; 4] = [
        each(|j| dc[j] * g[j] * i[j] * (1.0 - i[j])),
        each(|j| dc[j] * before[j] * f[j] * (1.0 - f[j])),
        each(|j| dc[j] * i[j] * madd::<I>(-g[j], g[j], 1.0)),
        each(|j| d[j] * squashed[j] * o[j] * (1.0 - o[j])),
    ];
    for (section, sum) in sums.into_iter().enumerate() {
        store(gates, at + section * width, sum);
    }
    store::<N>(d_cell, at, each(|j| dc[j] * f[j]));
}

#[inline(always)]
pub(super) fn gru<I: Isa>(
    gates: &mut [f32],
    hidden: &[f32],
    bias: &[f32],
    hidden_bias: &[f32],
    before: &[f32],
    candidate: &mut [f32],
    out: &mut [f32],
) {
    let width = bias.len() / 3;
    if width == 0 {
        return;
    }
    let rows = gates
        .chunks_exact_mut(3 * width)
        .zip(hidden.chunks_exact(3 * width))
        .zip(before.chunks_exact(width))
        .zip(candidate.chunks_exact_mut(width))
        .zip(out.chunks_exact_mut(width));
    for ((((gates, hidden), before), candidate), out) in rows {
        all_units!(
            width,
            gru_units(gates, hidden, bias, hidden_bias, before, candidate, out)
        );
    }
}

#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the columns of one row")]
fn gru_units<I: Isa, const N: usize>(
    gates: &mut [f32],
    hidden: &[f32],
    bias: &[f32],
    hidden_bias: &[f32],
    before: &[f32],
    candidate: &mut [f32],
    out: &mut [f32],
    at: usize,
    width: usize,
) {
    let sum = |values: &[f32], bias: &[f32], section: usize| -> [f32; N] {
        let at = at + section * width;
        let (x, b) = (load::<N>(values, at), load::<N>(bias, at));
        each(|j| x[j] + b[j])
    };
    let of_inputs: [[f32; N]; 3] = std::array::from_fn(|section| sum(gates, bias, section));
    let [hr, hz, hn]: [[f32; N]; 3] =
        std::array::from_fn(|section| sum(hidden, hidden_bias, section));
    let [xr, xz, xn] = of_inputs;
    let before = load::<N>(before, at);
    let r: [f32; N] = each(|j| sigmoid::<I>(xr[j] + hr[j]));
    let z: [f32; N] = each(|j| sigmoid::<I>(xz[j] + hz[j]));
    let n: [f32; N] = each(|j| tanh1::<I>(madd::<I>(r[j], hn[j], xn[j])));
    for (section, gate) in [r, z, n].into_iter().enumerate() {
        store(gates, at + section * width, gate);
    }
    store(candidate, at, hn);
    store::<N>(out, at, each(|j| madd::<I>(z[j], before[j] - n[j], n[j])));
}

#[inline(always)]
pub(super) fn gru_backward<I: Isa>(
    gates: &mut [f32],
    candidate: &[f32],
    before: &[f32],
    d_out: &mut [f32],
    d_hidden: &mut [f32],
    width: usize,
) {
    if width == 0 {
        return;
    }
    let rows = gates
        .chunks_exact_mut(3 * width)
        .zip(candidate.chunks_exact(width))
        .zip(before.chunks_exact(width))
        .zip(d_out.chunks_exact_mut(width))
        .zip(d_hidden.chunks_exact_mut(3 * width));
    for ((((gates, candidate), before), d_out), d_hidden) in rows {
        all_units!(
            width,
            gru_units_backward(gates, candidate, before, d_out, d_hidden)
        );
    }
}

#[inline(always)]
fn gru_units_backward<I: Isa, const N: usize>(
    gates: &mut [f32],
    candidate: &[f32],
    before: &[f32],
    d_out: &mut [f32],
    d_hidden: &mut [f32],
    at: usize,
    width: usize,
) {
    let [r, z, n]: [[f32; N]; 3] = std::array::from_fn(|section| load(gates, at + section * width));
    let (candidate, before) = (load::<N>(candidate, at), load::<N>(before, at));
    let d = load::<N>(d_out, at);
    let dn: [f32; N] = each(|j| d[j] * (1.0 - z[j]) * madd::<I>(-n[j], n[j], 1.0));
    let dr: [f32; N] = each(|j| dn[j] * candidate[j] * r[j] * (1.0 - r[j]));
    let dz: [f32; N] = each(|j| d[j] * (before[j] - n[j]) * z[j] * (1.0 - z[j]));
    for (section, sum) in [dr, dz, dn].into_iter().enumerate() {
        store(gates, at + section * width, sum);
    }
    let through: [f32; N] = each(|j| dn[j] * r[j]);
    for (section, sum) in [dr, dz, through].into_iter().enumerate() {
        store(d_hidden, at + section * width, sum);
    }
    store::<N>(d_out, at, each(|j| d[j] * z[j]));
}
