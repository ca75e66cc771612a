//! One tower forward and backward: hidden layers, a recurrent cell if it has one, and the heads.
//!
//! Rows are taken a chunk at a time: up to [`BLOCK`] sequences, step by step. Inside a chunk they lie as
//! `[step][sequence]`, and one step of it is what goes through all layers together. Rows that stand for
//! themselves are sequences of one step.

use super::{Dense, Perceptron, Scratch, Tower, first};
use crate::{
    kernels,
    net::{
        Activation,
        recurrent::{Panels, States, Trace},
    },
};
use std::ops::Range;

/// Sequences of a chunk: activations of 64 columns fill half of a 32 KiB cache, and the tiles of every
/// instruction set divide it.
pub(super) const BLOCK: usize = 48;

/// Up to so many rows weights are not packed for a forward pass.
const FEW: usize = 2;

/// Below so many inputs the gradient of a weight is summed transposed, so that its long side runs
/// along the vector registers.
const NARROW: usize = 16;

/// Some sequences, of which a pass takes all rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// The first of them.
    pub(super) first: usize,
    /// How many, and so the rows of one step.
    pub(super) lanes: usize,
    /// Rows of each.
    pub(super) steps: usize,
}

impl Chunk {
    /// All `n` sequences of `steps` rows.
    pub(super) fn all(n: usize, steps: usize) -> impl Iterator<Item = Self> {
        (0..n).step_by(BLOCK).map(move |first| Self {
            first,
            lanes: BLOCK.min(n - first),
            steps,
        })
    }

    /// Its rows, in the order of chunks.
    pub(super) fn rows(self) -> Range<usize> {
        let start = self.first * self.steps;
        start..start + self.lanes * self.steps
    }

    /// Where the chunk's row `i` lies in the batch, sequence after sequence.
    pub(super) fn row(self, i: usize) -> usize {
        (self.first + i % self.lanes) * self.steps + i / self.lanes
    }

    /// The rows of each step, from 0.
    fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.steps).map(move |t| t * self.lanes..(t + 1) * self.lanes)
    }
}

/// A tower with the batch that goes through it.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a> {
    pub(super) net: &'a Perceptron,
    pub(super) tower: &'a Tower,
    pub(super) w: &'a [f32],
    /// Features, in the order of chunks.
    pub(super) x: &'a [f32],
    /// 1 where the cell's state is reset before the row, in the same order; empty without a cell.
    pub(super) starts: &'a [u8],
    /// Rows of one sequence.
    pub(super) steps: usize,
    /// Where the cell's state begins in that of a lane.
    pub(super) state: usize,
    /// Whether a backward pass will follow.
    pub(super) keep: bool,
}

/// What a forward pass leaves of one tower.
#[derive(Default)]
pub(super) struct Kept {
    /// Outputs of the hidden layers, layer after layer.
    hidden: Vec<f32>,
    /// Outputs of the cell, and what its way back needs.
    memory: Vec<f32>,
    trace: Vec<f32>,
}

