//! The mean of the last so many numbers.

use std::collections::VecDeque;

/// The last `capacity` values, for a figure like the mean return of the last 100 episodes.
///
/// The mean is summed anew each time it is asked for, so it cannot drift. For a checkpoint keep
/// [`Window::iter`] and push the values again.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    values: VecDeque<f64>,
    capacity: usize,
}

impl Window {
    /// An empty window that keeps the last `capacity` values.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a window must hold at least one value");
        Self {
            values: VecDeque::with_capacity(capacity),
            capacity,
        }
    }

    /// Adds a value; the oldest leaves if the window is full.
    pub fn push(&mut self, value: f64) {
        if self.values.len() == self.capacity {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    /// The mean of the values held; `None` if there are none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.values.iter().sum();
        (!self.values.is_empty()).then(|| sum / self.values.len() as f64)
    }

    /// The number of values held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether nothing has been pushed yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The values held, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_values_count() {
        let mut window = Window::new(3);
        assert_eq!(window.mean(), None);
        for value in [100.0, 1.0, 2.0, 6.0] {
            window.push(value);
        }
        assert_eq!((window.mean(), window.len()), (Some(3.0), 3));
        assert_eq!(window.iter().collect::<Vec<_>>(), [1.0, 2.0, 6.0]);
    }

    #[test]
    fn a_large_value_leaves_no_trace_once_it_is_gone() {
        let mut window = Window::new(2);
        for value in [1e300, 0.1, 0.1] {
            window.push(value);
        }
        assert_eq!(window.mean(), Some(0.1));
    }
}
