//! The 10×10 board: sets of cells as bits, and the canvas on which games draw their observations.

/// Cells along a side of the board.
pub const SIDE: i32 = 10;

/// A set of cells: bit `10 * y + x` for column `x` of row `y`, row 0 at the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plane(u128);

impl Plane {
    const FULL: u128 = (1 << (SIDE * SIDE)) - 1;
    const COLUMN: u128 = {
        let (mut column, mut y) = (0, 0);
        while y < SIDE {
            column |= 1 << (SIDE * y);
            y += 1;
        }
        column
    };

    /// The cells of columns `x` to `x + width - 1` in rows `y` to `y + height - 1`.
    pub const fn block(x: i32, y: i32, width: i32, height: i32) -> Self {
        let (mut bits, mut row) = (0, y);
        while row < y + height {
            bits |= ((1 << width) - 1) << (SIDE * row + x);
            row += 1;
        }
        Self(bits)
    }

    /// The cells of column `x`.
    #[inline]
    pub const fn column(x: i32) -> Self {
        Self(Self::COLUMN << x)
    }

    /// The set of these bits.
    #[inline]
    pub(crate) const fn from_bits(bits: u128) -> Self {
        Self(bits & Self::FULL)
    }

    /// The bits of the set.
    #[inline]
    pub(crate) const fn bits(self) -> u128 {
        self.0
    }

    #[inline]
    const fn bit(x: i32, y: i32) -> u128 {
        1 << (SIDE * y + x)
    }

    /// Whether the cell is in the set.
    #[inline]
    pub const fn has(self, x: i32, y: i32) -> bool {
        self.0 & Self::bit(x, y) != 0
    }

    /// Puts the cell into the set.
    #[inline]
    pub const fn insert(&mut self, x: i32, y: i32) {
        self.0 |= Self::bit(x, y);
    }

    /// Takes the cell out of the set.
    #[inline]
    pub const fn remove(&mut self, x: i32, y: i32) {
        self.0 &= !Self::bit(x, y);
    }

    /// Whether no cell is in the set.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of cells in the set.
    #[inline]
    pub const fn count(self) -> i32 {
        self.0.count_ones() as i32
    }

    /// The cells that are in both sets.
    #[inline]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The cells that are in this set, but not in the other.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Every cell one row up; the top row leaves the board.
    #[inline]
    pub const fn up(self) -> Self {
        Self(self.0 >> SIDE)
    }

    /// Every cell one row down; the bottom row leaves the board.
    #[inline]
    pub const fn down(self) -> Self {
        Self((self.0 << SIDE) & Self::FULL)
    }

    /// Every cell one row down; the bottom row comes in at the top.
    #[inline]
    pub const fn rolled_down(self) -> Self {
        Self(self.down().0 | self.0 >> (SIDE * (SIDE - 1)))
    }

    /// Every cell one column to the left (`dx` −1) or right (1). The column at that edge must be empty.
    #[inline]
    pub const fn sideways(self, dx: i32) -> Self {
        if dx < 0 {
            Self(self.0 >> 1)
        } else {
            Self(self.0 << 1)
        }
    }

    /// The row of the lowest cell on the board; 0 if there is none.
    #[inline]
    pub const fn lowest_row(self) -> i32 {
        match self.0.checked_ilog2() {
            Some(bit) => bit as i32 / SIDE,
            None => 0,
        }
    }
}

/// An observation while it is drawn: all cells of all planes, channels last, empty at first.
pub struct Canvas<'a> {
    cells: &'a mut [u8],
    channels: usize,
}

impl<'a> Canvas<'a> {
    /// An empty canvas of so many planes on this memory.
    #[inline]
    pub fn new(cells: &'a mut [u8], channels: usize) -> Self {
        cells.fill(0);
        Self { cells, channels }
    }

    /// Sets the cell of plane `channel` in column `x` of row `y`.
    #[inline]
    pub fn set(&mut self, channel: usize, x: i32, y: i32) {
        self.cells[(SIDE * y + x) as usize * self.channels + channel] = 1;
    }

    /// As [`set`](Self::set); a column beside the board is left out.
    #[inline]
    pub fn set_if_visible(&mut self, channel: usize, x: i32, y: i32) {
        if (0..SIDE).contains(&x) {
            self.set(channel, x, y);
        }
    }

    /// Sets all cells of a set in plane `channel`.
    #[inline]
    pub fn set_all(&mut self, channel: usize, plane: Plane) {
        let mut rest = plane.bits();
        while rest != 0 {
            self.cells[rest.trailing_zeros() as usize * self.channels + channel] = 1;
            rest &= rest - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_move_and_leave_the_board() {
        let mut plane = Plane::default();
        plane.insert(3, 0);
        plane.insert(9, 9);
        assert_eq!((plane.count(), plane.lowest_row()), (2, 9));
        let up = plane.up();
        assert!(up.has(9, 8) && up.count() == 1);
        let down = plane.down();
        assert!(down.has(3, 1) && down.count() == 1);
        assert!(plane.rolled_down().has(9, 0) && plane.rolled_down().has(3, 1));
        plane.remove(9, 9);
        assert!(plane.sideways(1).has(4, 0) && plane.sideways(-1).has(2, 0));
        assert_eq!(Plane::default().lowest_row(), 0);
    }

    #[test]
    fn blocks_and_columns_are_where_they_are_said_to_be() {
        let block = Plane::block(2, 0, 6, 4);
        assert_eq!(block.count(), 24);
        assert!(block.has(2, 0) && block.has(7, 3) && !block.has(8, 3) && !block.has(2, 4));
        assert_eq!(block.and(Plane::column(7)).count(), 4);
        assert_eq!(block.without(Plane::column(7)).count(), 20);
        assert!((0..SIDE).all(|y| Plane::column(9).has(9, y)));
    }
}