impl Pass<'_> {
    fn lanes(&self) -> usize {
        self.x.len() / self.net.inputs / self.steps
    }

    /// Rows whose activations are kept: all, or those of one chunk.
    fn kept(&self) -> usize {
        let lanes = self.lanes();
        (if self.keep { lanes } else { lanes.min(BLOCK) }) * self.steps
    }

    /// Where the rows of a chunk begin among those that are kept.
    fn at(&self, chunk: Chunk) -> usize {
        if self.keep { chunk.rows().start } else { 0 }
    }

    /// Features of a chunk.
    fn features(&self, chunk: Chunk) -> &[f32] {
        let rows = chunk.rows();
        &self.x[rows.start * self.net.inputs..rows.end * self.net.inputs]
    }

    /// The outputs into the tower's part of `head` and `value`, rows in the batch's order. `states`
    /// become those after the last step.
    pub(super) fn forward(
        &self,
        states: States<'_>,
        kept: &mut Kept,
        scratch: &mut Scratch,
        head: &mut [f32],
        value: &mut [f32],
    ) {
        let (layers, heads) = self.tower.split();
        let core = self.tower.core.as_ref();
        let Scratch {
            packed, out, cell, ..
        } = scratch;
        let of_core = core.map_or(0, Panels::len);
        let size = |d: &Dense| kernels::packed_len(d.inputs, d.outputs);
        let few = self.lanes() * self.steps <= FEW;
        let packs = || self.tower.dense.iter().filter(|_| !few);
        let of_dense: usize = packs().map(size).sum();
        let (of_core, mut rest) = first(packed, of_core + of_dense).split_at_mut(of_core);
        let core = core.map(|core| (core, Panels::forward(core, self.w, of_core)));
        let mut panels: Vec<&[f32]> = Vec::with_capacity(self.tower.dense.len());
        for d in packs() {
            let (panel, after) = rest.split_at_mut(size(d));
            kernels::pack_transposed(d.weight(self.w), d.inputs, d.outputs, panel);
            panels.push(panel);
            rest = after;
        }
        let Kept {
            hidden,
            memory,
            trace,
        } = kept;
        let rows = self.kept();
        let mut hidden = split_layers(hidden, layers, rows);
        let width = core.as_ref().map_or(0, |(core, _)| core.hidden());
        let per_row = core.as_ref().map_or(0, |(core, _)| Trace::per_row(core));
        let (memory, trace) = (first(memory, rows * width), first(trace, rows * per_row));
        let out = first(out, BLOCK * heads.outputs);
        let (mut states, head_width) = (states, self.net.width);
        for chunk in Chunk::all(self.lanes(), self.steps) {
            let (at, n) = (self.at(chunk), chunk.rows().len());
            for block in chunk.blocks() {
                self.through_layers(layers, &panels, chunk, at, block, &mut hidden);
            }
            if let Some((core, panels)) = &core {
                let x = self.under_core(layers, chunk, &hidden);
                let trace = &mut trace[at * per_row..(at + n) * per_row];
                core.forward(
                    panels,
                    x,
                    &self.starts[chunk.rows()],
                    states.of(chunk.first, chunk.lanes),
                    &mut Trace::over(core, n, trace),
                    first(cell, core.scratch(chunk.lanes)),
                    &mut memory[at * width..(at + n) * width],
                );
            }
            for block in chunk.blocks() {
                let place = (at + block.start) * heads.inputs..(at + block.end) * heads.inputs;
                let input = match (&core, hidden.last()) {
                    (Some(_), _) => &memory[place],
                    (None, Some(last)) => &last[place],
                    (None, None) => {
                        &self.features(chunk)[block.start * heads.inputs..][..place.len()]
                    }
                };
                let out = &mut out[..block.len() * heads.outputs];
                self.product(&heads, panels.get(layers.len()), input, out);
                kernels::bias_add(out, heads.bias(self.w));
                for (i, out) in block.zip(out.chunks_exact(heads.outputs)) {
                    let row = chunk.row(i);
                    if self.tower.policy {
                        head[row * head_width..][..head_width].copy_from_slice(&out[..head_width]);
                    }
                    if self.tower.value {
                        value[row] = out[heads.outputs - 1];
                    }
                }
            }
        }
    }

    /// The rows `input` times a layer's weight, by its panels if it was packed.
    fn product(&self, d: &Dense, panel: Option<&&[f32]>, input: &[f32], out: &mut [f32]) {
        match panel {
            Some(panel) => kernels::matmul(input, d.inputs, panel, d.outputs, out),
            None => kernels::few(input, d.inputs, d.weight(self.w), d.outputs, out),
        }
    }

    /// One step of a chunk through the hidden layers.
    fn through_layers(
        &self,
        layers: &[Dense],
        panels: &[&[f32]],
        chunk: Chunk,
        at: usize,
        block: Range<usize>,
        hidden: &mut [&mut [f32]],
    ) {
        let (start, rows) = (at + block.start, block.len());
        for (i, d) in layers.iter().enumerate() {
            let (below, here) = hidden.split_at_mut(i);
            let input = match below.last() {
                None => &self.features(chunk)[block.start * d.inputs..][..rows * d.inputs],
                Some(below) => &below[start * d.inputs..][..rows * d.inputs],
            };
            let h = &mut here[0][start * d.outputs..][..rows * d.outputs];
            self.product(d, panels.get(i), input, h);
            match self.net.activation {
                Activation::Tanh => kernels::bias_tanh(h, d.bias(self.w)),
                Activation::Relu => kernels::bias_relu(h, d.bias(self.w)),
            }
        }
    }

    /// The cell's inputs of a chunk.
    fn under_core<'b>(
        &'b self,
        layers: &[Dense],
        chunk: Chunk,
        hidden: &'b [&mut [f32]],
    ) -> &'b [f32] {
        match (layers.last(), hidden.last()) {
            (Some(d), Some(last)) => {
                &last[self.at(chunk) * d.outputs..][..chunk.rows().len() * d.outputs]
            }
            _ => self.features(chunk),
        }
    }

    /// Adds the gradients of the tower to the zeros in `g`, from those at the outputs, rows in the batch's
    /// order.
    pub(super) fn backward(
        &self,
        kept: &mut Kept,
        scratch: &mut Scratch,
        d_head: &[f32],
        d_value: &[f32],
        g: &mut [f32],
    ) {
        let (layers, heads) = self.tower.split();
        let core = self.tower.core.as_ref();
        let Scratch {
            packed,
            out,
            d,
            below,
            narrow,
            cell,
            d_cell,
            ..
        } = scratch;
        let size = |d: &Dense| kernels::packed_len(d.outputs, d.inputs);
        // Nothing flows back through the first layer.
        let dense = &self.tower.dense;
        let upper = &dense[usize::from(core.is_none())..];
        let of_core = core.map_or(0, Panels::len);
        let room = first(packed, of_core + upper.iter().map(size).sum::<usize>());
        let (of_core, mut rest) = room.split_at_mut(of_core);
        let core = core.map(|core| (core, Panels::backward(core, self.w, of_core)));
        let mut panels: Vec<&[f32]> = Vec::with_capacity(dense.len());
        for d in upper {
            let (panel, after) = rest.split_at_mut(size(d));
            kernels::pack(d.weight(self.w), d.outputs, d.inputs, panel);
            panels.push(panel);
            rest = after;
        }
        let rows = self.kept();
        let hidden = split_layers(&mut kept.hidden, layers, rows);
        let hidden: Vec<&[f32]> = hidden.into_iter().map(|h| &*h).collect();
        let widest = layers.iter().map(|d| d.outputs).max().unwrap_or(0);
        let mut down = Down {
            pass: self,
            layers,
            hidden: &hidden,
            panels: &panels[panels.len() - layers.len()..],
            d: first(d, BLOCK * widest),
            below: first(below, BLOCK * widest),
            narrow: first(narrow, dense[0].inputs * dense[0].outputs),
            g,
        };
        down.narrow.fill(0.0);
        let out = first(out, BLOCK * heads.outputs);
        let of_heads = panels.last();
        let width = self.net.width;
        for chunk in Chunk::all(self.lanes(), self.steps) {
            let (at, n) = (self.at(chunk), chunk.rows().len());
            let per_chunk = n * core.as_ref().map_or(0, |(core, _)| core.hidden());
            let below = n * core.as_ref().map_or(0, |(core, _)| core.inputs());
            let (d_cell, d_below) = first(d_cell, per_chunk + below).split_at_mut(per_chunk);
            for block in chunk.blocks() {
                let at_heads = &mut out[..block.len() * heads.outputs];
                for (i, out) in block.clone().zip(at_heads.chunks_exact_mut(heads.outputs)) {
                    let row = chunk.row(i);
                    if self.tower.policy {
                        out[..width].copy_from_slice(&d_head[row * width..][..width]);
                    }
                    if self.tower.value {
                        out[heads.outputs - 1] = d_value[row];
                    }
                }
                kernels::column_sums(at_heads, &mut down.g[heads.bias..][..heads.outputs]);
                let place = |start| {
                    (start + block.start) * heads.inputs..(start + block.end) * heads.inputs
                };
                let input = match &core {
                    Some(_) => &kept.memory[place(at)],
                    None => down.input(layers.len(), chunk, &block),
                };
                down.weight(layers.len(), heads, at_heads, input);
                let Some(panel) = of_heads else { continue };
                if core.is_some() {
                    let d = &mut d_cell[place(0)];
                    kernels::matmul(at_heads, heads.outputs, panel, heads.inputs, d);
                } else {
                    let d = &mut down.d[..block.len() * heads.inputs];
                    kernels::matmul(at_heads, heads.outputs, panel, heads.inputs, d);
                    down.layers(chunk, &block);
                }
            }
            if let Some((core, panels)) = &core {
                let x = match (layers.last(), hidden.last()) {
                    (Some(d), Some(last)) => &last[at * d.outputs..(at + n) * d.outputs],
                    _ => self.features(chunk),
                };
                let per_row = Trace::per_row(core);
                let trace = &mut kept.trace[at * per_row..(at + n) * per_row];
                let mut trace = Trace::over(core, n, trace);
                let scratch = first(cell, core.scratch(chunk.lanes));
                let starts = &self.starts[chunk.rows()];
                let lanes = chunk.lanes;
                core.backward(
                    panels, x, starts, lanes, &mut trace, d_cell, scratch, down.g, d_below,
                );
                for block in chunk.blocks().filter(|_| !layers.is_empty()) {
                    let place = block.start * core.inputs()..block.end * core.inputs();
                    down.d[..place.len()].copy_from_slice(&d_below[place]);
                    down.layers(chunk, &block);
                }
            }
        }
        down.finish();
    }
}

