//! An environment that keeps a core busy.

use crate::cost::Cost;
use crate::task::{Duty, Task};
use hotloop_env::{
    ActionView, Env, EnvError, EnvOptions, EnvRng, ObservationMut, ResetCtx, Space, StateReader,
    StateWriter, Transition,
};
use std::time::{Duration, Instant};

/// `Synthetic/Busy-v0`: a step computes for a given time. See the crate's documentation.
#[derive(Clone, Debug)]
pub struct Busy {
    task: Task,
    cost: Cost,
}

impl Busy {
    /// One with these options, as they are declared by [`register`](crate::register).
    ///
    /// # Errors
    /// If an option is out of range.
    pub fn new(options: &EnvOptions) -> Result<Self, EnvError> {
        Ok(Self {
            task: Task::new(options)?,
            cost: Cost::new(options)?,
        })
    }
}

impl Env for Busy {
    fn observation_space(&self) -> Space {
        self.task.observation_space()
    }

    fn action_space(&self) -> Space {
        self.task.action_space()
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.task.reset(ctx);
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let start = Instant::now();
        if self.task.begin()? == Duty::Hang {
            loop {
                std::thread::park();
            }
        }
        let time = Duration::from_secs_f64(self.cost.draw(self.task.lane(), rng) * 1e-6);
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
        Ok(self.task.end(action.discrete()))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.task.observe(out)
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        self.task.save(out);
        true
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.task.load(state)
    }
}
