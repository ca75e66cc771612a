//! The right to fill one segment, and what goes with it: which versions to act with, and when to stop.

use crate::slab::SegmentBuf;
use crate::{Policy, RolloutConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Which policy version the rows of a segment are decided with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acting {
    /// All with this one.
    At(u64),
    /// Each with what [`Policy::newest`] says right before.
    Newest,
}

/// A free segment that its group may fill.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) buf: SegmentBuf,
    pub(crate) right: Right,
}

/// The right without the segment, which changes hands from row to row.
#[derive(Debug)]
pub(crate) struct Right {
    acting: Acting,
    /// Held for what its end does.
    _quota: Quota,
}

/// How a row is to be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) version: u64,
    /// The row is the segment's last: only its values are wanted.
    pub(crate) bootstrap: bool,
}

impl Call {
    /// Writes the version of row `t`, which is to be decided as was recorded. An error if it cannot be.
    pub(crate) fn follow(&self, buf: &mut SegmentBuf, t: usize) -> Result<(), String> {
        let last = buf.shape().steps;
        buf.set_version(t, self.version);
        match self.bootstrap {
            true if t == 0 => {
                Err("is at its segment's first row, where the recorded one ended".into())
            }
            false if t == last => {
                Err("is at its segment's end, and the recorded one went on".into())
            }
            _ => Ok(()),
        }
    }
}

impl Right {
    pub(crate) fn new(acting: Acting, quota: Quota) -> Self {
        Self {
            acting,
            _quota: quota,
        }
    }

    /// Decides how row `t` of the segment is to be decided, and writes its version there: the segment
    /// ends after `steps` rows, or before a row that is too much newer than the first.
    pub(crate) fn call(
        &self,
        buf: &mut SegmentBuf,
        t: usize,
        newest: &mut Newest<'_>,
        config: &RolloutConfig,
    ) -> Call {
        let (version, stale) = match self.acting {
            Acting::At(version) => (version, false),
            Acting::Newest => {
                let version = newest.get();
                let age = |buf: &SegmentBuf| version.saturating_sub(buf.versions()[0]);
                let limit = config.max_staleness.filter(|_| t > 0);
                (version, limit.is_some_and(|limit| age(buf) >= limit))
            }
        };
        buf.set_version(t, version);
        Call {
            version,
            bootstrap: t == config.steps || stale,
        }
    }
}

/// The newest version, asked for at most once a batch.
pub(crate) struct Newest<'a> {
    policy: &'a mut dyn Policy,
    known: Option<u64>,
}

impl<'a> Newest<'a> {
    pub(crate) fn new(policy: &'a mut dyn Policy) -> Self {
        Self {
            policy,
            known: None,
        }
    }

    fn get(&mut self) -> u64 {
        *self.known.get_or_insert_with(|| self.policy.newest())
    }
}

/// What is granted and not received yet.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    /// Rows of all groups.
    pub(crate) rows: Arc<AtomicUsize>,
    /// Segments of one group.
    pub(crate) segments: Arc<AtomicUsize>,
}

/// A granted segment's share of what is outstanding. It is given back when this is dropped, wherever
/// that is: by the consumer who receives the segment, or with whatever holds it when the rollout ends.
#[derive(Debug)]
pub(crate) struct Quota {
    rows: usize,
    of: Outstanding,
}

impl Quota {
    pub(crate) fn new(rows: usize, of: Outstanding) -> Self {
        of.rows.fetch_add(rows, Ordering::AcqRel);
        of.segments.fetch_add(1, Ordering::AcqRel);
        Self { rows, of }
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.of.rows.fetch_sub(self.rows, Ordering::AcqRel);
        self.of.segments.fetch_sub(1, Ordering::AcqRel);
    }
}
