//! A block of lanes whose environments live in one worker process.

use crate::message::{LaneFault, Message};
use crate::orders::Orders;
use crate::recipe::Recipe;
use crate::shared::{At, Shared};
use crate::worker::{Gone, Worker};
use hotloop_env::{AsyncVectorEnv, Cause, EnvError, FaultPhase, Frame, Rows, Spaces};
use std::task::{Context, Poll};

/// A block of Gymnasium environments, stepped one after the other by a worker process.
///
/// When the worker ends, or is ended because a call of one of its environments took too long, that lane
/// fails, and the unfinished episodes of all others are lost with it; the next turn begins in a new worker.
pub struct WorkerBlock {
    recipe: Recipe,
    worker: Option<Worker>,
    stage: Stage,
    orders: Orders,
    /// Pictures for each second of play.
    fps: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Between turns, with a worker that has its environments.
    Idle,
    /// The worker has not made its first environment yet.
    Starting,
    /// A turn is under way.
    Turning,
}

impl WorkerBlock {
    /// A block of `lanes` environments, whose worker is started now and awaited in the first turn.
    ///
    /// # Errors
    /// If the worker cannot be started.
    pub fn new(recipe: Recipe, lanes: usize) -> Result<Self, EnvError> {
        let worker = Worker::start(&recipe, lanes)?;
        Ok(Self {
            orders: Orders::new(&recipe, lanes),
            recipe,
            worker: Some(worker),
            stage: Stage::Starting,
            fps: 30.0,
        })
    }

    /// The number of the worker's process, while there is one.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.worker.as_ref()?.process.id()
    }

    /// What the worker says to be doing.
    fn at(&self) -> At {
        let shared = self.worker.as_ref().and_then(|w| w.shared.as_ref());
        shared.map_or(At::Nowhere, Shared::at)
    }

    /// The lane that the worker is at in this turn, which is to blame for what happens to it.
    fn at_work(&self) -> Option<(usize, FaultPhase)> {
        match self.at() {
            At::Lane(lane, phase) if self.orders.has_work(lane) => Some((lane, phase)),
            _ => None,
        }
    }

    /// Whose time is running: that of the first lane until the worker is at any. Nobody's once it has done
    /// with all of them: the answer comes as soon as it gets to run.
    fn on_the_clock(&self) -> Option<(usize, FaultPhase)> {
        if self.stage == Stage::Idle || self.stage == Stage::Turning && self.at() == At::Done {
            return None;
        }
        self.at_work().or_else(|| {
            let first = self.orders.first()?;
            Some(match self.stage {
                Stage::Turning => (first, self.orders.phase(first)),
                _ => (first, FaultPhase::Build),
            })
        })
    }

    /// Hands the turn over to the worker, which has its environments.
    fn send_turn(&mut self) {
        let Some(worker) = &mut self.worker else {
            return;
        };
        if let Some(shared) = &mut worker.shared {
            self.orders.hand_over(shared);
        }
        self.stage = Stage::Turning;
        // If it has ended, the next poll finds out, and how.
        let _ = worker.send(b"t");
    }

    /// Goes on after a message.
    fn hear(&mut self, message: Message, rows: &mut Rows<'_>) {
        match (self.stage, message) {
            (Stage::Starting, Message::Hello(hello)) => {
                self.fps = hello.fps;
                let spaces = rows.spaces();
                let action = hello.action.with_mask(spaces.action.mask_bytes() > 0);
                let made = Spaces::new(hello.observation.into(), action.into());
                let agreed = match (made, &mut self.worker) {
                    (Ok(made), _) if !made.are_stored_as(spaces) => Err(format!(
                        "it was made with the spaces {} and {}, that of the run has {} and {}",
                        made.observation_space,
                        made.action_space,
                        spaces.observation_space,
                        spaces.action_space
                    )),
                    (Ok(_), Some(worker)) => worker.agree(spaces).map_err(|e| e.to_string()),
                    (Ok(_), None) => return,
                    (Err(error), _) => Err(error.to_string()),
                };
                match agreed {
                    Ok(()) => {
                        self.orders.are_new();
                        self.send_turn();
                    }
                    Err(reason) => self.lose_all(None, Cause::Error, &reason, rows),
                }
            }
            (stage, Message::Refused(reason)) => {
                let reason = match stage {
                    Stage::Turning => format!("its worker is gone: {reason}"),
                    _ => reason,
                };
                self.lose_all(self.at_work(), Cause::Error, &reason, rows);
            }
            (Stage::Turning, Message::Done) => self.conclude(&[], rows),
            (Stage::Turning, Message::Failed(faults)) => self.conclude(&faults, rows),
            (_, other) => {
                let reason = format!("the worker said {other:?} out of turn");
                self.lose_all(None, Cause::Error, &reason, rows);
            }
        }
    }

    /// The turn is over.
    fn conclude(&mut self, faults: &[LaneFault], rows: &mut Rows<'_>) {
        self.stage = Stage::Idle;
        if let Some(shared) = self.worker.as_mut().and_then(|w| w.shared.as_mut()) {
            self.orders.conclude(faults, shared, rows);
        }
    }

    /// The worker is gone, or has to go, and the turn is over: see [`Orders::lose`].
    fn lose_all(
        &mut self,
        culprit: Option<(usize, FaultPhase)>,
        cause: Cause,
        reason: &str,
        rows: &mut Rows<'_>,
    ) {
        let mut worker = self.worker.take();
        let shared = worker.as_mut().and_then(|worker| worker.shared.as_mut());
        self.orders.lose(culprit, cause, reason, shared, rows);
        self.stage = Stage::Idle;
    }

    /// The worker has ended by itself, or can no longer be understood.
    fn bury(&mut self, gone: Gone, rows: &mut Rows<'_>) {
        let culprit = self.at_work();
        let how = self.worker.as_mut().map(|worker| worker.bury(gone));
        let reason = format!("its worker is gone: {}", how.unwrap_or_default());
        self.lose_all(culprit, Cause::Error, &reason, rows);
    }
}

