//! Recurrent cells on host memory, in our own kernels: a block of lanes through all its steps.
//!
//! The rows of a block lie as `[step][lane]`, so that what one step works on is dense. The products
//! with the inputs are made for all steps at once, those with the state step by step. A lane's results
//! do not depend on the other lanes of its block, nor on how many steps are taken in one call.

use super::{Cell, CellKind};
use crate::kernels;

/// Rows of a gradient product at a time, so that they stay in the first cache.
const ROWS: usize = 48;

/// The packed weights of one pass, and for a forward pass the biases.
pub(in crate::net) struct Panels<'a> {
    inputs: &'a [f32],
    state: &'a [f32],
    bias: &'a [f32],
    state_bias: &'a [f32],
}

impl<'a> Panels<'a> {
    /// Elements that the panels of either pass take.
    pub(in crate::net) fn len(cell: &Cell) -> usize {
        let (gates, inputs, hidden) = (cell.gates(), cell.inputs, cell.hidden);
        let forward = kernels::packed_len(inputs, gates) + kernels::packed_len(hidden, gates);
        let backward = kernels::packed_len(gates, inputs) + kernels::packed_len(gates, hidden);
        (forward + 2 * gates).max(backward)
    }

    /// Packs the weights of arena `w` for [`Cell::forward`].
    pub(in crate::net) fn forward(cell: &Cell, w: &[f32], room: &'a mut [f32]) -> Self {
        let (gates, inputs, hidden) = (cell.gates(), cell.inputs, cell.hidden);
        let (first, rest) = room.split_at_mut(kernels::packed_len(inputs, gates));
        let (second, rest) = rest.split_at_mut(kernels::packed_len(hidden, gates));
        kernels::pack_transposed(cell.weight_ih(w), inputs, gates, first);
        kernels::pack_transposed(cell.weight_hh(w), hidden, gates, second);
        let (bias, state_bias) = rest[..2 * gates].split_at_mut(gates);
        let [of_inputs, of_state] = cell.biases(w);
        bias.copy_from_slice(of_inputs);
        state_bias.copy_from_slice(of_state);
        if cell.kind == CellKind::Lstm {
            kernels::add_assign(bias, state_bias);
        }
        Self {
            inputs: first,
            state: second,
            bias,
            state_bias,
        }
    }

    /// Packs the weights of arena `w` for [`Cell::backward`].
    pub(in crate::net) fn backward(cell: &Cell, w: &[f32], room: &'a mut [f32]) -> Self {
        let (gates, inputs, hidden) = (cell.gates(), cell.inputs, cell.hidden);
        let (first, rest) = room.split_at_mut(kernels::packed_len(gates, inputs));
        let second = &mut rest[..kernels::packed_len(gates, hidden)];
        kernels::pack(cell.weight_ih(w), gates, inputs, first);
        kernels::pack(cell.weight_hh(w), gates, hidden, second);
        Self {
            inputs: first,
            state: second,
            bias: &[],
            state_bias: &[],
        }
    }
}

/// What a forward pass of some rows leaves for the backward pass.
pub(in crate::net) struct Trace<'a> {
    /// The gates, `[row][gates]`; the gradient at their sums after the backward pass.
    gates: &'a mut [f32],
    /// The output of the step before, `[row][hidden]`, after the reset.
    before: &'a mut [f32],
    /// The cell of the step before, after the reset; of a GRU the candidate's part of the state.
    cell: &'a mut [f32],
}

impl<'a> Trace<'a> {
    /// Elements that one row takes.
    pub(in crate::net) fn per_row(cell: &Cell) -> usize {
        cell.gates() + 2 * cell.hidden
    }

    /// The trace of `rows` rows in memory of `rows · per_row` elements.
    pub(in crate::net) fn over(cell: &Cell, rows: usize, room: &'a mut [f32]) -> Self {
        let (gates, rest) = room.split_at_mut(rows * cell.gates());
        let (before, rest) = rest.split_at_mut(rows * cell.hidden);
        Self {
            gates,
            before,
            cell: &mut rest[..rows * cell.hidden],
        }
    }
}

