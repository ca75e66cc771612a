//! Recurrent cells through autograd: any device.

use super::{Cell, CellKind};
use crate::error::LearnError;
use tch::Tensor;

impl Cell {
    /// One step of `n` lanes: `x` `[n, inputs]` and `state` `[n, state]` to the output `[n, hidden]` and
    /// the state after. `params` are those of the whole network, in the layout's order.
    fn step(
        &self,
        params: &[Tensor],
        x: &Tensor,
        state: &Tensor,
    ) -> Result<(Tensor, Tensor), LearnError> {
        let [w_ih, w_hh, b_ih, b_hh] = self.entries.map(|i| &params[i]);
        let (units, gates) = (self.hidden as i64, self.kind.gates() as i64);
        let h = state.f_narrow(1, 0, units)?;
        let of_inputs = x.f_linear(w_ih, Some(b_ih))?;
        let of_state = h.f_linear(w_hh, Some(b_hh))?;
        Ok(match self.kind {
            CellKind::Lstm => {
                let sums = (of_inputs + of_state).f_chunk(gates, 1)?;
                let (i, f) = (sums[0].f_sigmoid()?, sums[1].f_sigmoid()?);
                let (g, o) = (sums[2].f_tanh()?, sums[3].f_sigmoid()?);
                let c = f * state.f_narrow(1, units, units)? + i * g;
                let h = o * c.f_tanh()?;
                let state = Tensor::f_cat(&[&h, &c], 1)?;
                (h, state)
            }
            CellKind::Gru => {
                let (x, s) = (of_inputs.f_chunk(gates, 1)?, of_state.f_chunk(gates, 1)?);
                let r = (&x[0] + &s[0]).f_sigmoid()?;
                let z = (&x[1] + &s[1]).f_sigmoid()?;
                let n = (&x[2] + r * &s[2]).f_tanh()?;
                let h = &n + z * (h - &n);
                (h.shallow_clone(), h)
            }
        })
    }

    /// Sequences of `length` steps each, sequence after sequence: `x` `[n · length, inputs]`, `states`
    /// `[n, state]` before the first step, `starts` `[n · length]` u8, 1 where the state is reset before
    /// the row. Returns the outputs `[n · length, hidden]` and the states after the last step.
    pub(in crate::net) fn unroll(
        &self,
        params: &[Tensor],
        x: &Tensor,
        length: i64,
        starts: &Tensor,
        states: &Tensor,
    ) -> Result<(Tensor, Tensor), LearnError> {
        let n = states.size()[0];
        let x = x.f_reshape([n, length, self.inputs as i64])?;
        let starts = starts.f_reshape([n, length, 1])?.f_ne(0)?;
        let mut state = states.shallow_clone();
        let mut outputs = Vec::with_capacity(length as usize);
        for t in 0..length {
            let before = state.f_masked_fill(&starts.f_select(1, t)?, 0.0)?;
            let (h, after) = self.step(params, &x.f_select(1, t)?, &before)?;
            outputs.push(h);
            state = after;
        }
        let outputs = Tensor::f_stack(&outputs, 1)?.f_reshape([n * length, self.hidden as i64])?;
        Ok((outputs, state))
    }
}
