//! The network on host memory, in our own kernels alone.
//!
//! Rows go through all layers a block at a time, so that a block's activations stay in the first
//! cache from one product to the next. A row's outputs do not depend on the rows around it: what
//! inference said of a row and what the learner says of it with the same weights are the same bits.

use super::{Activation, Outputs};
use crate::{
    error::LearnError,
    kernels, memory,
    objective::{HeadGrads, HeadRows, Objective},
    params::Params,
};
use std::cell::Cell;
use tch::{Device, Kind, Tensor};

/// Rows per block: activations of 64 columns fill half of a 32 KiB cache, and the tiles of every
/// instruction set divide it.
const BLOCK: usize = 48;

/// Below so many inputs the gradient of a weight is summed transposed, so that its long side runs
/// along the vector registers.
const NARROW: usize = 16;

/// One linear layer as a range of the arena; several heads on one trunk are one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dense {
    /// Offset of the weight, `[outputs, inputs]`.
    pub(super) weight: usize,
    /// Offset of the bias, `[outputs]`.
    pub(super) bias: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// Fully connected hidden layers and, last, the heads on top of them as one layer.
#[derive(Clone, Debug)]
pub(super) struct Tower {
    pub(super) dense: Vec<Dense>,
    /// Whether the policy's outputs are among those of the heads; then they come first.
    pub(super) policy: bool,
    /// Whether the value is; then it comes last.
    pub(super) value: bool,
}

/// A network of fully connected layers alone, as the kernels see it.
#[derive(Clone, Debug)]
pub(super) struct Perceptron {
    pub(super) inputs: usize,
    pub(super) activation: Activation,
    pub(super) towers: Vec<Tower>,
    /// Policy outputs per row.
    pub(super) width: usize,
    /// Index of the free log deviations among the parameters.
    pub(super) log_std: Option<usize>,
}

impl Perceptron {
    /// Elements of the largest weight.
    pub(super) fn largest_weight(&self) -> usize {
        let all = self.towers.iter().flat_map(|tower| &tower.dense);
        all.map(|d| d.inputs * d.outputs).max().unwrap_or(0)
    }
}

/// Memory that a thread uses again and again.
#[derive(Default)]
struct Scratch {
    /// Packed weights of one tower.
    packed: Vec<f32>,
    /// Activations of the hidden layers, one buffer per tower.
    hidden: Vec<Vec<f32>>,
    /// A block's outputs, or their gradient.
    out: Vec<f32>,
    /// A block's gradient at one layer, and at the one below.
    d: Vec<f32>,
    below: Vec<f32>,
    /// The first weight's gradient, transposed.
    narrow: Vec<f32>,
}

impl Scratch {
    /// Runs `f` with this thread's scratch; nested calls get one of their own.
    fn with<R>(f: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static SCRATCH: Cell<Scratch> = Cell::default();
        }
        let mut scratch = SCRATCH.take();
        let result = f(&mut scratch);
        SCRATCH.set(scratch);
        result
    }
}

