//! Animated GIFs: what changed since the picture before, in its exact colours if these are few enough.

use super::{Encoder, PAUSE};
use anyhow::{Context, Result};
use hotloop::env::Frame;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Hundredths of a second, the unit of the format, below which viewers slow down to a tenth.
const SHORTEST: f64 = 2.0;
/// Colours of one picture.
const COLOURS: usize = 256;
/// How coarsely colours are chosen where there are more, from 1 to 30.
const COARSE: i32 = 10;

pub(super) struct Gif {
    encoder: gif::Encoder<BufWriter<File>>,
    /// The pixels of the picture that waits.
    shown: Vec<u8>,
    /// It waits until it is known for how long it stands.
    waiting: Option<gif::Frame<'static>>,
    /// Since when, in hundredths of a second from the start, as written.
    since: f64,
    /// When the next picture is due.
    due: f64,
}

/// A part of a picture.
#[derive(Clone, Copy)]
struct Region {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Gif {
    /// A film of pictures like this one, which is not added yet.
    pub(super) fn create(path: &Path, frame: &Frame) -> Result<Self> {
        let side = |pixels: u32| {
            u16::try_from(pixels)
                .with_context(|| format!("{pixels} pixels are too many for a .gif"))
        };
        let (width, height) = (side(frame.width)?, side(frame.height)?);
        let file = BufWriter::new(File::create(path)?);
        let mut encoder = gif::Encoder::new(file, width, height, &[])?;
        encoder.set_repeat(gif::Repeat::Infinite)?;
        Ok(Self {
            encoder,
            shown: vec![],
            waiting: None,
            since: 0.0,
            due: 0.0,
        })
    }

    /// Writes the picture that waits: it stands until `until`.
    fn write_waiting(&mut self, until: f64) -> Result<()> {
        if let Some(mut frame) = self.waiting.take() {
            let delay = (until - self.since).clamp(SHORTEST, f64::from(u16::MAX));
            frame.delay = delay as u16;
            self.encoder.write_frame(&frame)?;
            self.since += delay;
        }
        Ok(())
    }
}

impl Encoder for Gif {
    fn add(&mut self, frame: &Frame, last: bool) -> Result<()> {
        let starts = self.due.round();
        self.due += 100.0 * if last { PAUSE } else { 1.0 / frame.fps };
        let too_soon = self.waiting.is_some() && starts - self.since < SHORTEST;
        if too_soon && !last {
            return Ok(());
        }
        let whole = Region {
            left: 0,
            top: 0,
            width: frame.width as usize,
            height: frame.height as usize,
        };
        let region = match self.shown.is_empty() {
            true => Some(whole),
            false => changed(&self.shown, frame),
        };
        // A picture like the one before lets that one stand for longer.
        if let Some(region) = region {
            self.write_waiting(starts)?;
            self.waiting = Some(encoded(frame, region));
            self.shown.clone_from(&frame.rgb);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.write_waiting(self.due.round())?;
        let file = self.encoder.into_inner()?;
        let file = file.into_inner().map_err(|error| error.into_error())?;
        file.sync_all()?;
        Ok(())
    }
}

/// The smallest part of a picture outside which it is as `shown`; none if it is the same.
fn changed(shown: &[u8], frame: &Frame) -> Option<Region> {
    let width = frame.width as usize;
    let (mut columns, mut rows) = ((width, 0), (usize::MAX, 0));
    let lines = shown
        .chunks_exact(3 * width)
        .zip(frame.rgb.chunks_exact(3 * width));
    for (y, (old, new)) in lines.enumerate() {
        let differs = |x: &usize| old[3 * x..3 * x + 3] != new[3 * x..3 * x + 3];
        let Some(first) = (0..width).find(differs) else {
            continue;
        };
        let end = (first..width).rev().find(differs).unwrap_or(first) + 1;
        columns = (columns.0.min(first), columns.1.max(end));
        rows = (rows.0.min(y), y + 1);
    }
    (rows.1 > 0).then(|| Region {
        left: columns.0,
        top: rows.0,
        width: columns.1 - columns.0,
        height: rows.1 - rows.0,
    })
}

/// A part of a picture with a palette of its own.
fn encoded(frame: &Frame, region: Region) -> gif::Frame<'static> {
    let stride = 3 * frame.width as usize;
    let mut pixels = Vec::with_capacity(3 * region.width * region.height);
    for y in region.top..region.top + region.height {
        let line = y * stride + 3 * region.left;
        pixels.extend_from_slice(&frame.rgb[line..line + 3 * region.width]);
    }
    // Sides were checked to fit when the film was begun.
    let (width, height) = (region.width as u16, region.height as u16);
    let mut encoded = match indexed(&pixels) {
        Some((palette, indices)) => {
            gif::Frame::from_palette_pixels(width, height, indices, palette, None)
        }
        None => gif::Frame::from_rgb_speed(width, height, &pixels, COARSE),
    };
    (encoded.left, encoded.top) = (region.left as u16, region.top as u16);
    encoded.dispose = gif::DisposalMethod::Keep;
    encoded
}

/// The colours of these pixels and the index of each pixel's; none if they are too many.
fn indexed(pixels: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut known: HashMap<[u8; 3], u8> = HashMap::new();
    let (mut palette, mut indices) = (vec![], Vec::with_capacity(pixels.len() / 3));
    let mut before = None;
    for pixel in pixels.chunks_exact(3) {
        let colour = [pixel[0], pixel[1], pixel[2]];
        let index = match before {
            // Most pixels are like the one before.
            Some((same, index)) if same == colour => index,
            _ => match known.get(&colour) {
                Some(&index) => index,
                None if known.len() == COLOURS => return None,
                None => {
                    let index = known.len() as u8;
                    known.insert(colour, index);
                    palette.extend(colour);
                    index
                }
            },
        };
        before = Some((colour, index));
        indices.push(index);
    }
    Some((palette, indices))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A film of these pictures, the last of them at the end of an episode, as it is read back: how long each picture
    /// stands, and its pixels.
    fn read_back(pictures: &[Frame]) -> Vec<(u16, Vec<u8>)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("film");
        let mut film = Box::new(Gif::create(&path, &pictures[0]).unwrap());
        for (i, picture) in pictures.iter().enumerate() {
            film.add(picture, i + 1 == pictures.len()).unwrap();
        }
        film.finish().unwrap();
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut film = options.read_info(File::open(&path).unwrap()).unwrap();
        let mut canvas = vec![0; pictures[0].rgb.len()];
        let (mut seen, width) = (vec![], 3 * pictures[0].width as usize);
        while let Some(frame) = film.read_next_frame().unwrap() {
            let line = usize::from(frame.width);
            for (y, pixels) in frame.buffer.chunks(4 * line).enumerate() {
                let at = (usize::from(frame.top) + y) * width + 3 * usize::from(frame.left);
                for (to, from) in canvas[at..].chunks_mut(3).zip(pixels.chunks(4)) {
                    to.copy_from_slice(&from[..3]);
                }
            }
            seen.push((frame.delay, canvas.clone()));
        }
        seen
    }