impl AsyncVectorEnv for WorkerBlock {
    fn lanes(&self) -> usize {
        self.orders.lanes()
    }

    fn begin(&mut self, rows: &mut Rows<'_>) {
        let shared = self.worker.as_mut().and_then(|w| w.shared.as_mut());
        self.orders.take(rows, shared);
        if self.orders.first().is_none() {
            // Nobody needs it any more.
            self.worker = None;
            self.stage = Stage::Idle;
        } else if self.worker.is_none() {
            self.stage = Stage::Starting;
        } else if self.stage == Stage::Idle {
            self.send_turn();
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, rows: &mut Rows<'_>) -> Poll<()> {
        while self.stage != Stage::Idle {
            let Some(worker) = &mut self.worker else {
                match Worker::start(&self.recipe, self.orders.lanes()) {
                    Ok(worker) => self.worker = Some(worker),
                    Err(error) => self.lose_all(None, Cause::Error, &error.to_string(), rows),
                }
                continue;
            };
            let Poll::Ready(heard) = worker.poll(cx) else {
                return Poll::Pending;
            };
            match heard {
                Ok(message) => self.hear(message, rows),
                Err(gone) => self.bury(gone, rows),
            }
        }
        Poll::Ready(())
    }

    fn busy(&self, lane: usize) -> Option<FaultPhase> {
        let (at, phase) = self.on_the_clock()?;
        (at == lane).then_some(phase)
    }

    fn give_up(&mut self, rows: &mut Rows<'_>, lane: usize, why: String) {
        if !self.orders.has_work(lane) {
            return;
        }
        let culprit = match (self.at_work(), self.at()) {
            // It has gone on to another since; that one took too long all the same.
            (Some((at, _)), _) if at != lane => Some((lane, self.orders.phase(lane))),
            (None, At::Done) => Some((lane, self.orders.phase(lane))),
            (at_work, _) => at_work,
        };
        let mut reason = why;
        if culprit.is_none() {
            reason += match self.stage {
                Stage::Turning => ", but no lane was at work: its worker has not begun the turn",
                _ => ", but no lane was at work: its worker has not made its first environment",
            };
        }
        let worker = self.worker.as_mut();
        let said = worker.map(Worker::abandon).unwrap_or_default();
        if !said.is_empty() {
            reason = format!("{reason}; its worker was ended, and said:\n{said}");
        }
        self.lose_all(culprit, Cause::Deadline, &reason, rows);
    }

    fn render(&mut self, lane: usize, frame: &mut Frame) -> Result<bool, EnvError> {
        let Some(worker) = self.worker.as_mut().filter(|_| self.stage == Stage::Idle) else {
            return Ok(false);
        };
        let (width, height, rgb) = worker.picture(lane)?;
        frame.resize(width, height).copy_from_slice(&rgb);
        frame.fps = self.fps;
        Ok(true)
    }
}
