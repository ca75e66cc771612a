//! Who may touch what, and when: the meeting of a group's actors with its inference worker, and the
//! sleeping and waking of threads. Nothing here knows of memory, environments or policies, so that
//! the whole of it can be model-checked (`tests/model.rs`).

#![allow(
    unreachable_pub,
    reason = "the module is public only for the model checker"
)]

pub mod event;
pub mod handoff;
pub mod inbox;
pub mod pairing;
pub mod relay;
pub mod rendezvous;
pub mod seat;
pub mod sync;

/// Something that threads or tasks wait at and that can be closed: then nobody waits there any more.
pub trait Close: Send + Sync {
    /// Lets everybody go who waits here now or comes later.
    fn close(&self);
}
