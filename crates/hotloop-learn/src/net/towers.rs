//! A tower of the network: how its parameters lie in the arena, and where the kernels find them.

use super::{Init, NetworkSpec, ParamBuilder, fast, recurrent::Cell};
use crate::{error::LearnError, params::ParamLayout};

/// Weight and bias of one linear layer, as indices into the layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    pub(super) weight: usize,
    pub(super) bias: usize,
}

/// A body and the heads on top of it.
#[derive(Clone, Debug)]
pub(super) struct Tower {
    /// What the names of the body's parameters begin with.
    pub(super) name: &'static str,
    /// Width of the body's hidden vector.
    pub(super) width: usize,
    pub(super) core: Option<Cell>,
    pub(super) policy: Option<Linear>,
    pub(super) value: Option<Linear>,
}

impl Tower {
    /// Lays out one tower. The heads' weights are neighbours, and so are their biases, so that a shared
    /// trunk can treat both heads as one matrix.
    pub(super) fn lay_out(
        layout: &mut ParamLayout,
        inits: &mut Vec<Init>,
        spec: &NetworkSpec,
        name: &'static str,
        policy: bool,
        value: bool,
    ) -> Result<Self, LearnError> {
        let mut params = ParamBuilder::new(layout, inits, name);
        let width = spec.body.build(&spec.inputs, &mut params)?;
        let core = spec
            .recurrent
            .map(|spec| Cell::new(&mut params.within("core"), spec, width));
        let under_heads = core.as_ref().map_or(width, Cell::hidden);
        let heads = [
            (policy, "policy", spec.head.outputs(), 0.01),
            (value, "value", 1, 1.0),
        ];
        let wanted = || heads.iter().filter(|h| h.0);
        let weights: Vec<usize> = wanted()
            .map(|(_, head, n, gain)| {
                inits.push(Init::Orthogonal { gain: *gain });
                layout.push(format!("{head}.weight"), &[*n as i64, under_heads as i64])
            })
            .collect();
        let biases: Vec<usize> = wanted()
            .map(|(_, head, n, _)| {
                inits.push(Init::Constant(0.0));
                layout.push(format!("{head}.bias"), &[*n as i64])
            })
            .collect();
        let mut linears = weights
            .into_iter()
            .zip(biases)
            .map(|(weight, bias)| Linear { weight, bias });
        Ok(Self {
            name,
            width,
            core,
            policy: if policy { linears.next() } else { None },
            value: if value { linears.next() } else { None },
        })
    }

    /// This tower, whose body is `layers` fully connected layers, as places in the arena. They lie before the cell
    /// and the heads, weight and bias by turns.
    pub(super) fn dense(&self, layout: &ParamLayout, layers: usize) -> fast::Tower {
        let heads: Vec<Linear> = [self.policy, self.value].into_iter().flatten().collect();
        let above = self
            .core
            .as_ref()
            .map_or(heads[0].weight, Cell::first_entry);
        let first = above - 2 * layers;
        let place = |weight: usize, bias: usize| {
            let (w, b) = (&layout.entries()[weight], &layout.entries()[bias]);
            fast::Dense {
                weight: w.offset,
                bias: b.offset,
                inputs: w.shape[1] as usize,
                outputs: w.shape[0] as usize,
            }
        };
        let mut dense: Vec<fast::Dense> = (0..layers)
            .map(|i| place(first + 2 * i, first + 2 * i + 1))
            .collect();
        let outputs = |l: &Linear| layout.entries()[l.weight].shape[0] as usize;
        dense.push(fast::Dense {
            outputs: heads.iter().map(outputs).sum(),
            ..place(heads[0].weight, heads[0].bias)
        });
        fast::Tower {
            dense,
            core: self.core.clone(),
            policy: self.policy.is_some(),
            value: self.value.is_some(),
        }
    }
}
