//! An environment that waits.

use crate::cost::Cost;
use crate::task::{Duty, Task};
use hotloop_env::{
    ActionView, AsyncEnv, EnvError, EnvOptions, EnvRng, ObservationMut, ResetCtx, Space, Transition,
};
use std::time::Duration;
use tokio::time::sleep;

/// `Synthetic/Wait-v0`: a step waits for a given time. See the crate's documentation.
#[derive(Clone, Debug)]
pub struct Wait {
    task: Task,
    cost: Cost,
    reset: Duration,
}

impl Wait {
    /// One with these options, as they are declared by [`register`](crate::register).
    ///
    /// # Errors
    /// If an option is out of range.
    pub fn new(options: &EnvOptions) -> Result<Self, EnvError> {
        let reset = options.float("reset_time");
        let reset = Duration::try_from_secs_f64(reset * 1e-3).map_err(|error| {
            EnvError::new(format!("option \"reset_time\" is {reset} ms: {error}"))
        })?;
        Ok(Self {
            task: Task::new(options)?,
            cost: Cost::new(options)?,
            reset,
        })
    }
}

impl AsyncEnv for Wait {
    fn observation_space(&self) -> Space {
        self.task.observation_space()
    }

    fn action_space(&self) -> Space {
        self.task.action_space()
    }

    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.task.reset(ctx);
        if !self.reset.is_zero() {
            sleep(self.reset).await;
        }
        Ok(())
    }

    async fn step(
        &mut self,
        action: ActionView<'_>,
        rng: &mut EnvRng,
    ) -> Result<Transition, EnvError> {
        if self.task.begin()? == Duty::Hang {
            std::future::pending::<()>().await;
        }
        let time = self.cost.draw(self.task.lane(), rng) * 1e-3;
        sleep(Duration::from_secs_f64(time)).await;
        Ok(self.task.end(action.discrete()))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.task.observe(out)
    }
}
