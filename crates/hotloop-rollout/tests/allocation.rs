//! Steady state allocates nothing: not in actors, not in inference workers, not in the hand-over.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]
#![allow(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

mod common;
use common::*;
use hotloop_env::Space;
use hotloop_rollout::{Acting, Rollout, RolloutConfig, Scheduler, StateColumn};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's word for `layout` is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A random walk with a `Box` action, which is clipped.
struct Pushed(Walk);

impl hotloop_env::Env for Pushed {
    fn observation_space(&self) -> Space {
        self.0.observation_space()
    }
    fn action_space(&self) -> Space {
        Space::boxed(-1.0, 1.0, &[1])
    }
    fn reset(&mut self, ctx: &mut hotloop_env::ResetCtx<'_>) -> Result<(), hotloop_env::EnvError> {
        self.0.reset(ctx)
    }
    fn step(
        &mut self,
        action: hotloop_env::ActionView<'_>,
        rng: &mut hotloop_env::EnvRng,
    ) -> Result<hotloop_env::Transition, hotloop_env::EnvError> {
        let push = action.continuous()[0] as f64;
        Ok(match rng.below(12) {
            0 => hotloop_env::Transition::terminated(push),
            1 => hotloop_env::Transition::truncated(push),
            _ => hotloop_env::Transition::running(push),
        })
    }
    fn observe(
        &mut self,
        out: &mut hotloop_env::ObservationMut<'_>,
    ) -> Result<(), hotloop_env::EnvError> {
        self.0.observe(out)
    }
}

/// Allocations of `rounds` rounds in which every group is granted, received and returned.
fn allocations(rollout: &Rollout, rounds: u64, newest: bool) -> u64 {
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    for version in 0..rounds {
        for group in 0..rollout.groups() {
            let acting = if newest {
                Acting::Newest
            } else {
                Acting::At(version)
            };
            rollout.grant(group, acting).unwrap();
        }
        for _ in 0..rollout.groups() {
            drop(rollout.recv().unwrap());
        }
    }
    ALLOCATIONS.load(Ordering::SeqCst) - before
}

#[test]
fn br_53_steady_state_allocates_nothing() {
    let first_ready = Scheduler::FirstReady { max_batch: 16 };
    for (scheduler, newest) in [
        (Scheduler::Lockstep, false),
        (Scheduler::Lockstep, true),
        (first_ready, false),
        (first_ready, true),
    ] {
        let config = RolloutConfig {
            lanes: 96,
            lanes_per_actor: 2,
            groups: 2,
            steps: 16,
            segments_per_group: 2,
            env_threads: 2,
            scheduler,
            max_staleness: Some(2),
            state: Some(StateColumn {
                bytes: 12,
                every: 5,
            }),
            ..Default::default()
        };
        let pushed = |_| Pushed(Walk::default());
        let spaces = spaces_of(&pushed(0));
        let policies = ageing(8, 2);
        let rollout = Rollout::start(config, spaces, blocks(pushed), policies, None).unwrap();
        // Long enough for the last of the runtime's threads to have started, and taken what is its own,
        // also on a machine that is busy with other things.
        allocations(&rollout, 500, newest);
        let steps = rollout.statistics().env_steps;
        assert_eq!(
            allocations(&rollout, 200, newest),
            0,
            "{scheduler:?} {newest}"
        );
        let after = rollout.statistics();
        assert!(after.env_steps - steps >= 96 * 190);
        assert_eq!(newest, after.short_segments > 0);
    }
}
