//! Environments of evaluations.

use super::row::Row;
use super::view::View;
use crate::Error;
use crate::stop::Patience;
use hotloop_env::{
    AsyncVectorEnv, Block, EnvOptions, EnvSpec, Frame, LaneStates, Rows, Spaces, end_flags,
};
use hotloop_rollout::{Limits, Timing};
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How often a wait for environments looks whether the run is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// The environments of evaluations, with what those that wait need: their timers and sockets belong to
/// the runtime in which they were made, and outlive one evaluation.
pub(crate) struct Stage {
    env: String,
    spaces: Spaces,
    block: Block,
    /// Where it is drawn, if it is.
    frame: Frame,
    timing: Timing,
    // Dropped last.
    reactor: Option<Reactor>,
}

impl Stage {
    /// `lanes` environments of these spaces, with nothing begun yet. Those that wait are given up after these
    /// limits, as in training.
    ///
    /// # Errors
    /// If they cannot be made.
    pub(crate) fn new(
        spec: &EnvSpec,
        options: &EnvOptions,
        spaces: &Spaces,
        lanes: usize,
        limits: Limits,
    ) -> Result<Self, Error> {
        let reactor = match spec.waits() {
            true => Some(Reactor::new()?),
            false => None,
        };
        let block = {
            let _entered = reactor.as_ref().map(|reactor| reactor.runtime().enter());
            spec.make(options, lanes)?
        };
        Ok(Self {
            env: spec.id().to_string(),
            spaces: spaces.clone(),
            block,
            frame: Frame::new(),
            timing: Timing::new(limits, lanes),
            reactor,
        })
    }

    pub(super) fn env(&self) -> &str {
        &self.env
    }

    pub(super) fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    pub(super) fn lanes(&self) -> usize {
        self.block.lanes()
    }

    /// Lane 0 after the turn that is in `row`, for those who look on.
    pub(super) fn view(&mut self, episode: usize, row: &Row, states: &LaneStates) -> View<'_> {
        let totals = &states.totals[0];
        let is_over = row.ends[0] & end_flags::EPISODE != 0;
        let (episode_return, steps) = match is_over {
            true => (f64::from(row.returns[0]), row.lengths[0]),
            false => (totals.episode_return, totals.episode_length),
        };
        View {
            block: &mut self.block,
            frame: &mut self.frame,
            env: &self.env,
            episode,
            steps,
            episode_return,
            is_over,
        }
    }

    /// Gives lanes their turns, and waits for those that wait themselves. False if the run was stopped
    /// meanwhile: the turn is not over.
    pub(super) fn turn(
        &mut self,
        row: &mut Row,
        states: &mut LaneStates,
        first: bool,
        patience: &mut Patience,
    ) -> bool {
        let rows = &mut row.rows(&self.spaces, states);
        let timing = &mut self.timing;
        match (&mut self.block, &self.reactor) {
            (Block::Async(block), Some(reactor)) => {
                block.begin(rows);
                timing.begin();
                reactor.runtime().block_on(async {
                    // One of them may never answer.
                    while timeout(LOOK, poll_fn(|cx| poll(&mut **block, timing, cx, rows)))
                        .await
                        .is_err()
                    {
                        if patience.is_over() {
                            return false;
                        }
                    }
                    true
                })
            }
            (Block::Sync(block), _) => {
                if first {
                    block.reset(rows);
                } else {
                    block.step(rows);
                }
                true
            }
            (Block::Async(_), None) => unreachable!("a runtime is made for every block that waits"),
        }
    }
}

/// Goes on with a turn, and gives up lanes whose time is over.
fn poll(
    block: &mut dyn AsyncVectorEnv,
    timing: &mut Timing,
    cx: &mut Context<'_>,
    rows: &mut Rows<'_>,
) -> Poll<()> {
    while block.poll(cx, rows).is_pending() {
        match timing.poll_overdue(cx, |lane| block.busy(lane)) {
            Poll::Ready((lane, why)) => block.give_up(rows, lane, why),
            Poll::Pending => return Poll::Pending,
        }
    }
    Poll::Ready(())
}

/// A runtime whose end waits for nobody: what an environment does on a thread of its own may last.
struct Reactor(Option<Runtime>);

impl Reactor {
    fn new() -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::Thread {
            name: "hotloop-eval",
            reason: error.to_string(),
        })?;
        Ok(Self(Some(runtime)))
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken by `drop` alone")
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
