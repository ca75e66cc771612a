//! The two implementations against each other, and values that can be worked out by hand.

use super::fast::{Panels, States, Trace};
use super::*;
use crate::params::{ParamLayout, Params};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// Some sequences for a cell.
struct Case {
    cell: Cell,
    params: Params,
    length: usize,
    /// `[n · length, inputs]`, sequence after sequence.
    x: Vec<f32>,
    /// `[n · length]`.
    starts: Vec<u8>,
    /// `[n, state]`.
    states: Vec<f32>,
}

/// What a pass over a case gave.
struct Pass {
    /// `[n · length, hidden]`.
    out: Vec<f32>,
    /// Gradients of Σ out², at all weights and at the inputs.
    weights: Vec<f32>,
    inputs: Vec<f32>,
    /// States after the last step; of the fast pass only.
    states: Vec<f32>,
}

fn wave(n: usize, frequency: f32, scale: f32) -> Vec<f32> {
    (0..n)
        .map(|i| (i as f32 * frequency).sin() * scale)
        .collect()
}

impl Case {
    fn new(kind: CellKind, inputs: usize, hidden: usize, n: usize, length: usize) -> Self {
        let (mut layout, mut inits) = (ParamLayout::default(), vec![]);
        let mut params = ParamBuilder::new(&mut layout, &mut inits, "core");
        let cell = Cell::new(&mut params, RecurrentSpec { kind, hidden }, inputs);
        let weights = wave(layout.total(), 37.7, 0.7);
        let params = Params::from_slice(Arc::new(layout), &weights, Device::Cpu).unwrap();
        Self {
            x: wave(n * length * inputs, 0.73, 1.5),
            starts: (0..n * length).map(|i| u8::from(i * i % 7 == 2)).collect(),
            states: wave(n * cell.state(), 1.31, 0.9),
            cell,
            params,
            length,
        }
    }

    fn lanes(&self) -> usize {
        self.states.len() / self.cell.state()
    }

    fn plain(&self) -> Pass {
        let tensor = |x: &[f32], shape: [i64; 2]| Tensor::from_slice(x).view(shape);
        let (cell, n) = (&self.cell, self.starts.len() as i64);
        let leaves: Vec<Tensor> = (0..4)
            .map(|i| self.params.view(i).detach().set_requires_grad(true))
            .collect();
        let x = tensor(&self.x, [n, cell.inputs as i64]).set_requires_grad(true);
        let states = tensor(&self.states, [self.lanes() as i64, cell.state() as i64]);
        let (out, _) = cell
            .unroll(
                &leaves,
                &x,
                self.length as i64,
                &Tensor::from_slice(&self.starts),
                &states,
            )
            .unwrap();
        let mut wanted: Vec<&Tensor> = leaves.iter().collect();
        wanted.push(&x);
        let loss = out.square().sum(Kind::Float);
        let grads = Tensor::f_run_backward(&[&loss], &wanted, false, false).unwrap();
        let flat = |t: &Tensor| Vec::<f32>::try_from(t.contiguous().view(-1)).unwrap();
        Pass {
            out: flat(&out.detach()),
            weights: grads[..4].iter().flat_map(&flat).collect(),
            inputs: flat(&grads[4]),
            states: vec![],
        }
    }

    /// The fast pass in blocks of at most `block` lanes.
    fn fast(&self, block: usize) -> Pass {
        let (cell, length) = (&self.cell, self.length);
        let (inputs, hidden) = (cell.inputs, cell.hidden);
        let w = self.params.to_vec().unwrap();
        let mut room = [vec![0.0; Panels::len(cell)], vec![0.0; Panels::len(cell)]];
        let [first, second] = &mut room;
        let ahead = Panels::forward(cell, &w, first);
        let back = Panels::backward(cell, &w, second);
        let mut pass = Pass {
            out: vec![0.0; self.starts.len() * hidden],
            weights: vec![0.0; w.len()],
            inputs: vec![0.0; self.x.len()],
            states: self.states.clone(),
        };
        for first in (0..self.lanes()).step_by(block) {
            let lanes = block.min(self.lanes() - first);
            let rows = lanes * length;
            // Row of the block to row of the case.
            let at = |row: usize| (first + row % lanes) * length + row / lanes;
            let x: Vec<f32> = (0..rows)
                .flat_map(|row| self.x[at(row) * inputs..][..inputs].to_vec())
                .collect();
            let starts: Vec<u8> = (0..rows).map(|row| self.starts[at(row)]).collect();
            let mut out = vec![9.0; rows * hidden];
            let mut room = vec![9.0; rows * Trace::per_row(cell)];
            let mut trace = Trace::over(cell, rows, &mut room);
            let mut scratch = vec![9.0; cell.scratch(lanes)];
            let mut states = States::new(&mut pass.states, cell.state(), 0);
            let states = states.of(first, lanes);
            cell.forward(
                &ahead,
                &x,
                &starts,
                states,
                &mut trace,
                &mut scratch,
                &mut out,
            );
            let mut d_out: Vec<f32> = out.iter().map(|y| 2.0 * y).collect();
            let mut d_x = vec![9.0; rows * inputs];
            cell.backward(
                &back,
                &x,
                &starts,
                lanes,
                &mut trace,
                &mut d_out,
                &mut scratch,
                &mut pass.weights,
                &mut d_x,
            );
            for row in 0..rows {
                pass.out[at(row) * hidden..][..hidden]
                    .copy_from_slice(&out[row * hidden..][..hidden]);
                pass.inputs[at(row) * inputs..][..inputs]
                    .copy_from_slice(&d_x[row * inputs..][..inputs]);
            }
        }
        pass
    }
}