/// The first `len` elements of a buffer that only ever grows.
fn first(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// Evaluates rows `x`, writing head `[n, outputs]` and values `[n]`.
pub(super) fn forward(net: &Perceptron, w: &[f32], x: &[f32], head: &mut [f32], value: &mut [f32]) {
    Scratch::with(|s| {
        s.hidden.resize_with(s.hidden.len().max(1), Vec::new);
        let Scratch {
            packed,
            hidden,
            out,
            ..
        } = s;
        for tower in &net.towers {
            tower_forward(
                net,
                tower,
                w,
                x,
                BLOCK,
                packed,
                &mut hidden[0],
                out,
                head,
                value,
            );
        }
    });
}

/// One tower's outputs into its part of `head` and `value`. Activations of the last `kept` rows
/// (a block, or all) stay in `hidden`, layer after layer.
#[expect(
    clippy::too_many_arguments,
    reason = "scratch buffers are borrowed one by one"
)]
fn tower_forward(
    net: &Perceptron,
    tower: &Tower,
    w: &[f32],
    x: &[f32],
    kept: usize,
    packed: &mut Vec<f32>,
    hidden: &mut Vec<f32>,
    out: &mut Vec<f32>,
    head: &mut [f32],
    value: &mut [f32],
) {
    let (layers, heads) = tower.split();
    let inputs = net.inputs;
    let packed = first(
        packed,
        tower
            .dense
            .iter()
            .map(|d| kernels::packed_len(d.inputs, d.outputs))
            .sum(),
    );
    let mut rest = &mut packed[..];
    let mut panels: Vec<&[f32]> = Vec::with_capacity(tower.dense.len());
    for d in &tower.dense {
        let (panel, after) = rest.split_at_mut(kernels::packed_len(d.inputs, d.outputs));
        kernels::pack_transposed(d.weight(w), d.inputs, d.outputs, panel);
        panels.push(panel);
        rest = after;
    }
    let hidden = first(
        hidden,
        kept * layers.iter().map(|d| d.outputs).sum::<usize>(),
    );
    let out = first(out, BLOCK * heads.outputs);
    let width = net.width;
    for (b, x) in x.chunks(BLOCK * inputs).enumerate() {
        let (row, rows) = (b * BLOCK, x.len() / inputs);
        let at = if kept > BLOCK { row } else { 0 };
        let (mut input, mut free) = (x, &mut hidden[..]);
        for (d, panel) in layers.iter().zip(&panels) {
            let (layer, after) = free.split_at_mut(kept * d.outputs);
            let h = &mut layer[at * d.outputs..(at + rows) * d.outputs];
            kernels::matmul(input, d.inputs, panel, d.outputs, h);
            match net.activation {
                Activation::Tanh => kernels::bias_tanh(h, d.bias(w)),
                Activation::Relu => kernels::bias_relu(h, d.bias(w)),
            }
            (input, free) = (h, after);
        }
        let out = &mut out[..rows * heads.outputs];
        kernels::matmul(
            input,
            heads.inputs,
            panels[layers.len()],
            heads.outputs,
            out,
        );
        kernels::bias_add(out, heads.bias(w));
        for (i, out) in out.chunks_exact(heads.outputs).enumerate() {
            if tower.policy {
                head[(row + i) * width..][..width].copy_from_slice(&out[..width]);
            }
            if tower.value {
                value[row + i] = out[heads.outputs - 1];
            }
        }
    }
}

pub(super) fn gradient(
    net: &Perceptron,
    params: &Params,
    x: &Tensor,
    objective: &dyn Objective,
    grads: &mut Params,
) -> Result<Vec<f64>, LearnError> {
    let _guard = tch::no_grad_guard();
    let (n, width) = (x.size()[0], net.width);
    // SAFETY: weights are only written between passes, by the owner of the arena; the rows are
    // lent for this call.
    let (w, x) = unsafe { (params.host(), memory::f32s(x)) };
    let outputs = Outputs {
        head: Tensor::empty([n, width as i64], (Kind::Float, Device::Cpu)),
        value: Tensor::empty([n], (Kind::Float, Device::Cpu)),
        log_std: net.log_std.map(|i| params.view(i).shallow_clone()),
    };
    Scratch::with(|s| {
        s.hidden
            .resize_with(s.hidden.len().max(net.towers.len()), Vec::new);
        {
            // SAFETY: made just above, and nothing else looks at them yet.
            let (head, value) = unsafe {
                (
                    memory::f32s_mut(&outputs.head),
                    memory::f32s_mut(&outputs.value),
                )
            };
            let Scratch {
                packed,
                hidden,
                out,
                ..
            } = s;
            let kept = (n as usize).max(BLOCK);
            for (tower, hidden) in net.towers.iter().zip(hidden) {
                tower_forward(net, tower, w, x, kept, packed, hidden, out, head, value);
            }
        }
        // SAFETY: `grads` is borrowed mutably and the slice is not kept.
        unsafe { grads.host_mut() }.fill(0.0);
        let (at_outputs, stats) = match by_hand(net, &outputs, objective, grads) {
            Some(done) => done?,
            None => by_autograd(net, outputs, objective, grads)?,
        };
        // SAFETY: the gradients at the outputs are this call's own and only read from here on;
        // `grads` is borrowed mutably and written nowhere else.
        let (d_head, d_value, g) = unsafe {
            let OutputGrads { head, value } = &at_outputs;
            (memory::f32s(head), memory::f32s(value), grads.host_mut())
        };
        for (t, tower) in net.towers.iter().enumerate() {
            tower_backward(net, tower, w, x, t, s, d_head, d_value, g);
        }
        Ok(stats)
    })
}

