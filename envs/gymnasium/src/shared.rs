//! Memory that a worker and this process both see, without a name: nothing of it is left when both have ended.
//!
//! The two take turns. A worker touches it between the byte that asks for a turn and the byte that answers;
//! this process touches it at all other times. Only the word that says what the worker is doing is read while
//! it works.

use hotloop_env::{FaultPhase, Layout, Spaces};
use serde_json::{Value, json};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Where each array begins, in bytes; `[lanes]` or `[lanes][record]` each.
#[derive(Clone, Debug)]
struct Places {
    commands: usize,
    seeds: usize,
    rewards: usize,
    ends: usize,
    actions: usize,
    observations: usize,
    masks: usize,
    size: usize,
}

/// An array begins in a cache line of its own.
const LINE: usize = 64;

impl Places {
    fn new(spaces: &Spaces, lanes: usize) -> Self {
        // The first line is the word's.
        let mut size = LINE;
        let mut take = |bytes: usize| {
            let at = size;
            size = (size + bytes).next_multiple_of(LINE);
            at
        };
        Self {
            commands: take(lanes),
            seeds: take(8 * lanes),
            rewards: take(8 * lanes),
            ends: take(lanes),
            actions: take(spaces.action.record_bytes() * lanes),
            observations: take(spaces.observation.record_bytes() * lanes),
            masks: take(spaces.action.mask_bytes() * lanes),
            size,
        }
    }
}

/// A file in memory that has no name.
pub(crate) struct Memory(File);

impl Memory {
    /// An empty one, closed in programs that are started.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(nameless()?))
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Makes room for `lanes` lanes of an environment with these spaces, and maps it.
    pub(crate) fn map(&self, spaces: &Spaces, lanes: usize) -> io::Result<Shared> {
        let places = Places::new(spaces, lanes);
        self.0.set_len(places.size as u64)?;
        // SAFETY: a new mapping is asked for, of a file that is this long.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                places.size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.0.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Shared {
            start,
            lanes,
            records: [
                spaces.action.record_bytes(),
                spaces.observation.record_bytes(),
                spaces.action.mask_bytes(),
            ],
            places,
        })
    }
}

