//! Films of a policy. Pictures are encoded as they come, so that memory is bounded, into a file that gets its
//! name when it is whole.

mod gif;
mod mp4;

use anyhow::{Context, Result, bail, ensure};
use hotloop::env::Frame;
use std::fs;
use std::path::{Path, PathBuf};

/// Seconds for which the last picture of an episode stands.
const PAUSE: f64 = 1.0;

/// What turns pictures of one size into a file.
trait Encoder {
    /// Adds a picture; `last` of an episode, it stands a while.
    fn add(&mut self, frame: &Frame, last: bool) -> Result<()>;
    /// Writes what is left.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// The kinds of files that can be written, by the ending of their name.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Gif,
    Mp4,
}

/// A film while it is made. Dropped before its end, it leaves nothing.
pub(crate) struct Film {
    target: PathBuf,
    temporary: PathBuf,
    kind: Kind,
    /// Opened with the first picture, which says how large all are.
    encoder: Option<Box<dyn Encoder + Send>>,
    size: (u32, u32),
}

impl Film {
    /// A film that will be the file `target`. An error if there can be none, before anything is played.
    pub(crate) fn new(target: &Path) -> Result<Self> {
        let name = target.file_name().unwrap_or_default();
        let ending = target.extension().map(|ending| ending.to_ascii_lowercase());
        let kind = match ending.as_ref().and_then(|ending| ending.to_str()) {
            Some("gif") => Kind::Gif,
            Some("mp4") => Kind::Mp4,
            _ => bail!(
                "{}: films are written as .gif, or as .mp4 where ffmpeg is installed; give the file one of these \
                 endings",
                target.display()
            ),
        };
        if let Kind::Mp4 = kind {
            ensure!(
                mp4::ffmpeg().is_some(),
                "{}: .mp4 files are written by ffmpeg, which is not on the PATH; install it, or write a .gif",
                target.display()
            );
        }
        let mut temporary = name.to_os_string();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let film = Self {
            target: target.to_path_buf(),
            temporary: target.with_file_name(temporary),
            kind,
            encoder: None,
            size: (0, 0),
        };
        // It is written into at the first picture; that it can be is known now.
        fs::File::create(&film.temporary)
            .with_context(|| format!("cannot write {}", target.display()))?;
        Ok(film)
    }

    /// Where it is while it is made.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.temporary.clone()
    }

    /// Adds a picture; `last` of an episode, it stands for a second.
    pub(crate) fn add(&mut self, frame: &Frame, last: bool) -> Result<()> {
        let size = (frame.width, frame.height);
        let pixels = frame.width as usize * frame.height as usize;
        ensure!(
            pixels > 0 && frame.rgb.len() == 3 * pixels && frame.fps > 0.0 && frame.fps.is_finite(),
            "the environment drew {} bytes for {} × {} pixels at {} pictures per second",
            frame.rgb.len(),
            frame.width,
            frame.height,
            frame.fps
        );
        let writing = || format!("cannot write {}", self.target.display());
        if self.encoder.is_none() {
            let encoder: Box<dyn Encoder + Send> = match self.kind {
                Kind::Gif => {
                    Box::new(gif::Gif::create(&self.temporary, frame).with_context(writing)?)
                }
                Kind::Mp4 => {
                    Box::new(mp4::Mp4::create(&self.temporary, frame).with_context(writing)?)
                }
            };
            (self.encoder, self.size) = (Some(encoder), size);
        }
        ensure!(
            size == self.size,
            "the environment drew {} × {} pixels, and now {} × {}: pictures of one film are of one size",
            self.size.0,
            self.size.1,
            size.0,
            size.1
        );
        match &mut self.encoder {
            Some(encoder) => encoder.add(frame, last).with_context(writing),
            None => Ok(()),
        }
    }

    /// Gives the film its name; at least one picture was added.
    pub(crate) fn finish(mut self) -> Result<()> {
        let writing = || format!("cannot write {}", self.target.display());
        if let Some(encoder) = self.encoder.take() {
            encoder.finish().with_context(writing)?;
        }
        fs::rename(&self.temporary, &self.target).with_context(writing)
    }
}

impl Drop for Film {
    fn drop(&mut self) {
        // Whoever writes it must have stopped. After `finish` there is nothing by that name.
        self.encoder = None;
        let _ = fs::remove_file(&self.temporary);
    }
}
