//! In steady state a block allocates nothing, whether it answers at once or waits.

mod common;

use common::{Count, Slab};
use hotloop_env::{
    ActionView, AsyncEnv, Env, EnvError, EnvRng, ObservationMut, ResetCtx, Space, Transition,
};
use hotloop_env::{AsyncCopies, Copies, End, VectorEnv};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// `Count`, as an environment that waits for one poll.
struct Waits(Count);

impl AsyncEnv for Waits {
    fn observation_space(&self) -> Space {
        self.0.observation_space()
    }
    fn action_space(&self) -> Space {
        self.0.action_space()
    }
    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        yield_once().await;
        self.0.seeds.clear();
        self.0.reset(ctx)
    }
    async fn step(
        &mut self,
        action: ActionView<'_>,
        rng: &mut EnvRng,
    ) -> Result<Transition, EnvError> {
        yield_once().await;
        self.0.step(action, rng)
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.0.observe(out)
    }
}

async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|_| match std::mem::replace(&mut yielded, true) {
        true => std::task::Poll::Ready(()),
        false => std::task::Poll::Pending,
    })
    .await;
}

/// The allocations of 300 calls of `turn`, after some to warm up.
fn allocations(mut turn: impl FnMut()) -> usize {
    (0..50).for_each(|_| turn());
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..300).for_each(|_| turn());
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

// One test, so that no other one allocates beside it.
#[test]
fn no_turn_allocates() {
    for end in [End::Terminated, End::Truncated] {
        let mut block = Copies::new(4, move || {
            let mut count = Count::new(3, end);
            count.seeds.reserve(1000);
            Ok(count)
        })
        .expect("it builds");
        let mut slab = Slab::new(block.spaces(), 4);
        assert_eq!(
            allocations(|| slab.turn_quietly(|rows| block.step(rows))),
            0
        );

        let mut block =
            AsyncCopies::new(4, move || Ok(Waits(Count::new(3, end)))).expect("it builds");
        let mut slab = Slab::new(block.spaces(), 4);
        assert_eq!(allocations(|| slab.drive_quietly(&mut block)), 0);
    }
}
