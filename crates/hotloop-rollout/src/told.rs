//! Which texts of failures the log has had already: what fails in every lane fails alike, and a traceback is read once.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// So many texts are remembered; then all are forgotten, and told once more.
const MOST: usize = 256;

/// Hashes of texts.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeSet<u64>>);

impl Told {
    /// The text, or only its first line if it was told before.
    pub(crate) fn tell<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some((first, _)) = text.split_once('\n') else {
            return text.into();
        };
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MOST {
            told.clear();
        }
        match told.insert(hasher.finish()) {
            true => text.into(),
            false => format!("{first} … (as above)").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_text_is_told_once() {
        let told = Told::default();
        assert_eq!(told.tell("a\nb"), "a\nb");
        assert_eq!(told.tell("a\nb"), "a … (as above)");
        assert_eq!(told.tell("a\nc"), "a\nc");
        assert_eq!([told.tell("a"), told.tell("a")], ["a", "a"]);
        for i in 0..MOST {
            told.tell(&format!("{i}\n"));
        }
        assert_eq!(told.tell("a\nb"), "a\nb");
    }
}
