//! Brings together two things that wait for each other: a block without a segment, and a segment
//! granted to it.

use super::sync::{ArrayQueue, Ordering, fence};

/// Takes a pair if there is one. To be called by each side after it has left its own thing; of two that
/// come at once, one gets the pair.
pub fn pair<A, B>(waiting: &ArrayQueue<A>, brought: &ArrayQueue<B>) -> Option<(A, B)> {
    loop {
        // Of two that come at once each has left its thing before it looks for the other's.
        fence(Ordering::SeqCst);
        let a = waiting.pop()?;
        if let Some(b) = brought.pop() {
            return Some((a, b));
        }
        let returned = waiting.push(a);
        assert!(returned.is_ok(), "the place was just left");
        // Whoever brought something meanwhile may have found the place empty, and gone.
        fence(Ordering::SeqCst);
        if brought.is_empty() {
            return None;
        }
    }
}
