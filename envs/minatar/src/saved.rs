//! Saving and loading: a game's state is a list of whole numbers, written and read by one and the same walk.

use crate::Plane;
use hotloop_env::{EnvError, StateReader, StateWriter};

/// The end of a walk: takes numbers or gives them.
pub(crate) enum Archive<'a, 'b> {
    Save(&'a mut StateWriter),
    Load(&'a mut StateReader<'b>),
}

impl Archive<'_, '_> {
    fn word(&mut self, word: &mut u32) -> Result<(), EnvError> {
        match self {
            Archive::Save(out) => out.u32(*word),
            Archive::Load(from) => *word = from.u32()?,
        }
        Ok(())
    }
}

/// A part of a state.
pub(crate) trait Saved {
    fn walk(&mut self, archive: &mut Archive<'_, '_>) -> Result<(), EnvError>;
}

/// Writes a state. The walk may change what it is at, hence the copy.
pub(crate) fn save<T: Saved + Clone>(state: &T, out: &mut StateWriter) {
    state
        .clone()
        .walk(&mut Archive::Save(out))
        .expect("writing a state cannot fail");
}

/// Reads a state.
pub(crate) fn load<T: Saved>(state: &mut T, from: &mut StateReader<'_>) -> Result<(), EnvError> {
    state.walk(&mut Archive::Load(from))
}

impl Saved for i32 {
    fn walk(&mut self, archive: &mut Archive<'_, '_>) -> Result<(), EnvError> {
        let mut word = *self as u32;
        archive.word(&mut word)?;
        *self = word as i32;
        Ok(())
    }
}

impl Saved for bool {
    fn walk(&mut self, archive: &mut Archive<'_, '_>) -> Result<(), EnvError> {
        let mut word = u32::from(*self);
        archive.word(&mut word)?;
        *self = word != 0;
        Ok(())
    }
}

impl Saved for Plane {
    fn walk(&mut self, archive: &mut Archive<'_, '_>) -> Result<(), EnvError> {
        let mut bits = 0;
        for part in 0..4 {
            let mut word = (self.bits() >> (32 * part)) as u32;
            archive.word(&mut word)?;
            bits |= u128::from(word) << (32 * part);
        }
        *self = Plane::from_bits(bits);
        Ok(())
    }
}

impl<T: Saved, const N: usize> Saved for [T; N] {
    fn walk(&mut self, archive: &mut Archive<'_, '_>) -> Result<(), EnvError> {
        self.iter_mut().try_for_each(|part| part.walk(archive))
    }
}

impl<T: Saved + Default + Clone> Saved for Vec<T> {
    fn walk(&mut self, archive: &mut Archive<'_, '_>) -> Result<(), EnvError> {
        let mut len = self.len() as u32;
        archive.word(&mut len)?;
        // No game has more of anything than the board has cells.
        if len > 100 {
            return Err(EnvError::new(format!(
                "saved state of a MinAtar game: a list of {len} things, expected 100 at most"
            )));
        }
        self.resize(len as usize, T::default());
        self.iter_mut().try_for_each(|part| part.walk(archive))
    }
}

impl<T: Saved + Default> Saved for Option<T> {
    fn walk(&mut self, archive: &mut Archive<'_, '_>) -> Result<(), EnvError> {
        let mut some = self.is_some();
        some.walk(archive)?;
        if !some {
            *self = None;
            return Ok(());
        }
        self.get_or_insert_default().walk(archive)
    }
}

/// Walks the fields of a structure in the order given.
macro_rules! saved {
    ($type:ty: $($field:ident),+) => {
        impl crate::saved::Saved for $type {
            fn walk(
                &mut self,
                archive: &mut crate::saved::Archive<'_, '_>,
            ) -> Result<(), hotloop_env::EnvError> {
                $(self.$field.walk(archive)?;)+
                Ok(())
            }
        }
    };
}
pub(crate) use saved;
