//! How workers end that are no longer needed.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod support;

use std::path::Path;
use support::{lives, soon, toy};

#[test]
fn br_47_nobody_waits_for_an_environment_that_hangs_when_it_is_closed() {
    // It is killed half a second later. Where this thread was kept from looking for so long, it tries again.
    let outlived = (0..5).any(|_| {
        let mut desk = toy("Closing", "{}").desk(2);
        desk.turn();
        let worker = desk.block.process_id().unwrap();
        drop(desk);
        let lived = lives(worker);
        soon("the end of the worker", || {
            !Path::new(&format!("/proc/{worker}")).exists()
        });
        lived
    });
    assert!(outlived);
}
