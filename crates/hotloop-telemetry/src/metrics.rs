//! `metrics.jsonl`: one JSON object a line, one line an update.

use crate::{Sink, TelemetryError, Timing, Update, write_atomic};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The metrics file of a run. Every line is written at once and whole, so that `tail -f` and a reader
/// after a crash see complete objects.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    file: File,
    /// Where the last whole line ends: what lies past it is a line that failed half-way.
    good: u64,
    line: Vec<u8>,
}

/// A line as it is written.
#[derive(Serialize)]
struct Line<'a> {
    /// Seconds since the Unix epoch.
    time: f64,
    #[serde(flatten)]
    timing: &'a Timing,
    #[serde(flatten)]
    update: &'a Update,
}

/// What a resumed run needs to know of a line.
#[derive(Deserialize)]
struct Counted {
    update: u64,
}

impl MetricsFile {
    /// An empty file.
    ///
    /// # Errors
    ///
    /// [`TelemetryError::Io`] if it cannot be made, [`TelemetryError::Place`] if it is a directory.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, TelemetryError> {
        let path = path.into();
        refuse_directory(&path)?;
        let file = File::create(&path).map_err(|e| TelemetryError::io("create", &path, e))?;
        Ok(Self::at(path, file, 0))
    }

    /// The file of a run that goes on after update `last`: the lines of later updates, which the
    /// resumed run will make again, are dropped, and so is a line that a crash cut short.
    ///
    /// # Errors
    ///
    /// [`TelemetryError::Io`] if it cannot be read or written, [`TelemetryError::Place`] if it is a
    /// directory. A missing file is an empty one.
    pub fn resume(path: impl Into<PathBuf>, last: u64) -> Result<Self, TelemetryError> {
        let path = path.into();
        refuse_directory(&path)?;
        let old = read(&path)?;
        let kept: Vec<u8> = old
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| {
                line.ends_with(b"\n")
                    && serde_json::from_slice::<Counted>(line).is_ok_and(|c| c.update <= last)
            })
            .flatten()
            .copied()
            .collect();
        if kept != old {
            write_atomic(&path, &kept)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|e| TelemetryError::io("open", &path, e))?;
        Ok(Self::at(path, file, kept.len() as u64))
    }

    fn at(path: PathBuf, file: File, good: u64) -> Self {
        Self {
            path,
            file,
            good,
            line: Vec::new(),
        }
    }

    fn append(&mut self) -> std::io::Result<()> {
        if self.file.metadata()?.len() != self.good {
            self.file.set_len(self.good)?;
            self.file.seek(SeekFrom::Start(self.good))?;
        }
        self.file.write_all(&self.line)?;
        self.good += self.line.len() as u64;
        Ok(())
    }
}

fn refuse_directory(path: &Path) -> Result<(), TelemetryError> {
    if path.is_dir() {
        return Err(TelemetryError::Place {
            path: path.to_path_buf(),
            reason:
                "metrics are written to a file of this name, but it is a directory; remove it, or \
                     give another directory for the run"
                    .to_string(),
        });
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, TelemetryError> {
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|e| TelemetryError::io("read", path, e)),
    }
}

impl Sink for MetricsFile {
    fn update(&mut self, update: &Update, timing: &Timing) -> Result<(), TelemetryError> {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let line = Line {
            time: since_epoch.map_or(0.0, |d| d.as_secs_f64()),
            timing,
            update,
        };
        self.line.clear();
        serde_json::to_writer(&mut self.line, &line).map_err(|e| {
            TelemetryError::io("write", &self.path, std::io::Error::other(e.to_string()))
        })?;
        self.line.push(b'\n');
        self.append()
            .map_err(|e| TelemetryError::io("write", &self.path, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evaluation, Shares};
    use serde_json::Value;
    use std::fs;

    fn update(n: u64) -> Update {
        Update {
            update: n,
            env_steps: n * 64,
            return_mean_100: (n > 1).then_some(21.5),
            shares: Shares {
                env: 0.25,
                inference: 0.25,
                learner: 0.5,
            },
            stats: [("policy_loss", -0.5), ("entropy", f64::NAN)].into(),
            evaluation: (n == 2).then_some(Evaluation {
                episodes: 10,
                return_mean: 475.0,
                return_std: 1.0,
                faults: 0,
                lost: 0,
                best: true,
            }),
            ..Update::default()
        }
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn each_update_is_one_object_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut metrics = MetricsFile::create(&path).unwrap();
        for n in 1..=2 {
            metrics.update(&update(n), &Timing::default()).unwrap();
            assert_eq!(lines(&path).len() as u64, n);
        }
        let lines = lines(&path);
        assert_eq!(lines[0]["return_mean_100"], Value::Null);
        assert_eq!(lines[0]["policy_loss"], -0.5);
        assert_eq!(lines[0]["entropy"], Value::Null); // JSON has no NaN
        assert_eq!(lines[0].get("evaluation"), None);
        assert_eq!(lines[1]["env_steps"], 128);
        assert_eq!(lines[1]["evaluation"]["return_mean"], 475.0);
        assert_eq!(lines[1]["shares"]["learner"], 0.5);
    }

    #[test]
    fn a_resumed_run_drops_what_it_will_make_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut metrics = MetricsFile::create(&path).unwrap();
        for n in 1..=4 {
            metrics.update(&update(n), &Timing::default()).unwrap();
        }
        // A crash in the middle of a line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"update\":2,").unwrap();
        let mut metrics = MetricsFile::resume(&path, 2).unwrap();
        metrics.update(&update(3), &Timing::default()).unwrap();
        let updates: Vec<_> = lines(&path).iter().map(|l| l["update"].clone()).collect();
        assert_eq!(updates, [1, 2, 3]);
    }

    #[test]
    fn a_line_that_failed_half_way_does_not_spoil_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut metrics = MetricsFile::create(&path).unwrap();
        metrics.update(&update(1), &Timing::default()).unwrap();
        // What a full disk leaves: a part of a line that was never counted as written.
        metrics.file.write_all(b"{\"upd").unwrap();
        metrics.update(&update(2), &Timing::default()).unwrap();
        assert_eq!(lines(&path).len(), 2);
    }

    #[test]
    fn an_unusable_path_is_named() {
        let error = MetricsFile::create("/nowhere/metrics.jsonl").unwrap_err();
        assert!(
            error.to_string().contains("/nowhere/metrics.jsonl"),
            "{error}"
        );
        let dir = tempfile::tempdir().unwrap();
        for made in [
            MetricsFile::create(dir.path()),
            MetricsFile::resume(dir.path(), 3),
        ] {
            let error = made.unwrap_err();
            assert!(matches!(error, TelemetryError::Place { .. }), "{error}");
        }
    }
}
