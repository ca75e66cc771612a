//! How often libtorch allocates for one batch of inference: the same number every time, and few. The
//! engine's own steady state allocates nothing (see hotloop-rollout's test of that); what remains is
//! counted here, beneath Rust's allocator, by taking the place of the C library's `malloc`.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use hotloop::env::{Philox, Space, Spaces, Stacks, Stream};
use hotloop_learn::{Actor, ActorCritic, Choice, HeadSpec, MlpSpec, net::Activation};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use tch::Device;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more, and is not one that is measured.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
}

/// Counts, then does what the C library does.
///
/// # Safety
/// As `malloc(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    count();
    // SAFETY: the C library's own function, with the caller's argument.
    unsafe { __libc_malloc(size) }
}

/// Counts, then does what the C library does.
///
/// # Safety
/// As `posix_memalign(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    const ENOMEM: c_int = 12;
    count();
    // SAFETY: the C library's own function, with the caller's arguments.
    let memory = unsafe { __libc_memalign(alignment, size) };
    if memory.is_null() && size > 0 {
        return ENOMEM;
    }
    // SAFETY: the caller's promise: `out` can be written.
    unsafe { *out = memory };
    0
}

#[test]
fn a_batch_of_inference_allocates_a_small_and_constant_number_of_times() {
    const LANES: usize = 512;
    let spaces = Spaces::new(Space::unbounded(&[4]), Space::discrete(2)).unwrap();
    let philox = Philox::new(1, Stream::Action);
    for (fast, shared) in [(true, true), (true, false), (false, true), (false, false)] {
        let net = ActorCritic::new(MlpSpec {
            inputs: 4,
            hidden: vec![64, 64],
            activation: Activation::Tanh,
            shared,
            head: HeadSpec::categorical(2),
            fast,
        })
        .unwrap();
        let params = net.init(1, Device::Cpu).unwrap();
        let mut actor = Actor::new(net, &spaces);
        let observations = vec![0u64; LANES * 2];
        let mut actions = vec![0u64; LANES / 2];
        let mut batch = || {
            let before = CALLS.get();
            actor
                .play(
                    &params,
                    None,
                    Choice::Sample,
                    &philox,
                    Stacks::single(&spaces.observation, bytemuck::cast_slice(&observations)),
                    &[],
                    &[],
                    |row| (row as u64, 0),
                    bytemuck::cast_slice_mut(&mut actions),
                )
                .unwrap();
            CALLS.get() - before
        };
        batch();
        let calls = [batch(), batch(), batch()];
        println!(
            "fast {fast}, shared {shared}: {} allocations per batch of {LANES}",
            calls[0]
        );
        assert!(calls[0] > 0, "the counter counts");
        assert_eq!(calls, [calls[0]; 3], "fast {fast}, shared {shared}");
        assert!(calls[0] < 200, "fast {fast}, shared {shared}: {calls:?}");
    }
}
