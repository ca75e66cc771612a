//! Recurrent cells: a long short-term memory or a gated recurrent unit between body and heads.
//!
//! Definitions, gate order and parameter names are those of one layer of `torch.nn.LSTM` and
//! `torch.nn.GRU`. A lane's state is one row of f32: the output `h`, and behind it the cell `c` of an
//! LSTM. A reset is a row of zeros. As for the rest of the network there are two ways to the same
//! function, `plain` through autograd and `fast` by hand.

mod fast;
#[cfg(test)]
mod network_tests;
mod plain;
#[cfg(test)]
mod tests;

pub(super) use fast::{Panels, States, Trace};

use super::{Init, ParamBuilder};

/// Which recurrent cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellKind {
    /// Gated recurrent unit (Cho et al. 2014).
    Gru,
    /// Long short-term memory (Hochreiter & Schmidhuber 1997).
    Lstm,
}

impl CellKind {
    /// Sections of the product with the inputs.
    fn gates(self) -> usize {
        match self {
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// Elements of a state of `hidden` units.
    pub fn state(self, hidden: usize) -> usize {
        match self {
            Self::Gru => hidden,
            Self::Lstm => 2 * hidden,
        }
    }
}

/// The shape of a recurrent cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecurrentSpec {
    /// Which cell.
    pub kind: CellKind,
    /// Units, which is also the width of its output.
    pub hidden: usize,
}

impl RecurrentSpec {
    /// Elements of what a network with such cells remembers of one lane: one cell if policy and value share it, or
    /// two.
    pub fn state(self, shared: bool) -> usize {
        self.kind.state(self.hidden) * if shared { 1 } else { 2 }
    }
}

/// A cell's place in a network: knows where its parameters lie, holds none itself.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    kind: CellKind,
    inputs: usize,
    hidden: usize,
    /// Indices into the layout: `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`.
    entries: [usize; 4],
    /// Their offsets in the arena.
    offsets: [usize; 4],
}

impl Cell {
    /// Declares `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0` and `bias_hh_l0` for `inputs` inputs: weights
    /// orthogonal with gain 1, biases zero (the values of CleanRL's recurrent PPO; Huang et al. 2022, "The 37
    /// Implementation Details of PPO").
    pub(super) fn new(params: &mut ParamBuilder<'_>, spec: RecurrentSpec, inputs: usize) -> Self {
        let gates = (spec.kind.gates() * spec.hidden) as i64;
        let weight = Init::Orthogonal { gain: 1.0 };
        let bias = Init::Constant(0.0);
        let entries = [
            params.push("weight_ih_l0", &[gates, inputs as i64], weight),
            params.push("weight_hh_l0", &[gates, spec.hidden as i64], weight),
            params.push("bias_ih_l0", &[gates], bias),
            params.push("bias_hh_l0", &[gates], bias),
        ];
        Self {
            kind: spec.kind,
            inputs,
            hidden: spec.hidden,
            entries,
            offsets: entries.map(|i| params.offset(i)),
        }
    }

    /// Index of its first parameter in the layout.
    pub(super) fn first_entry(&self) -> usize {
        self.entries[0]
    }

    /// Width of the input.
    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Units, which is also the width of the output.
    pub(super) fn hidden(&self) -> usize {
        self.hidden
    }

    /// Elements of one lane's state.
    pub(super) fn state(&self) -> usize {
        self.kind.state(self.hidden)
    }

    /// Width of the product with the inputs.
    fn gates(&self) -> usize {
        self.kind.gates() * self.hidden
    }

    /// Elements of the largest weight.
    pub(super) fn largest_weight(&self) -> usize {
        self.gates() * self.inputs.max(self.hidden)
    }

    fn weight_ih<'a>(&self, arena: &'a [f32]) -> &'a [f32] {
        &arena[self.offsets[0]..][..self.gates() * self.inputs]
    }

    fn weight_hh<'a>(&self, arena: &'a [f32]) -> &'a [f32] {
        &arena[self.offsets[1]..][..self.gates() * self.hidden]
    }

    fn biases<'a>(&self, arena: &'a [f32]) -> [&'a [f32]; 2] {
        [2, 3].map(|i| &arena[self.offsets[i]..][..self.gates()])
    }
}