/// The states of some lanes: some columns of rows that may hold more.
pub(in crate::net) struct States<'a> {
    rows: &'a mut [f32],
    stride: usize,
    at: usize,
}

impl<'a> States<'a> {
    /// Columns from `at` on of rows of `stride`, one for each lane.
    pub(in crate::net) fn new(rows: &'a mut [f32], stride: usize, at: usize) -> Self {
        Self { rows, stride, at }
    }

    /// Those of `lanes` lanes from lane `first` on.
    pub(in crate::net) fn of(&mut self, first: usize, lanes: usize) -> States<'_> {
        States {
            rows: &mut self.rows[first * self.stride..(first + lanes) * self.stride],
            stride: self.stride,
            at: self.at,
        }
    }
}

/// Copies `width` elements per lane from column `at` of rows of `stride`, zeros for lanes that start.
fn carry(from: &[f32], stride: usize, at: usize, starts: &[u8], to: &mut [f32], width: usize) {
    let lanes = from.chunks_exact(stride).zip(to.chunks_exact_mut(width));
    for ((from, to), start) in lanes.zip(starts) {
        if *start == 0 {
            to.copy_from_slice(&from[at..at + width]);
        } else {
            to.fill(0.0);
        }
    }
}

/// Zeroes the rows of lanes that start.
fn cut(rows: &mut [f32], starts: &[u8], width: usize) {
    for (row, start) in rows.chunks_exact_mut(width).zip(starts) {
        if *start != 0 {
            row.fill(0.0);
        }
    }
}

impl Cell {
    /// Elements of scratch memory that either pass needs for a block of `lanes`.
    pub(in crate::net) fn scratch(&self, lanes: usize) -> usize {
        lanes * (self.gates() + 3 * self.hidden) + self.gates()
    }

