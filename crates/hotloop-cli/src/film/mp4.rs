//! MP4 files, by the program `ffmpeg`.

use super::{Encoder, PAUSE};
use anyhow::{Context, Result, bail};
use hotloop::env::Frame;
use std::env;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program, if it is on the PATH.
pub(super) fn ffmpeg() -> Option<PathBuf> {
    let name = format!("ffmpeg{}", env::consts::EXE_SUFFIX);
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths)
        .map(|folder| folder.join(&name))
        .find(|file| file.is_file())
}

/// A running ffmpeg that is fed pictures.
pub(super) struct Mp4 {
    ffmpeg: Child,
    /// Pictures for which the last one of an episode stands.
    pause: usize,
}

impl Mp4 {
    /// A film of pictures like this one, which is not added yet.
    pub(super) fn create(path: &Path, frame: &Frame) -> Result<Self> {
        let program = ffmpeg().context("ffmpeg is not on the PATH any more")?;
        let ffmpeg = Command::new(program)
            .args(["-loglevel", "error", "-nostdin", "-y"])
            .args(["-f", "rawvideo", "-pix_fmt", "rgb24"])
            .args(["-s", &format!("{}x{}", frame.width, frame.height)])
            .args(["-r", &frame.fps.to_string(), "-i", "pipe:0", "-an"])
            // Most players want even sides, and colours at half resolution.
            .args([
                "-vf",
                "pad=ceil(iw/2)*2:ceil(ih/2)*2",
                "-pix_fmt",
                "yuv420p",
            ])
            .args(["-movflags", "+faststart", "-f", "mp4"])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("ffmpeg did not start")?;
        Ok(Self {
            ffmpeg,
            pause: (frame.fps * PAUSE).ceil() as usize,
        })
    }

    /// Waits for the end of ffmpeg, which is an error with what it said if it did not go well.
    fn end(&mut self) -> Result<()> {
        drop(self.ffmpeg.stdin.take());
        let mut said = String::new();
        if let Some(mut stderr) = self.ffmpeg.stderr.take() {
            stderr.read_to_string(&mut said)?;
        }
        let status = self.ffmpeg.wait()?;
        if !status.success() {
            bail!("ffmpeg ended with {status}: {}", said.trim());
        }
        Ok(())
    }
}

impl Encoder for Mp4 {
    fn add(&mut self, frame: &Frame, last: bool) -> Result<()> {
        let times = if last { self.pause.max(1) } else { 1 };
        for _ in 0..times {
            let Some(stdin) = &mut self.ffmpeg.stdin else {
                bail!("ffmpeg has ended");
            };
            match stdin.write_all(&frame.rgb) {
                // Why it went away is what it says.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    self.end()?;
                    bail!("ffmpeg ended before the film did");
                }
                written => written?,
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl Drop for Mp4 {
    fn drop(&mut self) {
        // After `end` there is no process left to stop.
        let _ = self.ffmpeg.kill();
        let _ = self.ffmpeg.wait();
    }
}
