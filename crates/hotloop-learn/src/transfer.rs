//! Copies between host and device for acting: one up and one down per batch, and nothing else.
//!
//! Everything that a batch needs on the device is packed into one buffer and uploaded by one copy that does not
//! block; everything decided on comes back joined, by one copy that waits. Both buffers are pinned where the device is
//! a GPU, so that its copy engine reads and writes them itself. The upload's buffer is not written again before a
//! download has waited for the stream that the upload is on. Rows that the learner needs again are uploaded again with
//! its columns, once per update: it packs them in another order, without those that are lost or stale.
//!
//! On the CPU nothing is copied, unless `staged` forces the same copies there, so that tests take this path without a
//! GPU.

use crate::{device, error::LearnError, memory};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tch::{Device, Kind, Tensor};

/// How much has been copied between host and device, by all that count here.
#[derive(Debug, Default)]
pub struct CopyCounters {
    uploads: AtomicU64,
    downloads: AtomicU64,
    uploaded: AtomicU64,
    downloaded: AtomicU64,
}

/// What [`CopyCounters`] have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
    /// Copies to the device.
    pub uploads: u64,
    /// Copies to the host.
    pub downloads: u64,
    /// Bytes of all uploads.
    pub uploaded: u64,
    /// Bytes of all downloads.
    pub downloaded: u64,
}

impl CopyCounters {
    /// The counts so far.
    pub fn read(&self) -> CopyCounts {
        CopyCounts {
            uploads: self.uploads.load(Relaxed),
            downloads: self.downloads.load(Relaxed),
            uploaded: self.uploaded.load(Relaxed),
            downloaded: self.downloaded.load(Relaxed),
        }
    }
}

/// Host memory for the copies of one direction. It grows where a batch is larger than those before.
#[derive(Debug, Default)]
struct Buffer {
    /// u8, dense, in host memory.
    memory: Option<Tensor>,
}

impl Buffer {
    /// `bytes` bytes that `device` can read and write: a view `[bytes]` u8.
    fn room(&mut self, bytes: usize, device: Device) -> Result<Tensor, LearnError> {
        let (bytes, have) = (bytes as i64, self.memory.as_ref());
        if have.is_none_or(|memory| (memory.numel() as i64) < bytes) {
            let memory = Tensor::f_empty([bytes], (Kind::Uint8, Device::Cpu))?;
            self.memory = Some(pinned(memory, device)?);
        }
        match &self.memory {
            Some(memory) => Ok(memory.f_narrow(0, 0, bytes)?),
            None => unreachable!("made just now"),
        }
    }
}

/// The same host tensor in memory that `device` can read and write by itself, if that is a GPU.
pub(crate) fn pinned(host: Tensor, device: Device) -> Result<Tensor, LearnError> {
    match device {
        Device::Cuda(_) => Ok(host.f_pin_memory(device)?),
        _ => Ok(host),
    }
}

/// A copy of `host` on `device`. Of pinned memory it may go on after this returns, until a copy to the host is waited
/// for.
pub(crate) fn send(host: &Tensor, device: Device) -> Result<Tensor, LearnError> {
    Ok(host.f_to_device_(device, host.kind(), true, true)?)
}

/// The buffers of one actor. A batch is an upload and, after it, a download.
#[derive(Debug, Default)]
pub struct Transfer {
    staged: bool,
    counters: Arc<CopyCounters>,
    up: Buffer,
    down: Buffer,
    /// The device of an upload that no download has waited for yet.
    under_way: Option<Device>,
}

impl Transfer {
    /// Copies counted by `counters`; made on the CPU, too, where it is `staged`.
    pub fn new(staged: bool, counters: Arc<CopyCounters>) -> Self {
        Self {
            staged,
            counters,
            ..Self::default()
        }
    }

    /// Whether batches have to be copied to be evaluated on `device`.
    pub(crate) fn is_needed(&self, device: Device) -> bool {
        self.staged || device != Device::Cpu
    }

    /// One copy of `bytes` bytes, which `fill` writes, as `[bytes]` u8 on `device`.
    pub(crate) fn upload(
        &mut self,
        device: Device,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Tensor, LearnError> {
        if let Some(device) = self.under_way.replace(device) {
            // Something failed in between.
            device::settle(device);
        }
        let room = self.up.room(bytes, device)?;
        // SAFETY: the buffer is this struct's own, no copy of it is under way, and `&mut self` makes this the only
        // access.
        fill(unsafe { memory::bytes_mut(&room) });
        let there = send(&room, device)?;
        self.counters.uploads.fetch_add(1, Relaxed);
        self.counters.uploaded.fetch_add(bytes as u64, Relaxed);
        Ok(there)
    }

    /// One copy of all elements of `parts`, one after the other, as f32. When it returns, everything asked of the
    /// device by this thread is done.
    pub(crate) fn download(&mut self, parts: &[&Tensor]) -> Result<&[f32], LearnError> {
        let flat = |t: &&Tensor| t.f_to_kind(Kind::Float)?.f_reshape([-1]);
        let parts = parts.iter().map(flat).collect::<Result<Vec<_>, _>>()?;
        let joined = match &parts[..] {
            [one] => one.shallow_clone(),
            _ => Tensor::f_cat(&parts, 0)?,
        };
        let bytes = joined.numel() * size_of::<f32>();
        let mut room = self.down.room(bytes, joined.device())?;
        room = room.f_view_dtype(Kind::Float)?;
        tch::no_grad(|| room.f_copy_(&joined))?;
        self.under_way = None;
        self.counters.downloads.fetch_add(1, Relaxed);
        self.counters.downloaded.fetch_add(bytes as u64, Relaxed);
        match &self.down.memory {
            // SAFETY: the buffer is this struct's own, and is written in `&mut self` alone. The copy has been waited
            // for, and all bits are f32s.
            Some(memory) => Ok(bytemuck::cast_slice(unsafe {
                &memory::u8s(memory)[..bytes]
            })),
            None => unreachable!("made above"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_back_and_every_copy_is_counted() {
        let counters = Arc::new(CopyCounters::default());
        let mut transfer = Transfer::new(true, Arc::clone(&counters));
        assert!(transfer.is_needed(Device::Cpu));
        let mut sent = vec![];
        for n in [3usize, 7, 2] {
            let there = transfer.upload(Device::Cpu, 4 * n, |room| {
                for (i, to) in room.chunks_exact_mut(4).enumerate() {
                    to.copy_from_slice(&(i as f32 + 0.5).to_ne_bytes());
                }
            });
            sent.push(there.unwrap().view_dtype(Kind::Float));
            let numbers = &sent[sent.len() - 1];
            let half = numbers.to_kind(Kind::BFloat16).view([1, -1]);
            let back = transfer.download(&[numbers, &half]).unwrap();
            let expected: Vec<f32> = (0..n).map(|i| i as f32 + 0.5).collect();
            assert_eq!(back, [&expected[..], &expected[..]].concat());
        }
        // What was uploaded is a copy: the buffer is used again.
        assert_eq!(sent[1].double_value(&[6]), 6.5);
        assert_eq!(
            counters.read(),
            CopyCounts {
                uploads: 3,
                downloads: 3,
                uploaded: 48,
                downloaded: 96
            }
        );
    }

    #[test]
    fn nothing_is_copied_on_the_cpu_unless_it_is_staged() {
        assert!(!Transfer::default().is_needed(Device::Cpu));
        assert!(Transfer::default().is_needed(Device::Cuda(0)));
    }
}
