//! Saving and loading a state that is a few numbers.

use hotloop_env::{EnvError, StateReader, StateWriter};

pub(crate) fn save(out: &mut StateWriter, state: &[f64]) {
    for &x in state {
        out.f64(x);
    }
}

pub(crate) fn load<const N: usize>(from: &mut StateReader<'_>) -> Result<[f64; N], EnvError> {
    let mut state = [0.0; N];
    for x in &mut state {
        *x = from.f64()?;
    }
    Ok(state)
}
