//! Products of tall matrices with small ones, as they occur in narrow networks.
//!
//! A tile of the result stays in registers while the inner dimension runs; the small matrix is
//! packed into panels of 16 columns, so that each step reads one line of it. For the layers that
//! fit the caches this runs at the speed of the multipliers, and spares a library's dispatch, its
//! temporary tensors and the passes between the products. Larger layers belong to libtorch.

use super::{Isa, body::madd};

/// Columns of a tile and of a packed panel.
const COLUMNS: usize = 16;
/// Columns of the panel of a matrix with no more than these (policy and value heads).
const NARROW: usize = 8;
/// Rows of a tile of [`add_outer`].
const OUTER_ROWS: usize = 4;

fn panel_width(n: usize) -> usize {
    if n <= NARROW { NARROW } else { COLUMNS }
}

/// Elements that the panels of a `k × n` matrix take.
pub fn packed_len(k: usize, n: usize) -> usize {
    n.next_multiple_of(panel_width(n)) * k
}

/// Packs a `k × n` row-major matrix for [`super::matmul`]; missing columns become 0.
pub fn pack(b: &[f32], k: usize, n: usize, panels: &mut [f32]) {
    let width = panel_width(n);
    for (p, panel) in panels.chunks_exact_mut(k * width).enumerate() {
        let columns = width.min(n - p * width);
        for (line, row) in panel.chunks_exact_mut(width).zip(b.chunks_exact(n)) {
            line[..columns].copy_from_slice(&row[p * width..][..columns]);
            line[columns..].fill(0.0);
        }
    }
}

/// Packs the transpose of an `n × k` row-major matrix (a layer's weight), as [`pack`] would.
pub fn pack_transposed(w: &[f32], k: usize, n: usize, panels: &mut [f32]) {
    let width = panel_width(n);
    for (p, panel) in panels.chunks_exact_mut(k * width).enumerate() {
        let columns = width.min(n - p * width);
        for (i, line) in panel.chunks_exact_mut(width).enumerate() {
            for (c, x) in line[..columns].iter_mut().enumerate() {
                *x = w[(p * width + c) * k + i];
            }
            line[columns..].fill(0.0);
        }
    }
}

/// `ROWS × WIDTH` elements of `a · panel`. The order of the additions is that of `k` alone.
#[inline(always)]
fn tile<I: Isa, const ROWS: usize, const WIDTH: usize>(
    a: &[f32],
    k: usize,
    panel: &[f32],
) -> [[f32; WIDTH]; ROWS] {
    let rows: [&[f32]; ROWS] = std::array::from_fn(|r| &a[r * k..(r + 1) * k]);
    let mut sums = [[0.0f32; WIDTH]; ROWS];
    for (i, line) in panel.as_chunks::<WIDTH>().0[..k].iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(rows) {
            let x = row[i];
            for (sum, b) in sums.iter_mut().zip(line) {
                *sum = madd::<I>(x, *b, *sum);
            }
        }
    }
    sums
}

/// One row times `PANELS` panels side by side, in the same order of additions: with one panel at a time each
/// addition would wait for the one before.
#[inline(always)]
fn line<I: Isa, const PANELS: usize, const WIDTH: usize>(
    row: &[f32],
    k: usize,
    packed: &[f32],
) -> [[f32; WIDTH]; PANELS] {
    let panels: [&[[f32; WIDTH]]; PANELS] =
        std::array::from_fn(|p| &packed[p * k * WIDTH..].as_chunks().0[..k]);
    let mut sums = [[0.0f32; WIDTH]; PANELS];
    for (i, x) in row[..k].iter().enumerate() {
        for (sums, panel) in sums.iter_mut().zip(panels) {
            for (sum, b) in sums.iter_mut().zip(&panel[i]) {
                *sum = madd::<I>(*x, *b, *sum);
            }
        }
    }
    sums
}

/// The rows that fill no tile, one by one.
#[inline(always)]
fn rest<I: Isa, const WIDTH: usize>(
    a: &[f32],
    k: usize,
    packed: &[f32],
    n: usize,
    out: &mut [f32],
) {
    for (a, row) in a.chunks_exact(k).zip(out.chunks_exact_mut(n)) {
        let (four, one) = row.split_at_mut(n - n % (4 * WIDTH));
        let (of_four, of_one) = packed.split_at(k * four.len());
        for (out, packed) in four
            .chunks_exact_mut(4 * WIDTH)
            .zip(of_four.chunks_exact(4 * k * WIDTH))
        {
            out.copy_from_slice(line::<I, 4, WIDTH>(a, k, packed).as_flattened());
        }
        for (out, packed) in one.chunks_mut(WIDTH).zip(of_one.chunks_exact(k * WIDTH)) {
            out.copy_from_slice(&line::<I, 1, WIDTH>(a, k, packed)[0][..out.len()]);
        }
    }
}