    /// Takes a block of lanes through its steps: `x` `[step][lane][inputs]`; `starts` `[step][lane]`, 1
    /// where the state is reset before the row; `states` before the first step, which become
    /// those after the last; outputs into `out` `[step][lane][hidden]`.
    #[expect(
        clippy::too_many_arguments,
        reason = "the pass's inputs, scratch and results"
    )]
    pub(in crate::net) fn forward(
        &self,
        panels: &Panels<'_>,
        x: &[f32],
        starts: &[u8],
        states: States<'_>,
        trace: &mut Trace<'_>,
        scratch: &mut [f32],
        out: &mut [f32],
    ) {
        let (width, gates) = (self.hidden, self.gates());
        let States {
            rows: states,
            stride,
            at,
        } = states;
        let lanes = states.len() / stride;
        let (product, after) = scratch.split_at_mut(lanes * gates);
        let after = &mut after[..lanes * width];
        for (x, gates_of) in x
            .chunks(ROWS * self.inputs)
            .zip(trace.gates.chunks_mut(ROWS * gates))
        {
            kernels::matmul(x, self.inputs, panels.inputs, gates, gates_of);
        }
        let is_lstm = self.kind == CellKind::Lstm;
        for (t, starts) in starts.chunks_exact(lanes).enumerate() {
            let rows = t * lanes * width..(t + 1) * lanes * width;
            let before = &mut trace.before[rows.clone()];
            let cell = &mut trace.cell[rows.clone()];
            if t == 0 {
                carry(states, stride, at, starts, before, width);
                if is_lstm {
                    carry(states, stride, at + width, starts, cell, width);
                }
            } else {
                let last = &out[rows.start - lanes * width..rows.start];
                carry(last, width, 0, starts, before, width);
                if is_lstm {
                    carry(after, width, 0, starts, cell, width);
                }
            }
            kernels::matmul(before, width, panels.state, gates, product);
            let gates = &mut trace.gates[t * lanes * gates..(t + 1) * lanes * gates];
            let out = &mut out[rows];
            if is_lstm {
                kernels::lstm(gates, product, panels.bias, cell, after, out);
            } else {
                let (bias, state_bias) = (panels.bias, panels.state_bias);
                kernels::gru(gates, product, bias, state_bias, before, cell, out);
            }
        }
        let last = &out[out.len() - lanes * width..];
        for (lane, state) in states.chunks_exact_mut(stride).enumerate() {
            let state = &mut state[at..];
            state[..width].copy_from_slice(&last[lane * width..][..width]);
            if is_lstm {
                state[width..2 * width].copy_from_slice(&after[lane * width..][..width]);
            }
        }
    }

    /// The way back through the steps of [`Cell::forward`], which left `trace`. `d_out`
    /// `[step][lane][hidden]` is the gradient at the outputs and is used up; gradients of the weights
    /// are added into the arena `g`, that at the inputs is written into `d_x` `[step][lane][inputs]`.
    /// No gradient reaches the states before the first step.
    #[expect(
        clippy::too_many_arguments,
        reason = "the pass's inputs, scratch and results"
    )]
    pub(in crate::net) fn backward(
        &self,
        panels: &Panels<'_>,
        x: &[f32],
        starts: &[u8],
        lanes: usize,
        trace: &mut Trace<'_>,
        d_out: &mut [f32],
        scratch: &mut [f32],
        g: &mut [f32],
        d_x: &mut [f32],
    ) {
        let (width, gates, inputs) = (self.hidden, self.gates(), self.inputs);
        let (d_state, rest) = scratch.split_at_mut(lanes * gates);
        let (d_h, rest) = rest.split_at_mut(lanes * width);
        let (d_c, rest) = rest.split_at_mut(lanes * width);
        let sums = &mut rest[..gates];
        d_h.fill(0.0);
        d_c.fill(0.0);
        let slot = self.offsets[1]..self.offsets[1] + gates * width;
        let steps = starts.len() / lanes;
        for t in (0..steps).rev() {
            let rows = t * lanes * width..(t + 1) * lanes * width;
            let of_step = &mut trace.gates[t * lanes * gates..(t + 1) * lanes * gates];
            let (before, cell) = (&trace.before[rows.clone()], &trace.cell[rows.clone()]);
            let d = &mut d_out[rows];
            kernels::add_assign(d, d_h);
            let at_state: &[f32] = match self.kind {
                CellKind::Lstm => {
                    kernels::lstm_backward(of_step, cell, d, d_c, width);
                    of_step
                }
                CellKind::Gru => {
                    kernels::gru_backward(of_step, cell, before, d, d_state, width);
                    sums.fill(0.0);
                    kernels::column_sums(d_state, sums);
                    kernels::add_assign(&mut g[self.offsets[3]..][..gates], sums);
                    d_state
                }
            };
            kernels::add_outer(at_state, gates, before, width, &mut g[slot.clone()]);
            if t == 0 {
                break;
            }
            kernels::matmul(at_state, gates, panels.state, width, d_h);
            if self.kind == CellKind::Gru {
                kernels::add_assign(d_h, d);
            }
            let starts = &starts[t * lanes..][..lanes];
            cut(d_h, starts, width);
            cut(d_c, starts, width);
        }
        sums.fill(0.0);
        let blocks = trace.gates.chunks(ROWS * gates);
        let rows = x.chunks(ROWS * inputs).zip(d_x.chunks_mut(ROWS * inputs));
        for (d, (x, d_x)) in blocks.zip(rows) {
            kernels::column_sums(d, sums);
            let slot = &mut g[self.offsets[0]..][..gates * inputs];
            kernels::add_outer(d, gates, x, inputs, slot);
            kernels::matmul(d, gates, panels.inputs, inputs, d_x);
        }
        kernels::add_assign(&mut g[self.offsets[2]..][..gates], sums);
        if self.kind == CellKind::Lstm {
            kernels::add_assign(&mut g[self.offsets[3]..][..gates], sums);
        }
    }
}
