//! Real runs of environments in Python that start, hang, fail and are ended, and what is told and left of them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod drill;
mod endings;
mod faults;
mod hanging;
mod place;
mod starting;
