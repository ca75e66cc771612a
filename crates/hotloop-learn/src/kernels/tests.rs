//! Every instruction set this machine has, against f64 arithmetic.

use super::*;

/// Calls `f` once per table that this machine can run.
fn each_table(f: impl Fn(&Table)) {
    let mut seen = 0;
    for table in available() {
        f(table);
        seen += 1;
    }
    assert!(seen >= 1);
}

fn values(n: usize, scale: f32) -> Vec<f32> {
    let mut state = 0x9e37_79b9_u32;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) as f32 / 8_388_608.0 - 1.0) * scale
        })
        .collect()
}

#[test]
fn tanh_is_within_5e_7_over_the_whole_f32_range() {
    // Every 997th bit pattern visits all exponents of both signs, subnormals included.
    let mut xs: Vec<f32> = (0..=u32::MAX)
        .step_by(997)
        .map(f32::from_bits)
        .filter(|x| !x.is_nan())
        .collect();
    xs.extend((0..200_000).map(|i| (i as f32 - 100_000.0) * 1e-4));
    each_table(|t| {
        let mut ys = xs.clone();
        // SAFETY: `available` lists only tables this machine can run.
        unsafe { (t.tanh)(&mut ys) };
        for (x, y) in xs.iter().zip(&ys) {
            let error = (f64::from(*y) - f64::from(*x).tanh()).abs();
            assert!(error <= 5e-7, "{}: tanh({x}) = {y}, off by {error}", t.isa);
            assert!(y.abs() <= 1.0, "{}: tanh({x}) = {y} leaves [-1, 1]", t.isa);
        }
    });
}

#[test]
fn tanh_hands_nan_through_and_saturates_at_infinity() {
    each_table(|t| {
        let mut x = vec![
            0.0,
            -0.0,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            1e30,
            -1e30,
        ];
        x.resize(23, f32::NAN);
        // SAFETY: `available` lists only tables this machine can run.
        unsafe { (t.tanh)(&mut x) };
        assert_eq!(x[..2], [0.0, 0.0]);
        assert_eq!(x[3..7], [1.0, -1.0, 1.0, -1.0], "{}", t.isa);
        assert!(
            x[2].is_nan() && x[7..].iter().all(|v| v.is_nan()),
            "{}",
            t.isa
        );
    });
}

#[test]
fn bias_and_activation_agree_with_f64() {
    for width in [1, 3, 16, 64, 65] {
        let (x, bias) = (values(7 * width, 3.0), values(width, 1.0));
        each_table(|t| {
            let (mut a, mut b, mut c) = (x.clone(), x.clone(), x.clone());
            // SAFETY: `available` lists only tables this machine can run.
            unsafe {
                (t.bias_tanh)(&mut a, &bias);
                (t.bias_relu)(&mut b, &bias);
                (t.bias_add)(&mut c, &bias);
            }
            for i in 0..x.len() {
                let z = x[i] + bias[i % width];
                assert!((f64::from(a[i]) - f64::from(z).tanh()).abs() < 5e-7);
                assert_eq!((b[i], c[i]), (z.max(0.0), z));
            }
        });
    }
    let mut x = [f32::NAN, 1.0];
    bias_relu(&mut x, &[0.0, 0.0]);
    assert!(x[0].is_nan(), "relu must not hide a NaN");
}

#[test]
fn backward_passes_and_column_sums_agree_with_f64() {
    for width in [1, 2, 31, 32, 64, 65] {
        let rows = 50;
        let (d, y) = (values(rows * width, 2.0), values(rows * width + 1, 1.0));
        let y = &y[1..];
        each_table(|t| {
            let (mut dt, mut dr) = (d.clone(), d.clone());
            let (mut st, mut sr, mut s) = (vec![0.5; width], vec![0.5; width], vec![0.5; width]);
            // SAFETY: `available` lists only tables this machine can run.
            unsafe {
                (t.tanh_backward)(&mut dt, y, &mut st);
                (t.relu_backward)(&mut dr, y, &mut sr);
                (t.column_sums)(&d, &mut s);
            }
            for c in 0..width {
                // The sums are added to what is there.
                let (mut et, mut er, mut e) = (0.5f64, 0.5f64, 0.5f64);
                for r in 0..rows {
                    let i = r * width + c;
                    let (di, yi) = (f64::from(d[i]), f64::from(y[i]));
                    assert!((f64::from(dt[i]) - di * (1.0 - yi * yi)).abs() < 1e-6);
                    assert_eq!(dr[i], if yi > 0.0 { d[i] } else { 0.0 });
                    et += di * (1.0 - yi * yi);
                    er += if yi > 0.0 { di } else { 0.0 };
                    e += di;
                }
                for (got, expected) in [(st[c], et), (sr[c], er), (s[c], e)] {
                    assert!(
                        (f64::from(got) - expected).abs() < 1e-4,
                        "{}: {got} {expected}",
                        t.isa
                    );
                }
            }
        });
    }
}

