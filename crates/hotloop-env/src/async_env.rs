//! Environments that wait (for a process, a network, a person), and blocks of them.

use crate::{
    ActionView, EnvError, EnvRng, FaultPhase, Frame, ObservationMut, ResetCtx, Rows, Space,
    Transition,
};
use std::future::Future;
use std::task::{Context, Poll};

/// The twin of [`Env`](crate::Env) whose `reset` and `step` may wait without holding a thread.
///
/// They are written as `async fn`. What they wait for is theirs to choose, and any runtime may poll
/// them. A step that blocks a thread holds up every other environment on it.
///
/// ```
/// use hotloop_env::{ActionView, AsyncEnv, EnvError, EnvRng, ObservationMut, ResetCtx, Space, Transition};
///
/// struct Remote { last: f32 }
///
/// # async fn ask(question: f32) -> Result<f32, EnvError> { Ok(question + 1.0) }
/// impl AsyncEnv for Remote {
///     fn observation_space(&self) -> Space { Space::unbounded(&[1]) }
///     fn action_space(&self) -> Space { Space::boxed(-1.0, 1.0, &[1]) }
///     async fn reset(&mut self, _ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
///         self.last = ask(0.0).await?;
///         Ok(())
///     }
///     async fn step(&mut self, action: ActionView<'_>, _rng: &mut EnvRng) -> Result<Transition, EnvError> {
///         self.last = ask(action.continuous()[0]).await?;
///         Ok(Transition::running(self.last as f64))
///     }
///     fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
///         out.write(&[self.last])
///     }
/// }
/// ```
pub trait AsyncEnv: Send {
    /// What `observe` writes. Asked once.
    fn observation_space(&self) -> Space;

    /// What `step` takes. Asked once.
    fn action_space(&self) -> Space;

    /// As [`Env::reset`](crate::Env::reset).
    fn reset(
        &mut self,
        ctx: &mut ResetCtx<'_>,
    ) -> impl Future<Output = Result<(), EnvError>> + Send;

    /// As [`Env::step`](crate::Env::step).
    fn step(
        &mut self,
        action: ActionView<'_>,
        rng: &mut EnvRng,
    ) -> impl Future<Output = Result<Transition, EnvError>> + Send;

    /// As [`Env::observe`](crate::Env::observe): the observation was received with the step.
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError>;

    /// As [`Env::action_mask`](crate::Env::action_mask).
    fn action_mask(&mut self, mask: &mut [u8]) {
        mask.fill(1);
    }

    /// As [`Env::render`](crate::Env::render): what is needed was received with the step.
    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        let _ = frame;
        Ok(false)
    }

    /// As [`Env::glyphs`](crate::Env::glyphs).
    fn glyphs(&self) -> Option<String> {
        None
    }
}

/// A block of lanes whose turns take time: begun, then polled until every lane has had its outcome.
/// Object-safe; [`AsyncCopies`](crate::AsyncCopies) makes one of any [`AsyncEnv`].
///
/// All calls of one turn get a view of the same two rows. Until the turn is over, the random numbers
/// of its lanes belong to the block and must not be read.
pub trait AsyncVectorEnv: Send {
    /// The number of lanes.
    fn lanes(&self) -> usize;

    /// Begins the turn of every lane; for the first one see [`VectorEnv::reset`](crate::VectorEnv::reset).
    fn begin(&mut self, rows: &mut Rows<'_>);

    /// Goes on with the turn, and is ready when every lane has had its outcome.
    fn poll(&mut self, cx: &mut Context<'_>, rows: &mut Rows<'_>) -> Poll<()>;

    /// What `lane` is waiting for: its step, or its reset, which may follow a step in the same turn; none
    /// if it has had its outcome, or while its time does not run because another lane of the block is at work. Between a step and the reset that follows it a block should be pending
    /// once, and wake its task, so that a replay can give up the reset where it was given up.
    fn busy(&self, lane: usize) -> Option<FaultPhase>;

    /// Ends the turn of `lane` now, unless it has had its outcome: it fails with [`Cause::Deadline`](crate::Cause::Deadline) for the
    /// reason `why`, and is rebuilt at its next turn. Others of the block may be lost
    /// with it ([`Cause::Lost`](crate::Cause::Lost)). The lane's random numbers go on at a place that does
    /// not depend on what the call had drawn.
    fn give_up(&mut self, rows: &mut Rows<'_>, lane: usize, why: String);

    /// As [`VectorEnv::render`](crate::VectorEnv::render). Called between turns.
    fn render(&mut self, lane: usize, frame: &mut Frame) -> Result<bool, EnvError> {
        let _ = (lane, frame);
        Ok(false)
    }

    /// As [`VectorEnv::glyphs`](crate::VectorEnv::glyphs).
    fn glyphs(&self, lane: usize) -> Option<String> {
        let _ = lane;
        None
    }
}
