//! The network on host memory, in our own kernels alone.
//!
//! Rows go through all layers a block at a time, so that a block's activations stay in the first
//! cache from one product to the next. A row's outputs do not depend on the rows around it: what
//! inference said of a row and what the learner says of it with the same weights are the same bits.

mod outputs;
mod tower;

use super::{
    Activation, Outputs,
    recurrent::{Cell, States},
};
use crate::{error::LearnError, memory, objective::Objective, params::Params};
use std::cell::Cell as Slot;
use tch::{Device, Kind, Tensor};
use tower::{Chunk, Kept, Pass};

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

impl Dense {
    fn weight<'a>(&self, arena: &'a [f32]) -> &'a [f32] {
        &arena[self.weight..][..self.inputs * self.outputs]
    }

    fn bias<'a>(&self, arena: &'a [f32]) -> &'a [f32] {
        &arena[self.bias..][..self.outputs]
    }
}

/// Fully connected hidden layers, a recurrent cell on top of them, and the heads.
#[derive(Clone, Debug)]
pub(super) struct Tower {
    /// The hidden layers and, last, the heads as one layer.
    pub(super) dense: Vec<Dense>,
    pub(super) core: Option<Cell>,
    /// Whether the policy's outputs are among those of the heads; then they come first.
    pub(super) policy: bool,
    /// Whether the value is; then it comes last.
    pub(super) value: bool,
}

impl Tower {
    /// The hidden layers, and the heads as one layer.
    fn split(&self) -> (&[Dense], Dense) {
        let (heads, layers) = self.dense.split_last().expect("every tower has heads");
        (layers, *heads)
    }
}

/// A network of fully connected layers and recurrent cells, as the kernels see it.
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
    /// Elements of one lane's state.
    pub(super) fn state(&self) -> usize {
        let cells = self.towers.iter().filter_map(|tower| tower.core.as_ref());
        cells.map(Cell::state).sum()
    }

    /// Elements of the largest weight.
    pub(super) fn largest_weight(&self) -> usize {
        let dense = self.towers.iter().flat_map(|tower| &tower.dense);
        let cells = self.towers.iter().filter_map(|tower| tower.core.as_ref());
        dense
            .map(|d| d.inputs * d.outputs)
            .chain(cells.map(Cell::largest_weight))
            .max()
            .unwrap_or(0)
    }
}

/// What the rows of a pass remember: they are sequences of `steps` rows, one sequence after the other.
pub(super) struct Past<'a> {
    pub(super) steps: usize,
    /// 1 where a row starts an episode, so that its state is reset before, `[n]`.
    pub(super) starts: &'a [u8],
    /// States before the first row of each sequence, all towers' behind each other, and after the pass those
    /// after the last row, `[n / steps, state]`.
    pub(super) states: &'a mut [f32],
}

impl Past<'_> {
    /// Rows that stand for themselves.
    pub(super) fn none() -> Self {
        Self {
            steps: 1,
            starts: &[],
            states: &mut [],
        }
    }
}

/// Memory that a thread uses again and again.
#[derive(Default)]
struct Scratch {
    /// Packed weights of one tower.
    packed: Vec<f32>,
    /// A block's outputs, or their gradient.
    out: Vec<f32>,
    /// A block's gradient at one layer, and at the one below.
    d: Vec<f32>,
    below: Vec<f32>,
    /// The first weight's gradient, transposed.
    narrow: Vec<f32>,
    /// What a recurrent cell uses meanwhile, and a chunk's gradients at its outputs and inputs.
    cell: Vec<f32>,
    d_cell: Vec<f32>,
}

/// What a thread keeps from one pass to the next, so that its memory is used again.
#[derive(Default)]
struct Room {
    scratch: Scratch,
    /// Activations, one for each tower.
    kept: Vec<Kept>,
    /// Features and starts in the order of chunks.
    x: Vec<f32>,
    starts: Vec<u8>,
}