#[test]
fn sums_of_squares_do_not_overflow_and_keep_nan() {
    let x = values(1_003, 1.0);
    let exact: f64 = x.iter().map(|v| f64::from(*v).powi(2)).sum();
    each_table(|t| {
        // SAFETY: `available` lists only tables this machine can run.
        unsafe {
            assert!(((t.sum_squares)(&x) - exact).abs() < 1e-9);
            assert!((t.sum_squares)(&[1e38; 20]).is_finite());
            assert!((t.sum_squares)(&[1.0, f32::NAN]).is_nan());
            let mut y = vec![1.0; 5];
            (t.add_assign)(&mut y, &[1.0, 2.0, 3.0, 4.0, 5.0]);
            assert_eq!(y, [2.0, 3.0, 4.0, 5.0, 6.0]);
        }
    });
    assert!(!instruction_set().is_empty());
}

#[test]
fn products_agree_with_f64_at_every_remainder() {
    for (rows, k, n) in [
        (1, 1, 1),
        (13, 5, 3),
        (48, 64, 64),
        (25, 4, 17),
        (7, 33, 40),
        (6, 3, 16),
        (5, 9, 100),
    ] {
        let (a, b) = (values(rows * k, 1.0), values(k * n, 1.0));
        let transposed: Vec<f32> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
        let (mut panels, mut same) = (vec![9.0; packed_len(k, n)], vec![9.0; packed_len(k, n)]);
        pack(&b, k, n, &mut panels);
        pack_transposed(&transposed, k, n, &mut same);
        assert_eq!(panels, same);
        each_table(|t| {
            let mut out = vec![9.0; rows * n];
            // SAFETY: `available` lists only tables this machine can run.
            unsafe { (t.matmul)(&a, k, &panels, n, &mut out) };
            for (i, got) in out.iter().enumerate() {
                let (r, c) = (i / n, i % n);
                let exact: f64 = (0..k)
                    .map(|j| f64::from(a[r * k + j]) * f64::from(b[j * n + c]))
                    .sum();
                assert!(
                    (f64::from(*got) - exact).abs() < 1e-5,
                    "{} {rows}×{k}×{n}",
                    t.isa
                );
            }
            // A weight that is not packed gives the same bits, too.
            let mut direct = vec![9.0; rows * n];
            // SAFETY: as above.
            unsafe { (t.few)(&a, k, &transposed, n, &mut direct) };
            assert_eq!(direct, out);
            // Each row alone gives the same bits as in company.
            for (row, expected) in a.chunks(k).zip(out.chunks(n)) {
                let mut alone = vec![9.0; n];
                // SAFETY: as above.
                unsafe { (t.matmul)(row, k, &panels, n, &mut alone) };
                assert_eq!(alone, expected);
            }
        });
    }
}

#[test]
fn outer_products_agree_with_f64_at_every_remainder() {
    for (rows, m, n) in [
        (1, 1, 1),
        (13, 5, 3),
        (48, 64, 64),
        (25, 3, 17),
        (7, 33, 40),
        (50, 4, 64),
    ] {
        let (d, h) = (values(rows * m, 1.0), values(rows * n, 1.0));
        each_table(|t| {
            let mut out = vec![0.5; m * n];
            // SAFETY: `available` lists only tables this machine can run.
            unsafe { (t.add_outer)(&d, m, &h, n, &mut out) };
            for (i, got) in out.iter().enumerate() {
                let (a, b) = (i / n, i % n);
                let sum: f64 = (0..rows)
                    .map(|r| f64::from(d[r * m + a]) * f64::from(h[r * n + b]))
                    .sum();
                assert!(
                    (f64::from(*got) - sum - 0.5).abs() < 1e-5,
                    "{} {rows}×{m}×{n}",
                    t.isa
                );
            }
        });
    }
}

#[test]
fn exp_is_within_3e_7_and_flushes_to_zero() {
    let mut xs: Vec<f32> = (-88_000..=88_000).map(|i| i as f32 * 1e-3).collect();
    xs.extend([0.0, -0.0, f32::MIN, f32::NEG_INFINITY, -87.5, -104.0]);
    each_table(|t| {
        let mut ys = xs.clone();
        // SAFETY: `available` lists only tables this machine can run.
        unsafe { (t.exp)(&mut ys) };
        for (x, y) in xs.iter().zip(&ys) {
            let exact = f64::from(*x).exp();
            let error = (f64::from(*y) - exact).abs();
            assert!(
                error <= 3e-7 * exact || (*x < -87.3 && *y == 0.0),
                "{}: exp({x}) = {y}",
                t.isa
            );
        }
        let mut odd = [f32::NAN, 0.0];
        // SAFETY: as above.
        unsafe { (t.exp)(&mut odd) };
        assert!(odd[0].is_nan() && odd[1] == 1.0);
    });
}

