//! An episode in a terminal: states as text, in place of each other.

use hotloop::env::Frame;
use std::fmt::Write as _;
use std::io::{self, Stdout, StdoutLock, Write};

/// Another screen, without a cursor; and back to where the terminal was.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";
/// To the top left, and what is below cleared afterwards.
const HOME: &str = "\x1b[H";
const CLEAR_BELOW: &str = "\x1b[J";
/// Clears the rest of a line before its end.
const END_OF_LINE: &str = "\x1b[K\r\n";

/// The terminal while it shows an episode. Dropped, it is as it was.
pub(crate) struct Screen(Stdout);

impl Screen {
    /// Takes the terminal.
    pub(crate) fn enter() -> io::Result<Self> {
        let mut screen = Self(io::stdout());
        screen.put(ENTER)?;
        Ok(screen)
    }

    /// Shows lines of text in place of what was there.
    pub(crate) fn show(&mut self, text: &str) -> io::Result<()> {
        let mut picture = HOME.to_string();
        for line in text.lines() {
            picture.push_str(line);
            picture.push_str(END_OF_LINE);
        }
        picture.push_str(CLEAR_BELOW);
        self.put(&picture)
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        let mut out = self.0.lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone away needs no restoring.
        let _ = self.put(LEAVE);
    }
}

/// Gives the terminal back for a process that is about to end, and keeps others from writing to it.
pub(crate) fn restore() -> StdoutLock<'static> {
    let mut out = io::stdout().lock();
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    out
}

/// A picture as text of at most so many columns and rows: each character shows two pixels, one above the
/// other.
pub(crate) fn half_blocks(frame: &Frame, columns: usize, rows: usize) -> String {
    let (width, height) = (frame.width as usize, frame.height as usize);
    // Whole pixels of the picture, or means of several.
    let shrink = [
        width as f64 / columns as f64,
        height as f64 / (2 * rows) as f64,
    ];
    let shrink = shrink[0].max(shrink[1]).max(1.0);
    let side = |pixels: usize| ((pixels as f64 / shrink) as usize).max(1);
    let (columns, lines) = (side(width), side(height));
    let span =
        |i: usize, of: usize, pixels: usize| i * pixels / of..((i + 1) * pixels).div_ceil(of);
    let mean = |x: usize, y: usize| {
        let (mut sum, mut count) = ([0u32; 3], 0);
        for row in span(y, lines, height) {
            for column in span(x, columns, width) {
                let at = 3 * (row * width + column);
                for (sum, &value) in sum.iter_mut().zip(&frame.rgb[at..at + 3]) {
                    *sum += u32::from(value);
                }
                count += 1;
            }
        }
        sum.map(|sum| sum / count)
    };
    let mut text = String::new();
    for y in (0..lines).step_by(2) {
        for x in 0..columns {
            let [r, g, b] = mean(x, y);
            // Writing to a String cannot fail.
            let _ = write!(text, "\x1b[38;2;{r};{g};{b}");
            if y + 1 < lines {
                let [r, g, b] = mean(x, y + 1);
                let _ = write!(text, ";48;2;{r};{g};{b}");
            }
            text.push_str("m▀");
        }
        text.push_str("\x1b[0m\n");
    }
    text
}

/// The text without its colours.
pub(crate) fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
        .lines()
        .fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(width: u32, height: u32, grey: impl Fn(usize) -> u8) -> Frame {
        let mut frame = Frame::new();
        for (i, pixel) in frame.resize(width, height).chunks_exact_mut(3).enumerate() {
            pixel.fill(grey(i));
        }
        frame
    }

    #[test]
    fn two_pixels_share_a_character() {
        let small = frame(2, 3, |i| i as u8);
        assert_eq!(
            half_blocks(&small, 80, 24),
            "\x1b[38;2;0;0;0;48;2;2;2;2m▀\x1b[38;2;1;1;1;48;2;3;3;3m▀\x1b[0m\n\
             \x1b[38;2;4;4;4m▀\x1b[38;2;5;5;5m▀\x1b[0m\n"
        );
    }

    #[test]
    fn large_pictures_are_shrunk_to_their_means_and_keep_their_shape() {
        // Left half black, right half 200.
        let large = frame(600, 400, |i| if i % 600 < 300 { 0 } else { 200 });
        let text = half_blocks(&large, 60, 50);
        assert_eq!(text.lines().count(), 20);
        assert_eq!(text.matches('▀').count(), 20 * 60);
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("\x1b[38;2;0;0;0;48;2;0;0;0m▀"));
        assert!(first.ends_with("\x1b[38;2;200;200;200;48;2;200;200;200m▀\x1b[0m"));
        assert_eq!(half_blocks(&large, 600, 10).lines().count(), 10);
    }

    #[test]
    fn colours_are_taken_out() {
        assert_eq!(
            plain("\x1b[30;48;2;1;2;3mx \x1b[37m· \x1b[0m\nab\n"),
            "x ·\nab\n"
        );
    }
}
