//! A board of cells as a picture and as text: what games on a grid look like.

use crate::Frame;

/// The glyph of a cell that holds nothing.
const EMPTY: char = '·';
/// Its colour.
const GROUND: [u8; 3] = [24, 26, 32];

/// Cells, each with a glyph and a colour (red, green, blue).
///
/// ```
/// use hotloop_env::{Board, Frame};
///
/// let mut board = Board::new(3, 2);
/// board.set(0, 1, '@', [80, 200, 120]);
/// let mut frame = Frame::new();
/// board.draw(&mut frame, 16);
/// assert_eq!((frame.width, frame.height), (48, 32));
/// assert_eq!(board.text().lines().count(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Board {
    width: usize,
    cells: Vec<(char, [u8; 3])>,
}

impl Board {
    /// An empty board.
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            cells: vec![(EMPTY, GROUND); width * height],
        }
    }

    /// Puts a glyph into column `x` of row `y`, counted from the top left, in the place of what was there.
    /// Panics if there is no such cell.
    pub fn set(&mut self, x: usize, y: usize, glyph: char, colour: [u8; 3]) {
        assert!(x < self.width, "column {x} of {}", self.width);
        self.cells[y * self.width + x] = (glyph, colour);
    }

    /// Draws every cell as a square of `side` pixels in its colour.
    pub fn draw(&self, frame: &mut Frame, side: u32) {
        let (width, height) = (self.width, self.cells.len() / self.width.max(1));
        let rgb = frame.resize(width as u32 * side, height as u32 * side);
        let (side, line) = (side as usize, 3 * width * side as usize);
        if line == 0 {
            return;
        }
        for (cells, lines) in self
            .cells
            .chunks(width)
            .zip(rgb.chunks_exact_mut(line * side))
        {
            let (first, others) = lines.split_at_mut(line);
            for (cell, pixels) in cells.iter().zip(first.chunks_exact_mut(3 * side)) {
                for pixel in pixels.chunks_exact_mut(3) {
                    pixel.copy_from_slice(&cell.1);
                }
            }
            for other in others.chunks_exact_mut(line) {
                other.copy_from_slice(first);
            }
        }
    }

    /// The board for a terminal: two columns a cell, so that cells are about square, each glyph on its colour.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for row in self.cells.chunks(self.width.max(1)) {
            for (glyph, [r, g, b]) in row {
                // Dark on light colours, light on dark ones.
                let ink = if u32::from(*r) + 2 * u32::from(*g) + u32::from(*b) > 380 {
                    30
                } else {
                    37
                };
                text += &format!("\x1b[{ink};48;2;{r};{g};{b}m{glyph} ");
            }
            text += "\x1b[0m\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_squares_of_their_colour() {
        let mut board = Board::new(2, 2);
        board.set(1, 0, 'x', [1, 2, 3]);
        let mut frame = Frame::new();
        board.draw(&mut frame, 2);
        let rows: Vec<&[u8]> = frame.rgb.chunks(12).collect();
        let (empty, cell) = ([GROUND; 2].concat(), [[1, 2, 3]; 2].concat());
        assert_eq!(rows[0], [&empty[..], &cell].concat());
        assert_eq!(rows[1], rows[0]);
        assert_eq!(rows[2], [&empty[..], &empty].concat());
    }

    #[test]
    fn text_shows_glyphs_on_colours() {
        let mut board = Board::new(2, 1);
        board.set(0, 0, 'x', [255, 255, 255]);
        assert_eq!(
            board.text(),
            "\x1b[30;48;2;255;255;255mx \x1b[37;48;2;24;26;32m· \x1b[0m\n"
        );
    }
}
