//! Sums in the order in which NumPy adds, so that rewards agree with Gymnasium's to the last bit.

use std::ops::{Add, Mul};

/// The most numbers that NumPy adds in one block.
const BLOCK: usize = 128;

/// The sum of the squares of at most 128 numbers: one after the other if they are fewer than eight, else in eight sums
/// side by side (NumPy, `pairwise_sum`).
#[inline]
pub(crate) fn squares<T>(numbers: impl ExactSizeIterator<Item = T>) -> T
where
    T: Copy + Default + Add<Output = T> + Mul<Output = T>,
{
    let n = numbers.len();
    debug_assert!(n <= BLOCK);
    let mut numbers = numbers.map(|x| x * x);
    let mut total = T::default();
    if n >= 8 {
        let mut sums = [T::default(); 8];
        for sum in &mut sums {
            *sum = numbers.next().unwrap_or_default();
        }
        for _ in 1..n / 8 {
            for sum in &mut sums {
                *sum = *sum + numbers.next().unwrap_or_default();
            }
        }
        let [a, b, c, d, e, f, g, h] = sums;
        total = ((a + b) + (c + d)) + ((e + f) + (g + h));
    }
    numbers.fold(total, |sum, x| sum + x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_numbers_are_added_in_order_and_more_in_eight_sums() {
        // 2⁻²⁴ is lost when it is added to 1 alone, and not when it is added to its like first.
        let tiny = (0.5f32).powi(12);
        let few = [1.0, tiny, tiny];
        assert_eq!(squares(few.into_iter()), 1.0);
        let mut more = [0.0f32; 11];
        (more[0], more[2], more[3]) = (1.0, tiny, tiny);
        assert_eq!(squares(more.into_iter()), 1.0 + 2.0 * tiny * tiny);
        more[10] = 2.0;
        assert_eq!(squares(more.into_iter()), 5.0);
    }
}