/// Gradients of the loss at the network's outputs.
struct OutputGrads {
    head: Tensor,
    value: Tensor,
}

/// The objective's own gradients, if it has them.
fn by_hand(
    net: &Perceptron,
    outputs: &Outputs,
    objective: &dyn Objective,
    grads: &mut Params,
) -> Option<Result<(OutputGrads, Vec<f64>), LearnError>> {
    let (head, value) = (outputs.head.zeros_like(), outputs.value.zeros_like());
    let rows = HeadRows {
        // SAFETY: the outputs were made by this pass and are only read from here on.
        head: unsafe { memory::f32s(&outputs.head) },
        // SAFETY: as above.
        value: unsafe { memory::f32s(&outputs.value) },
        log_std: match &outputs.log_std {
            // SAFETY: weights are only written between passes, by the owner of the arena.
            Some(t) => unsafe { memory::f32s(t) },
            None => &[],
        },
        width: net.width,
    };
    let into = HeadGrads {
        // SAFETY: made just above, no other handle.
        head: unsafe { memory::f32s_mut(&head) },
        // SAFETY: made just above, no other handle.
        value: unsafe { memory::f32s_mut(&value) },
        log_std: match net.log_std {
            // SAFETY: `grads` is borrowed mutably by this call and written nowhere else.
            Some(i) => unsafe { memory::f32s_mut(grads.view(i)) },
            None => &mut [],
        },
    };
    let stats = objective.host_gradient(rows, into)?;
    Some(stats.map(|stats| (OutputGrads { head, value }, stats)))
}

/// The objective differentiated by autograd, down to the outputs and no further.
fn by_autograd(
    net: &Perceptron,
    outputs: Outputs,
    objective: &dyn Objective,
    grads: &mut Params,
) -> Result<(OutputGrads, Vec<f64>), LearnError> {
    let leaf = |t: &Tensor| t.detach().set_requires_grad(true);
    let outputs = Outputs {
        head: leaf(&outputs.head),
        value: leaf(&outputs.value),
        log_std: outputs.log_std.as_ref().map(leaf),
    };
    let loss = tch::with_grad(|| objective.loss(&outputs))?;
    let mut leaves = vec![&outputs.head, &outputs.value];
    leaves.extend(outputs.log_std.as_ref());
    let found = Tensor::f_run_backward(&[&loss.total], &leaves, false, false)?;
    // An output that the loss does not depend on has no gradient at all.
    let dense = |i: usize| {
        if found[i].defined() {
            found[i].contiguous()
        } else {
            leaves[i].zeros_like()
        }
    };
    if let Some(i) = net.log_std {
        grads.view(i).shallow_clone().f_copy_(&dense(2))?;
    }
    let at_outputs = OutputGrads {
        head: dense(0),
        value: dense(1),
    };
    Ok((at_outputs, loss.stat_values()?))
}