#[test]
fn log_softmax_agrees_with_f64_at_every_width() {
    let inf = f32::NEG_INFINITY;
    for (rows, n) in [(1, 1), (3, 2), (8, 2), (33, 2), (17, 6), (9, 40)] {
        let (stride, first) = (n + 3, 2);
        let mut z = values(rows * stride, 8.0);
        if n > 1 {
            z[first + n - 1] = inf;
        }
        each_table(|t| {
            let (mut log_p, mut p) = (z.clone(), vec![9.0; z.len()]);
            // SAFETY: `available` lists only tables this machine can run.
            unsafe { (t.log_softmax)(&mut log_p, &mut p, stride, first, n) };
            for r in 0..rows {
                let row = |v: &[f32], j: usize| f64::from(v[r * stride + first + j]);
                let sum: f64 = (0..n).map(|j| row(&z, j).exp()).sum();
                for j in 0..n {
                    let exact = row(&z, j) - sum.ln();
                    assert!((row(&p, j) - exact.exp()).abs() < 5e-7, "{}", t.isa);
                    let close = (row(&log_p, j) - exact).abs() <= 2e-6;
                    assert!(close || row(&log_p, j) == exact, "{}: {exact}", t.isa);
                }
                assert_eq!(
                    log_p[r * stride],
                    z[r * stride],
                    "other columns are left alone"
                );
                assert_eq!(p[r * stride + stride - 1], 9.0);
            }
        });
    }
    let (mut z, mut p) = ([0.0, f32::NAN, 1.0, 2.0], [0.0; 4]);
    log_softmax(&mut z, &mut p, 2, 0, 2);
    assert!(z[0].is_nan() && z[1].is_nan() && z[2].is_finite() && p[0].is_nan());
}

/// What the gates of a cell make of some rows, forward and backward, with one table.
fn gates(t: &Table, is_lstm: bool, rows: usize, width: usize) -> Vec<Vec<f32>> {
    let sections = if is_lstm { 4 } else { 3 };
    let (n, wide) = (rows * width, rows * width * sections);
    let mut gates = values(wide, 4.0);
    let (hidden, bias) = (values(wide + 1, 2.0), values(width * sections, 0.5));
    let (before, mut kept, mut out) = (values(n, 1.0), vec![9.0; n], vec![9.0; n]);
    let (mut d_out, mut d_cell, mut d_hidden) = (values(n, 1.0), values(n, 0.7), vec![9.0; wide]);
    // SAFETY: `available` lists only tables this machine can run.
    unsafe {
        if is_lstm {
            (t.lstm)(
                &mut gates,
                &hidden[1..],
                &bias,
                &before,
                &mut kept,
                &mut out,
            );
            let forward = gates.clone();
            (t.lstm_backward)(&mut gates, &before, &d_out, &mut d_cell, width);
            vec![forward, kept, out, gates, d_cell]
        } else {
            (t.gru)(
                &mut gates,
                &hidden[1..],
                &bias,
                &bias,
                &before,
                &mut kept,
                &mut out,
            );
            let forward = gates.clone();
            (t.gru_backward)(&mut gates, &kept, &before, &mut d_out, &mut d_hidden, width);
            vec![forward, kept, out, gates, d_out, d_hidden]
        }
    }
}

#[test]
fn gates_agree_on_every_instruction_set_at_every_remainder() {
    for (rows, width) in [(1, 1), (3, 16), (2, 7), (5, 64), (4, 33)] {
        for is_lstm in [true, false] {
            let expected = gates(&portable::TABLE, is_lstm, rows, width);
            each_table(|t| {
                let found = gates(t, is_lstm, rows, width);
                for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    for (a, b) in found.iter().zip(expected) {
                        assert!((a - b).abs() < 1e-5, "{} column {i}: {a} {b}", t.isa);
                    }
                }
            });
        }
    }
    // One unit by hand: all sums 0 make every gate ½ and the candidate 0.
    let (mut z, mut cell, mut out) = ([0.0; 4], [9.0], [9.0]);
    lstm(&mut z, &[0.0; 4], &[0.0; 4], &[1.0], &mut cell, &mut out);
    assert_eq!((z, cell), ([0.5, 0.5, 0.0, 0.5], [0.5]));
    assert!((out[0] - 0.5 * 0.5f32.tanh()).abs() < 1e-6);
    let mut z = [0.0; 3];
    gru(
        &mut z,
        &[0.0; 3],
        &[0.0; 3],
        &[0.0; 3],
        &[1.0],
        &mut cell,
        &mut out,
    );
    assert_eq!((z, cell, out), ([0.5, 0.5, 0.0], [0.0], [0.5]));
}