#[inline(always)]
fn panels<I: Isa, const ROWS: usize, const WIDTH: usize>(
    a: &[f32],
    k: usize,
    packed: &[f32],
    n: usize,
    out: &mut [f32],
) {
    for (p, panel) in packed.chunks_exact(k * WIDTH).enumerate() {
        let start = p * WIDTH;
        let columns = WIDTH.min(n - start);
        let store = |sums: &[f32; WIDTH], row: &mut [f32]| {
            if let Ok(whole) = <&mut [f32; WIDTH]>::try_from(&mut row[start..start + columns]) {
                *whole = *sums;
            } else {
                row[start..start + columns].copy_from_slice(&sums[..columns]);
            }
        };
        let (a_tiles, out_tiles) = (a.chunks_exact(ROWS * k), out.chunks_exact_mut(ROWS * n));
        for (a, out) in a_tiles.zip(out_tiles) {
            let sums = tile::<I, ROWS, WIDTH>(a, k, panel);
            for (sums, row) in sums.iter().zip(out.chunks_exact_mut(n)) {
                store(sums, row);
            }
        }
    }
    let (a_tiles, out_tiles) = (a.chunks_exact(ROWS * k), out.chunks_exact_mut(ROWS * n));
    rest::<I, WIDTH>(
        a_tiles.remainder(),
        k,
        packed,
        n,
        out_tiles.into_remainder(),
    );
}

#[inline(always)]
pub(super) fn matmul<I: Isa>(a: &[f32], k: usize, packed: &[f32], n: usize, out: &mut [f32]) {
    match (panel_width(n), I::TILE_ROWS) {
        (NARROW, 12) => panels::<I, 12, NARROW>(a, k, packed, n, out),
        (NARROW, 6) => panels::<I, 6, NARROW>(a, k, packed, n, out),
        (NARROW, _) => panels::<I, 2, NARROW>(a, k, packed, n, out),
        (_, 12) => panels::<I, 12, COLUMNS>(a, k, packed, n, out),
        (_, 6) => panels::<I, 6, COLUMNS>(a, k, packed, n, out),
        _ => panels::<I, 2, COLUMNS>(a, k, packed, n, out),
    }
}

/// Outputs of [`few`] that are summed side by side.
const SIDE_BY_SIDE: usize = 8;

/// One row times `N` rows of a weight, in the order of additions of [`tile`].
#[inline(always)]
fn dots<I: Isa, const N: usize>(row: &[f32], w: &[f32]) -> [f32; N] {
    let k = row.len();
    let of_outputs: [&[f32]; N] = std::array::from_fn(|o| &w[o * k..(o + 1) * k]);
    let mut sums = [0.0f32; N];
    for (i, x) in row.iter().enumerate() {
        for (sum, w) in sums.iter_mut().zip(of_outputs) {
            *sum = madd::<I>(*x, w[i], *sum);
        }
    }
    sums
}

#[inline(always)]
pub(super) fn few<I: Isa>(a: &[f32], k: usize, w: &[f32], n: usize, out: &mut [f32]) {
    for (row, out) in a.chunks_exact(k).zip(out.chunks_exact_mut(n)) {
        let (mut blocks, whole) = (out.chunks_exact_mut(SIDE_BY_SIDE), n - n % SIDE_BY_SIDE);
        for (out, w) in (&mut blocks).zip(w.chunks_exact(SIDE_BY_SIDE * k)) {
            out.copy_from_slice(&dots::<I, SIDE_BY_SIDE>(row, w));
        }
        let left = blocks.into_remainder().iter_mut();
        for (out, w) in left.zip(w[whole * k..].chunks_exact(k)) {
            [*out] = dots::<I, 1>(row, w);
        }
    }
}

#[inline(always)]
fn add_line<I: Isa, const ROWS: usize>(
    sums: &mut [[f32; COLUMNS]; ROWS],
    d: &[f32],
    line: &[f32; COLUMNS],
) {
    for (sums, x) in sums.iter_mut().zip(d) {
        for (sum, y) in sums.iter_mut().zip(line) {
            *sum = madd::<I>(*x, *y, *sum);
        }
    }
}

/// `ROWS` rows of the result, from row `first` on.
#[inline(always)]
fn outer_rows<I: Isa, const ROWS: usize>(
    d: &[f32],
    m: usize,
    first: usize,
    h: &[f32],
    n: usize,
    out: &mut [f32],
) {
    for start in (0..n).step_by(COLUMNS) {
        let columns = COLUMNS.min(n - start);
        let mut sums = [[0.0f32; COLUMNS]; ROWS];
        let rows = d.chunks_exact(m).zip(h.chunks_exact(n));
        if columns == COLUMNS {
            for (d, h) in rows {
                if let Some(line) = h[start..].first_chunk() {
                    add_line::<I, ROWS>(&mut sums, &d[first..first + ROWS], line);
                }
            }
        } else {
            for (d, h) in rows {
                let mut padded = [0.0; COLUMNS];
                padded[..columns].copy_from_slice(&h[start..]);
                add_line::<I, ROWS>(&mut sums, &d[first..first + ROWS], &padded);
            }
        }
        for (sums, row) in sums.iter().zip(out[first * n..].chunks_exact_mut(n)) {
            for (o, sum) in row[start..start + columns].iter_mut().zip(sums) {
                *o += *sum;
            }
        }
    }
}

#[inline(always)]
pub(super) fn add_outer<I: Isa>(d: &[f32], m: usize, h: &[f32], n: usize, out: &mut [f32]) {
    let whole = m - m % OUTER_ROWS;
    for first in (0..whole).step_by(OUTER_ROWS) {
        outer_rows::<I, OUTER_ROWS>(d, m, first, h, n, out);
    }
    match m - whole {
        3 => outer_rows::<I, 3>(d, m, whole, h, n, out),
        2 => outer_rows::<I, 2>(d, m, whole, h, n, out),
        1 => outer_rows::<I, 1>(d, m, whole, h, n, out),
        _ => {}
    }
}