/// Adds the gradients of tower number `t` to the zeros in `g`.
#[expect(
    clippy::too_many_arguments,
    reason = "the pass's inputs, its scratch and its result"
)]
fn tower_backward(
    net: &Perceptron,
    tower: &Tower,
    w: &[f32],
    x: &[f32],
    t: usize,
    scratch: &mut Scratch,
    d_head: &[f32],
    d_value: &[f32],
    g: &mut [f32],
) {
    let (layers, heads) = tower.split();
    let (inputs, width) = (net.inputs, net.width);
    let kept = (x.len() / inputs).max(BLOCK);
    let Scratch {
        packed,
        hidden,
        out,
        d,
        below,
        narrow,
    } = scratch;
    // Nothing flows back through the first layer.
    let upper = &tower.dense[1..];
    let packed = first(
        packed,
        upper
            .iter()
            .map(|d| kernels::packed_len(d.outputs, d.inputs))
            .sum(),
    );
    let mut rest = &mut packed[..];
    let mut panels: Vec<&[f32]> = Vec::with_capacity(tower.dense.len());
    for d in upper {
        let (panel, after) = rest.split_at_mut(kernels::packed_len(d.outputs, d.inputs));
        kernels::pack(d.weight(w), d.outputs, d.inputs, panel);
        panels.push(panel);
        rest = after;
    }
    let widest = BLOCK * layers.iter().map(|d| d.outputs).max().unwrap_or(0);
    let (mut d, mut below) = (first(d, widest), first(below, widest));
    let bottom = tower.dense[0];
    let narrow = first(narrow, bottom.inputs * bottom.outputs);
    narrow.fill(0.0);
    let out = first(out, BLOCK * heads.outputs);

    for (b, x) in x.chunks(BLOCK * inputs).enumerate() {
        let (row, rows) = (b * BLOCK, x.len() / inputs);
        let at_heads = &mut out[..rows * heads.outputs];
        for (i, out) in at_heads.chunks_exact_mut(heads.outputs).enumerate() {
            if tower.policy {
                out[..width].copy_from_slice(&d_head[(row + i) * width..][..width]);
            }
            if tower.value {
                out[heads.outputs - 1] = d_value[row + i];
            }
        }
        // The activations that went into dense layer `i`.
        let input = |i: usize| -> &[f32] {
            if i == 0 {
                return x;
            }
            let before: usize = layers[..i - 1].iter().map(|d| d.outputs).sum();
            let columns = layers[i - 1].outputs;
            &hidden[t][kept * before + row * columns..][..rows * columns]
        };
        kernels::column_sums(at_heads, &mut g[heads.bias..][..heads.outputs]);
        let mut dz: &[f32] = at_heads;
        for (i, dense) in tower.dense.iter().enumerate().rev() {
            if i == 0 && dense.inputs < NARROW {
                kernels::add_outer(x, dense.inputs, dz, dense.outputs, narrow);
            } else {
                let slot = &mut g[dense.weight..][..dense.inputs * dense.outputs];
                kernels::add_outer(dz, dense.outputs, input(i), dense.inputs, slot);
            }
            if i == 0 {
                break;
            }
            let (next, columns) = (&mut below[..rows * dense.inputs], dense.inputs);
            kernels::matmul(dz, dense.outputs, panels[i - 1], columns, next);
            let bias = &mut g[layers[i - 1].bias..][..columns];
            match net.activation {
                Activation::Tanh => kernels::tanh_backward(next, input(i), bias),
                Activation::Relu => kernels::relu_backward(next, input(i), bias),
            }
            std::mem::swap(&mut d, &mut below);
            dz = &d[..rows * columns];
        }
    }
    if bottom.inputs < NARROW {
        let slot = &mut g[bottom.weight..][..bottom.inputs * bottom.outputs];
        for (i, x) in slot.iter_mut().enumerate() {
            *x = narrow[i % bottom.inputs * bottom.outputs + i / bottom.inputs];
        }
    }
}

impl Dense {
    fn weight<'a>(&self, arena: &'a [f32]) -> &'a [f32] {
        &arena[self.weight..][..self.inputs * self.outputs]
    }

    fn bias<'a>(&self, arena: &'a [f32]) -> &'a [f32] {
        &arena[self.bias..][..self.outputs]
    }
}

impl Tower {
    /// The hidden layers, and the heads as one layer.
    fn split(&self) -> (&[Dense], Dense) {
        let (heads, layers) = self.dense.split_last().expect("every tower has heads");
        (layers, *heads)
    }
}