/// The way back through the hidden layers.
struct Down<'a> {
    pass: &'a Pass<'a>,
    layers: &'a [Dense],
    hidden: &'a [&'a [f32]],
    /// Of the hidden layers that are not the first, and of the heads.
    panels: &'a [&'a [f32]],
    /// A block's gradient at the outputs of one layer, and of the one below.
    d: &'a mut [f32],
    below: &'a mut [f32],
    /// The first weight's gradient, transposed.
    narrow: &'a mut [f32],
    g: &'a mut [f32],
}

impl<'a> Down<'a> {
    /// The activations that went into dense layer `i`, in rows `block` of a chunk.
    fn input(&self, i: usize, chunk: Chunk, block: &Range<usize>) -> &'a [f32] {
        if i == 0 {
            let inputs = self.pass.net.inputs;
            return &self.pass.features(chunk)[block.start * inputs..block.end * inputs];
        }
        let (at, width) = (self.pass.at(chunk), self.layers[i - 1].outputs);
        &self.hidden[i - 1][(at + block.start) * width..(at + block.end) * width]
    }

    /// Adds the gradient of the weight of dense layer `i`, from the gradient `d` at its outputs.
    fn weight(&mut self, i: usize, dense: Dense, d: &[f32], input: &[f32]) {
        weight_gradient(self.narrow, self.g, i, dense, d, input);
    }

    /// Takes the gradient `d` at the last layer's outputs down to the first.
    fn layers(&mut self, chunk: Chunk, block: &Range<usize>) {
        for (i, &dense) in self.layers.iter().enumerate().rev() {
            let (output, input) = (self.input(i + 1, chunk, block), self.input(i, chunk, block));
            let d = &mut self.d[..block.len() * dense.outputs];
            let bias = &mut self.g[dense.bias..][..dense.outputs];
            match self.pass.net.activation {
                Activation::Tanh => kernels::tanh_backward(d, output, bias),
                Activation::Relu => kernels::relu_backward(d, output, bias),
            }
            weight_gradient(self.narrow, self.g, i, dense, d, input);
            if i > 0 {
                let below = &mut self.below[..block.len() * dense.inputs];
                kernels::matmul(d, dense.outputs, self.panels[i - 1], dense.inputs, below);
                std::mem::swap(&mut self.d, &mut self.below);
            }
        }
    }

    /// Turns what was summed transposed.
    fn finish(self) {
        let bottom = self.pass.tower.dense[0];
        if bottom.inputs < NARROW {
            let slot = &mut self.g[bottom.weight..][..bottom.inputs * bottom.outputs];
            for (i, x) in slot.iter_mut().enumerate() {
                *x = self.narrow[i % bottom.inputs * bottom.outputs + i / bottom.inputs];
            }
        }
    }
}

fn weight_gradient(
    narrow: &mut [f32],
    g: &mut [f32],
    i: usize,
    dense: Dense,
    d: &[f32],
    input: &[f32],
) {
    if i == 0 && dense.inputs < NARROW {
        kernels::add_outer(input, dense.inputs, d, dense.outputs, narrow);
    } else {
        let slot = &mut g[dense.weight..][..dense.inputs * dense.outputs];
        kernels::add_outer(d, dense.outputs, input, dense.inputs, slot);
    }
}

/// The outputs of `rows` rows of each hidden layer.
fn split_layers<'a>(hidden: &'a mut Vec<f32>, layers: &[Dense], rows: usize) -> Vec<&'a mut [f32]> {
    let mut rest = first(
        hidden,
        rows * layers.iter().map(|d| d.outputs).sum::<usize>(),
    );
    let split = |d: &Dense| {
        let (layer, after) = std::mem::take(&mut rest).split_at_mut(rows * d.outputs);
        rest = after;
        layer
    };
    layers.iter().map(split).collect()
}