#[cfg(target_os = "linux")]
fn nameless() -> io::Result<File> {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"hotloop".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

#[cfg(not(target_os = "linux"))]
fn nameless() -> io::Result<File> {
    use std::sync::atomic::AtomicU64;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!(
        "hotloop-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Relaxed)
    );
    let path = std::env::temp_dir().join(name);
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Where a worker is in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// It has not begun.
    Nowhere,
    /// At this lane, of which it makes, resets or steps the environment.
    Lane(usize, FaultPhase),
    /// It has done with all lanes.
    Done,
}

/// The mapped memory of one block.
pub(crate) struct Shared {
    start: NonNull<u8>,
    lanes: usize,
    /// Bytes of one lane's action, observation and mask.
    records: [usize; 3],
    places: Places,
}

// SAFETY: the mapping belongs to this value alone within the process.
unsafe impl Send for Shared {}

impl Shared {
    /// What the worker needs to know of the layout, as JSON.
    pub(crate) fn describe(&self, spaces: &Spaces) -> Value {
        let space = |layout: &Layout| {
            let leaf = |leaf: &hotloop_env::Leaf| json!({"offset": leaf.offset, "dtype": leaf.dtype.name()});
            let leaves: Vec<Value> = layout.leaves().iter().map(leaf).collect();
            json!({"record": layout.record_bytes(), "leaves": leaves})
        };
        let places = &self.places;
        json!({
            "size": places.size,
            "observation": space(&spaces.observation),
            "action": space(&spaces.action),
            "mask": spaces.action.mask_bytes(),
            "offsets": {
                "commands": places.commands,
                "seeds": places.seeds,
                "rewards": places.rewards,
                "ends": places.ends,
                "actions": places.actions,
                "observations": places.observations,
                "masks": places.masks,
            },
        })
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: the first eight bytes are the word, aligned, and accessed as an atomic on this side.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().cast()) }
    }

    /// What the worker says to be doing.
    pub(crate) fn at(&self) -> At {
        let word = self.word().load(Relaxed);
        let phase = match word & 3 {
            0 if word == 0 => return At::Nowhere,
            0 => return At::Done,
            1 => FaultPhase::Build,
            2 => FaultPhase::Reset,
            _ => FaultPhase::Step,
        };
        At::Lane((word >> 2) as usize, phase)
    }

    /// Before a turn: the worker has not begun it, and nothing has ended.
    pub(crate) fn clear(&mut self) {
        self.word().store(0, Relaxed);
        self.bytes(self.places.ends, self.lanes).fill(0);
    }

    /// What each lane is told to do.
    pub(crate) fn commands(&mut self) -> &mut [u8] {
        self.bytes(self.places.commands, self.lanes)
    }

    /// The seed with which each lane starts its next episode.
    pub(crate) fn seeds(&mut self) -> &mut [u64] {
        // SAFETY: as in `bytes`; lines are aligned for words, and any bits are a word.
        unsafe { std::slice::from_raw_parts_mut(self.place(self.places.seeds).cast(), self.lanes) }
    }

    /// The action record of a lane.
    pub(crate) fn action(&mut self, lane: usize) -> &mut [u8] {
        let [record, ..] = self.records;
        self.bytes(self.places.actions + lane * record, record)
    }

    /// The reward of a lane's step.
    pub(crate) fn reward(&mut self, lane: usize) -> f64 {
        let bytes = self.bytes(self.places.rewards + 8 * lane, 8);
        bytes.try_into().map_or(f64::NAN, f64::from_ne_bytes)
    }

    /// How a lane's step ended: 1 terminated, 2 truncated.
    pub(crate) fn end(&mut self, lane: usize) -> u8 {
        self.bytes(self.places.ends, self.lanes)[lane]
    }

    /// The observation record of a lane.
    pub(crate) fn observation(&mut self, lane: usize) -> &[u8] {
        let [_, record, _] = self.records;
        self.bytes(self.places.observations + lane * record, record)
    }

    /// The mask of a lane.
    pub(crate) fn mask(&mut self, lane: usize) -> &[u8] {
        let [.., record] = self.records;
        self.bytes(self.places.masks + lane * record, record)
    }

    fn place(&mut self, offset: usize) -> *mut u8 {
        assert!(offset <= self.places.size);
        // SAFETY: it stays within the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }

    fn bytes(&mut self, offset: usize, len: usize) -> &mut [u8] {
        assert!(offset + len <= self.places.size);
        // SAFETY: the mapping is that large and lives as long as `self`, which is borrowed; the worker touches it
        // in its turns only, and `self` is used for this outside of them.
        unsafe { std::slice::from_raw_parts_mut(self.place(offset), len) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.places.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop_env::Space;

    #[test]
    fn arrays_do_not_overlap_and_hold_what_is_written() {
        let spaces = Spaces::new(Space::boxed(0.0, 1.0, &[3]), Space::masked_discrete(5)).unwrap();
        let mut shared = Memory::new().unwrap().map(&spaces, 3).unwrap();
        assert_eq!(shared.at(), At::Nowhere);
        for lane in 0..3 {
            shared.commands()[lane] = 1;
            shared.seeds()[lane] = u64::MAX;
            shared.action(lane).fill(2);
        }
        for lane in 0..3 {
            assert_eq!((shared.reward(lane), shared.end(lane)), (0.0, 0));
            assert_eq!(shared.observation(lane), [0; 12]);
            assert_eq!(shared.mask(lane), [0; 5]);
        }
        let offsets = &shared.describe(&spaces)["offsets"];
        assert!(
            offsets
                .as_object()
                .unwrap()
                .values()
                .all(|at| at.as_u64().unwrap() % 64 == 0)
        );
    }
}
