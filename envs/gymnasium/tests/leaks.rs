//! What is left of blocks that are gone: alone in its program, so that every descriptor of it is a block's.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;
use support::{lives, soon, toy};

#[test]
fn br_47_nothing_is_left_of_fifty_blocks() {
    let cycle = |n: usize| {
        let mut desk = toy("Child", "{}").desk(1);
        desk.turn();
        let child = f64::from_ne_bytes(desk.record(0).try_into().unwrap()) as u32;
        let worker = desk.block.process_id().unwrap();
        assert!(lives(child) && lives(worker));
        if n.is_multiple_of(2) {
            // In the middle of its life, or in the middle of a turn.
            Command::new("kill")
                .args(["-9", &worker.to_string()])
                .status()
                .unwrap();
        }
        drop(desk);
        soon("the end of the worker", || !lives(worker));
        soon("the end of its child", || !lives(child));
        soon("its reaping", || {
            !Path::new(&format!("/proc/{worker}")).exists()
        });
    };
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    // What is made once and stays.
    cycle(0);
    let before = descriptors();
    for n in 0..50 {
        cycle(n);
    }
    soon("the closing of all descriptors", || descriptors() <= before);
}