    /// 8 × 4 pixels at so many pictures per second, of which number `marked` is white.
    fn picture(fps: f64, marked: usize) -> Frame {
        let mut frame = Frame::new();
        frame.fps = fps;
        frame.resize(8, 4).fill(10);
        frame.rgb[3 * marked..][..3].fill(255);
        frame
    }

    #[test]
    fn a_film_shows_every_picture_for_its_time() {
        let pictures: Vec<Frame> = [0, 31, 9].map(|marked| picture(30.0, marked)).to_vec();
        let seen = read_back(&pictures);
        assert!(
            seen.iter()
                .map(|s| &s.1)
                .eq(pictures.iter().map(|p| &p.rgb))
        );
        // Thirtieths of a second, rounded so that they do not drift; then a pause.
        assert_eq!(seen.iter().map(|s| s.0).collect::<Vec<_>>(), [3, 4, 100]);
    }

    #[test]
    fn pictures_that_come_too_fast_are_left_out_and_time_is_kept() {
        let pictures: Vec<Frame> = (0..32).map(|i| picture(100.0, i)).collect();
        let seen = read_back(&pictures);
        assert_eq!(seen.len(), 17);
        assert!(seen.iter().all(|s| s.0 >= 2));
        let time: u16 = seen.iter().map(|s| s.0).sum();
        assert_eq!((time, &seen[16].1), (31 + 100, &pictures[31].rgb));
    }

    #[test]
    fn a_picture_like_the_one_before_lets_that_one_stand() {
        let pictures = [1, 1, 1, 2].map(|marked| picture(10.0, marked));
        let seen = read_back(&pictures);
        assert_eq!(seen.iter().map(|s| s.0).collect::<Vec<_>>(), [30, 100]);
    }

    #[test]
    fn many_colours_are_shown_by_similar_ones() {
        let mut frame = Frame::new();
        for (i, pixel) in frame.resize(40, 40).chunks_mut(3).enumerate() {
            pixel.copy_from_slice(&[(6 * (i % 40)) as u8, (6 * (i / 40)) as u8, 100]);
        }
        assert!(indexed(&frame.rgb).is_none());
        let seen = read_back(std::slice::from_ref(&frame));
        let far = |(a, b): (&u8, &u8)| f64::from(a.abs_diff(*b));
        let mean = seen[0].1.iter().zip(&frame.rgb).map(far).sum::<f64>() / 4800.0;
        assert!(mean < 10.0, "{mean}");
    }
}
