//! How workers end that are no longer needed.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod support;

use hotloop_env::{AsyncVectorEnv, Frame};
use std::path::Path;
use support::{Made, lives, soon, toy};

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

#[test]
fn br_47_a_worker_that_dies_while_it_draws_is_named_and_replaced() {
    let drawing = Made {
        drawn: true,
        ..toy("Drawing", "{}")
    };
    let mut desk = drawing.desk(2);
    desk.turn();
    let error = desk.block.render(0, &mut Frame::new()).unwrap_err();
    let said = "its worker is gone within render(): it was ended by SIGKILL";
    assert!(error.to_string().contains(said), "{error}");
    // The next turn finds no worker, and the one after has a new one.
    desk.turn();
    assert_eq!(desk.faults.len(), 2);
    desk.turn();
    assert!(desk.faults.is_empty(), "{:?}", desk.faults);
}