impl Room {
    /// Runs `f` with this thread's memory; nested calls get some of their own.
    fn with<R>(f: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static ROOM: Slot<Room> = Slot::default();
        }
        let mut room = ROOM.take();
        let result = f(&mut room);
        ROOM.set(room);
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

/// Takes the rows of sequences of `steps` rows, `width` items each, into the order of chunks.
fn arrange<'a, T: Copy>(
    items: &'a [T],
    width: usize,
    steps: usize,
    room: &'a mut Vec<T>,
) -> &'a [T] {
    if steps == 1 || items.is_empty() {
        return items;
    }
    room.clear();
    for chunk in Chunk::all(items.len() / width / steps, steps) {
        for i in 0..chunk.rows().len() {
            room.extend_from_slice(&items[chunk.row(i) * width..][..width]);
        }
    }
    room
}

/// Evaluates rows `x`, writing head `[n, outputs]` and values `[n]`.
pub(super) fn forward(
    net: &Perceptron,
    w: &[f32],
    x: &[f32],
    past: Past<'_>,
    head: &mut [f32],
    value: &mut [f32],
) {
    Room::with(|room| {
        room.kept.resize_with(room.kept.len().max(1), Kept::default);
        let x = arrange(x, net.inputs, past.steps, &mut room.x);
        let starts = arrange(past.starts, 1, past.steps, &mut room.starts);
        for pass in passes(net, w, x, starts, past.steps, false) {
            let states = States::new(past.states, net.state(), pass.state);
            pass.forward(states, &mut room.kept[0], &mut room.scratch, head, value);
        }
    });
}

/// The towers of a network with the rows, in the order of chunks, that go through them.
fn passes<'a>(
    net: &'a Perceptron,
    w: &'a [f32],
    x: &'a [f32],
    starts: &'a [u8],
    steps: usize,
    keep: bool,
) -> impl Iterator<Item = Pass<'a>> {
    net.towers.iter().scan(0, move |state, tower| {
        let pass = Pass {
            net,
            tower,
            w,
            x,
            starts,
            steps,
            state: *state,
            keep,
        };
        *state += tower.core.as_ref().map_or(0, Cell::state);
        Some(pass)
    })
}

pub(super) fn gradient(
    net: &Perceptron,
    params: &Params,
    x: &Tensor,
    past: Past<'_>,
    objective: &dyn Objective,
    grads: &mut Params,
) -> Result<Vec<f64>, LearnError> {
    let _guard = tch::no_grad_guard();
    let n = x.size()[0];
    // SAFETY: weights are only written between passes, by the owner of the arena; the rows are
    // lent for this call.
    let (w, x) = unsafe { (params.host(), memory::f32s(x)) };
    let outputs = Outputs {
        head: Tensor::empty([n, net.width as i64], (Kind::Float, Device::Cpu)),
        value: Tensor::empty([n], (Kind::Float, Device::Cpu)),
        log_std: net.log_std.map(|i| params.view(i).shallow_clone()),
    };
    Room::with(|room| {
        let towers = net.towers.len();
        room.kept
            .resize_with(room.kept.len().max(towers), Kept::default);
        let Room {
            scratch,
            kept,
            x: of_x,
            starts: of_starts,
        } = room;
        let x = arrange(x, net.inputs, past.steps, of_x);
        let starts = arrange(past.starts, 1, past.steps, of_starts);
        let passes = || passes(net, w, x, starts, past.steps, true);
        {
            // SAFETY: made just above, and nothing else looks at them yet.
            let (head, value) = unsafe {
                (
                    memory::f32s_mut(&outputs.head),
                    memory::f32s_mut(&outputs.value),
                )
            };
            for (pass, kept) in passes().zip(&mut *kept) {
                let states = States::new(past.states, net.state(), pass.state);
                pass.forward(states, kept, scratch, head, value);
            }
        }
        // SAFETY: `grads` is borrowed mutably and the slice is not kept.
        unsafe { grads.host_mut() }.fill(0.0);
        let (at_outputs, stats) = outputs::gradient(net, outputs, objective, grads)?;
        // SAFETY: the gradients at the outputs are this call's own and only read from here on;
        // `grads` is borrowed mutably and written nowhere else.
        let (d_head, d_value, g) = unsafe {
            (
                memory::f32s(&at_outputs.head),
                memory::f32s(&at_outputs.value),
                grads.host_mut(),
            )
        };
        for (pass, kept) in passes().zip(kept) {
            pass.backward(kept, scratch, d_head, d_value, g);
        }
        Ok(stats)
    })
}
