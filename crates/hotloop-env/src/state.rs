//! Bytes in which an environment saves its state.

use crate::EnvError;

/// Collects an environment's state, little-endian.
#[derive(Debug, Default)]
pub struct StateWriter(Vec<u8>);

/// Reads back what a [`StateWriter`] collected, in the same order.
#[derive(Debug)]
pub struct StateReader<'a>(&'a [u8]);

impl StateWriter {
    /// An empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes collected.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Appends raw bytes, with their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

impl<'a> StateReader<'a> {
    /// Reads from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Takes raw bytes that [`StateWriter::bytes`] appended.
    pub fn bytes(&mut self) -> Result<&'a [u8], EnvError> {
        let n = self.u64()? as usize;
        self.take(n)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], EnvError> {
        if n > self.0.len() {
            return Err(EnvError::new(format!(
                "saved state ends early: {n} bytes wanted, {} left",
                self.0.len()
            )));
        }
        let (taken, rest) = self.0.split_at(n);
        self.0 = rest;
        Ok(taken)
    }

    /// An error if anything is left unread: the state is another environment's or version's.
    pub fn finish(&self) -> Result<(), EnvError> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(EnvError::new(format!(
                "saved state has {left} bytes too many"
            ))),
        }
    }
}

macro_rules! numbers {
    ($($name:ident),*) => {
        impl StateWriter {$(
            #[doc = concat!("Appends a `", stringify!($name), "`.")]
            pub fn $name(&mut self, value: $name) {
                self.0.extend_from_slice(&value.to_le_bytes());
            }
        )*}
        impl StateReader<'_> {$(
            #[doc = concat!("Takes a `", stringify!($name), "`.")]
            pub fn $name(&mut self) -> Result<$name, EnvError> {
                let bytes = self.take(size_of::<$name>())?;
                Ok($name::from_le_bytes(bytes.try_into().expect("take returns as many bytes as asked")))
            }
        )*}
    };
}
numbers!(u8, u32, u64, i64, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_else() {
        let mut out = StateWriter::new();
        out.f64(-0.5);
        out.u32(7);
        out.bytes(b"abc");
        let bytes = out.into_bytes();
        let mut state = StateReader::new(&bytes);
        assert_eq!((state.f64().unwrap(), state.u32().unwrap()), (-0.5, 7));
        assert!(state.finish().is_err());
        assert_eq!(state.bytes().unwrap(), b"abc");
        state.finish().unwrap();
        assert!(state.u8().is_err());
    }
}
