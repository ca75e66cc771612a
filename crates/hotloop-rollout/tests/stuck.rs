//! Calls of environments that never return: they are named, the run ends, and the end waits for nobody.
#![cfg(not(feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod common;
use common::*;
use hotloop_env::{
    ActionView, AsyncCopies, AsyncEnv, Block, Copies, Env, EnvError, EnvRng, FaultPhase,
    ObservationMut, ResetCtx, Space, Spaces, Transition,
};
use hotloop_rollout::{Acting, Rollout, RolloutConfig, RolloutError, Scheduler};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// With the lanes of an actor. An actor that is alone is run by its worker.
const SCHEDULERS: [(Scheduler, usize); 3] = [
    (Scheduler::Lockstep, 2),
    (Scheduler::Lockstep, 8),
    (Scheduler::FirstReady { max_batch: 8 }, 2),
];

/// Holds up those who pass, until it is opened; counts who is alive.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |(open, _)| !*open).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    fn count(&self, change: isize) {
        let mut state = self.state.lock().unwrap();
        state.1 = state.1.checked_add_signed(change).unwrap();
        self.changed.notify_all();
    }

    fn all_are_gone(&self) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |(_, alive)| *alive > 0)
                .unwrap(),
        );
    }
}

/// Lane 5 is held up at the gate: in step 3 of its first episode, in its reset, or when it is built anew
/// after an error in its first step.
struct Held {
    count: Count,
    at: FaultPhase,
    lane: u64,
    gate: Arc<Gate>,
}

impl Held {
    fn new(at: FaultPhase, gate: &Arc<Gate>) -> Self {
        gate.count(1);
        Self {
            count: Count::new(100, EndBy::Term),
            at,
            lane: 0,
            gate: gate.clone(),
        }
    }

    fn hold(&self, at: FaultPhase) {
        if (self.lane, self.at) == (5, at) && self.count.episode == 0 {
            self.gate.pass();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gate.count(-1);
    }
}

impl Env for Held {
    fn observation_space(&self) -> Space {
        self.count.observation_space()
    }
    fn action_space(&self) -> Space {
        self.count.action_space()
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.lane = ctx.lane();
        self.count.reset(ctx)?;
        self.hold(FaultPhase::Reset);
        Ok(())
    }
    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        if (self.lane, self.at) == (5, FaultPhase::Build) {
            return Err("build another".into());
        }
        if self.count.step == 3 {
            self.hold(FaultPhase::Step);
        }
        self.count.step(action, rng)
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.count.observe(out)
    }
}

/// The same as an environment that should wait, but blocks its thread.
struct Blocking(Held);

impl AsyncEnv for Blocking {
    fn observation_space(&self) -> Space {
        self.0.observation_space()
    }
    fn action_space(&self) -> Space {
        self.0.action_space()
    }
    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.0.reset(ctx)
    }
    async fn step(
        &mut self,
        action: ActionView<'_>,
        rng: &mut EnvRng,
    ) -> Result<Transition, EnvError> {
        self.0.step(action, rng)
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.0.observe(out)
    }
}

fn start(
    at: FaultPhase,
    gate: &Arc<Gate>,
    blocking: bool,
    (scheduler, lanes_per_actor): (Scheduler, usize),
    stuck_after: Option<Duration>,
) -> Rollout {
    let config = RolloutConfig {
        env: "Held-v0".into(),
        lanes: 8,
        lanes_per_actor,
        steps: 8,
        env_threads: 2,
        scheduler,
        stuck_after,
        ..Default::default()
    };
    let count = Count::new(1, EndBy::Term);
    let spaces = Spaces::new(count.observation_space(), count.action_space()).unwrap();
    let make = |_, lanes| {
        let (gate, built) = (gate.clone(), std::sync::atomic::AtomicUsize::new(0));
        let build = move || {
            let n = built.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if at == FaultPhase::Build && n >= lanes {
                gate.pass();
            }
            Ok(Held::new(at, &gate))
        };
        Ok(if blocking {
            let build = move || Ok(Blocking(build()?));
            Block::Async(Box::new(AsyncCopies::new(lanes, build)?))
        } else {
            Block::Sync(Box::new(Copies::new(lanes, build)?))
        })
    };
    Rollout::start(config, spaces, make, scripted(1), None).unwrap()
}

#[test]
fn br_46_a_call_that_never_returns_is_named_and_left_behind() {
    for scheduler in SCHEDULERS {
        for blocking in [false, true] {
            for (at, step) in [
                (FaultPhase::Step, 3),
                (FaultPhase::Reset, 0),
                (FaultPhase::Build, 0),
            ] {
                let gate = Arc::new(Gate::default());
                let limit = Some(Duration::from_millis(80));
                let rollout = start(at, &gate, blocking, scheduler, limit);
                for group in 0..rollout.groups() {
                    rollout.grant(group, Acting::At(0)).unwrap();
                }
                // Other groups may come first.
                let error = loop {
                    if let Err(error) = rollout.recv() {
                        break error;
                    }
                };
                let text = error.to_string();
                let RolloutError::Stuck {
                    env,
                    lanes,
                    step: found,
                    phase,
                    time,
                } = error
                else {
                    panic!("{text}")
                };
                assert_eq!((env.as_str(), lanes), ("Held-v0", 5..6), "{text}");
                assert_eq!((phase, found), (at, step), "{text}");
                assert!(time >= Duration::from_millis(80));
                let named =
                    format!("Held-v0, lane 5, step {step}: {at} has not returned for 0.1 s");
                assert!(text.contains(&named), "{text}");
                // This returns while the call goes on, and what the call writes afterwards has its place.
                rollout.shutdown();
                gate.open();
                gate.all_are_gone();
            }
        }
    }
}

#[test]
fn br_50_the_end_does_not_wait_for_a_call_that_is_not_known_to_be_stuck() {
    for scheduler in SCHEDULERS {
        let gate = Arc::new(Gate::default());
        let rollout = start(FaultPhase::Step, &gate, false, scheduler, None);
        for group in 0..rollout.groups() {
            rollout.grant(group, Acting::At(0)).unwrap();
        }
        while rollout
            .recv_timeout(Duration::from_millis(50))
            .unwrap()
            .is_some()
        {}
        drop(rollout);
        gate.open();
        gate.all_are_gone();
    }
}