#[track_caller]
fn assert_close(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let scale = b.iter().fold(1.0f32, |most, x| most.max(x.abs()));
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= 1e-5 * scale, "{what} {i}: {a} {b}");
    }
}

#[test]
fn both_ways_agree_in_values_and_gradients() {
    for kind in [CellKind::Lstm, CellKind::Gru] {
        for (inputs, hidden, n, length) in [
            (1, 1, 1, 1),
            (4, 16, 3, 5),
            (5, 7, 50, 3),
            (33, 20, 7, 9),
            (64, 64, 5, 6),
        ] {
            let case = Case::new(kind, inputs, hidden, n, length);
            let (fast, plain) = (case.fast(4), case.plain());
            let name = format!("{kind:?} {inputs}→{hidden}, {n}×{length}:");
            assert_close(&fast.out, &plain.out, &format!("{name} output"));
            assert_close(&fast.weights, &plain.weights, &format!("{name} weights"));
            assert_close(&fast.inputs, &plain.inputs, &format!("{name} inputs"));
        }
    }
}

#[test]
fn a_lane_has_the_same_bits_alone_and_in_company_step_by_step_and_at_once() {
    for kind in [CellKind::Lstm, CellKind::Gru] {
        let case = Case::new(kind, 6, 20, 9, 8);
        let (alone, company) = (case.fast(1), case.fast(9));
        assert_eq!(alone.out, company.out, "{kind:?}");
        assert_eq!(alone.states, company.states, "{kind:?}");
        // Half the steps, and then the other half from the states that the first left.
        let half = |from: &Case, second: bool, states: &[f32]| {
            let pick = |row: &usize| (row % 8 >= 4) == second;
            let rows = || (0..72).filter(pick);
            Case {
                cell: from.cell.clone(),
                params: from.params.duplicate(),
                length: 4,
                x: rows().flat_map(|r| from.x[r * 6..][..6].to_vec()).collect(),
                starts: rows().map(|r| from.starts[r]).collect(),
                states: states.to_vec(),
            }
        };
        let first = half(&case, false, &case.states).fast(4);
        let second = half(&case, true, &first.states).fast(4);
        assert_eq!(second.states, company.states, "{kind:?}");
        assert_eq!(second.out[..80], company.out[80..160], "{kind:?}");
    }
}

/// An LSTM of one unit whose cell is c' = c / 2 + x for x of 0 and 1: the forget gate is ½, the input
/// gate and, for x = 1, the candidate are 1. Its output is tanh(c).
fn scalar(x: &[f32], length: usize, starts: &[u8], before: &[f32]) -> Case {
    let mut case = Case::new(CellKind::Lstm, 1, 1, before.len(), length);
    let weights = [
        0., 0., 30., 0., 0., 0., 0., 0., 30., 0., 0., 30., 0., 0., 0., 0.,
    ];
    case.params =
        Params::from_slice(Arc::clone(case.params.layout()), &weights, Device::Cpu).unwrap();
    case.x = x.to_vec();
    case.starts = starts.to_vec();
    case.states = before.iter().flat_map(|c| [c.tanh(), *c]).collect();
    case
}

#[track_caller]
fn assert_cells(case: &Case, expected: &[f32]) {
    let expected: Vec<f32> = expected.iter().map(|c| c.tanh()).collect();
    for pass in [case.fast(4), case.plain()] {
        assert_close(&pass.out, &expected, "cells");
    }
}

#[test]
fn br_30_a_reset_comes_before_the_first_row_of_an_episode() {
    let case = scalar(&[1.; 4], 4, &[1, 0, 1, 0], &[7.0]);
    assert_cells(&case, &[1.0, 1.5, 1.0, 1.5]);
    assert_close(&case.fast(1).states[1..], &[1.5], "cell");
    // One lane's reset leaves its neighbour's bits alone.
    let both = scalar(&[1.; 8], 4, &[1, 0, 1, 0, 0, 0, 0, 0], &[7.0, 0.25]);
    let (both, other) = (both.fast(2), scalar(&[1.; 4], 4, &[0; 4], &[0.25]).fast(1));
    assert_eq!(both.out[4..], other.out);
    assert_eq!(both.states[2..], other.states);
}

#[test]
fn br_31_a_later_chunk_starts_from_its_own_state_and_sends_no_gradient_back() {
    let whole = scalar(&[1.; 4], 4, &[0; 4], &[0.0]);
    assert_cells(&whole, &[1.0, 1.5, 1.75, 1.875]);
    let first = scalar(&[1.; 2], 2, &[0; 2], &[0.0]).fast(1);
    let mut second = scalar(&[1.; 2], 2, &[0; 2], &[0.0]);
    second.states = first.states;
    assert_cells(&second, &[1.75, 1.875]);
    let next = scalar(&[1.; 3], 3, &[0, 1, 0], &[1.75]);
    assert_cells(&next, &[1.875, 1.0, 1.5]);
    // The gradient of a chunk is that of the chunk alone, with its first state as a constant.
    assert_close(&second.fast(1).weights, &second.plain().weights, "weights");
}
