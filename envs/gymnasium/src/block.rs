//! A block of lanes whose environments live in one worker process.

use crate::message::{self, LaneFault, Message};
use crate::recipe::Recipe;
use crate::worker::{Gone, Worker};
use hotloop_env::{
    AsyncVectorEnv, Cause, End, EnvError, FaultPhase, Frame, Rows, Spaces, Transition, Turn,
};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// What a lane is told to do, as the worker knows it.
mod command {
    pub(super) const NOTHING: u8 = 0;
    pub(super) const STEP: u8 = 1;
    pub(super) const RESET: u8 = 2;
    /// Make the environment anew, and reset it.
    pub(super) const REBUILD: u8 = 3;
}

/// So long a picture may take.
const PICTURE: Duration = Duration::from_secs(30);

/// A block of Gymnasium environments, stepped one after the other by a worker process.
///
/// When the worker ends, or is ended because a call of one of its environments took too long, that lane
/// fails, and the unfinished episodes of all others are lost with it; the next turn begins in a new worker.
pub struct WorkerBlock {
    recipe: Recipe,
    worker: Option<Worker>,
    stage: Stage,
    /// What each lane does in this turn.
    commands: Vec<u8>,
    seeds: Vec<u64>,
    /// Lanes whose environment has to be made anew.
    broken: Vec<bool>,
    /// Pictures for each second of play.
    fps: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Between turns, with a worker that has its environments.
    Idle,
    /// The worker has said nothing yet.
    Starting,
    /// The layout is agreed on; the worker makes the other environments.
    Building,
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
            recipe,
            worker: Some(worker),
            stage: Stage::Starting,
            commands: vec![command::NOTHING; lanes],
            seeds: vec![0; lanes],
            broken: vec![false; lanes],
            fps: 30.0,
        })
    }

    /// The number of the worker's process, while there is one.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.worker.as_ref()?.process.id()
    }

    /// The lane that the worker is at, and what it does there.
    fn at(&self) -> Option<(usize, FaultPhase)> {
        let first = self.commands.iter().position(|c| *c != command::NOTHING)?;
        let worker = self.worker.as_ref()?;
        let told = worker.shared.as_ref().and_then(|shared| shared.at());
        match (self.stage, told) {
            (Stage::Idle, _) => None,
            // Lanes that are out of use have nothing to do, but are built with the others.
            (_, Some((lane, phase))) if self.has_work(lane) => Some((lane, phase)),
            (Stage::Turning, _) if self.commands[first] == command::STEP => {
                Some((first, FaultPhase::Step))
            }
            (Stage::Turning, _) => Some((first, FaultPhase::Reset)),
            _ => Some((first, FaultPhase::Build)),
        }
    }

    /// Hands the turn over to the worker, which has its environments.
    fn send_turn(&mut self) {
        let Some(worker) = &mut self.worker else {
            return;
        };
        if let Some(shared) = &mut worker.shared {
            shared.commands().copy_from_slice(&self.commands);
            shared.seeds().copy_from_slice(&self.seeds);
        }
        self.stage = Stage::Turning;
        // If it has ended, the next poll finds out, and how.
        let _ = worker.send(b"t");
    }

    /// Goes on after a message; true when the turn is over.
    fn hear(&mut self, message: Message, rows: &mut Rows<'_>) -> bool {
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
                    (Ok(_), None) => return true,
                    (Err(error), _) => Err(error.to_string()),
                };
                self.stage = Stage::Building;
                match agreed {
                    Ok(()) => false,
                    Err(reason) => self.lose_all(None, Cause::Error, reason, rows),
                }
            }
            (Stage::Building, Message::Ready) => {
                self.broken.fill(false);
                self.send_turn();
                false
            }
            (Stage::Starting | Stage::Building, Message::Refused(reason)) => {
                let at = match self.stage {
                    Stage::Building => self.at_work(),
                    _ => None,
                };
                self.lose_all(at, Cause::Error, reason, rows)
            }
            (Stage::Turning, Message::Done) => self.finish(&[], rows),
            (Stage::Turning, Message::Failed(faults)) => {
                match message::read::<Vec<LaneFault>>(faults.as_bytes()) {
                    Ok(faults) => self.finish(&faults, rows),
                    Err(error) => self.lose_all(None, Cause::Error, error.to_string(), rows),
                }
            }
            (_, other) => {
                let reason = format!("the worker said {other:?} out of turn");
                self.lose_all(None, Cause::Error, reason, rows)
            }
        }
    }

    /// Takes over what came of a turn.
    fn finish(&mut self, faults: &[LaneFault], rows: &mut Rows<'_>) -> bool {
        self.stage = Stage::Idle;
        let Some(shared) = self.worker.as_mut().and_then(|w| w.shared.as_mut()) else {
            return true;
        };
        let has_masks = rows.spaces().action.mask_bytes() > 0;
        let mut faults = faults.iter().peekable();
        for lane in 0..self.commands.len() {
            let command = self.commands[lane];
            if command == command::NOTHING {
                continue;
            }
            let fault = faults.next_if(|fault| fault.lane == lane);
            self.broken[lane] = fault.is_some();
            let mut held = false;
            let place = match fault {
                Some(fault) if !fault.stepped => {
                    rows.fail(lane, phase(fault), Cause::Error, fault.said.clone());
                    continue;
                }
                _ if command == command::STEP => {
                    let (reward, flags) = (shared.reward(lane), shared.end(lane));
                    let end = End::from_flags(flags & 1 != 0, flags & 2 != 0);
                    let mut transition = self.recipe.wrapping().shape(Transition::new(reward, end));
                    if let Err(error) = transition.check_reward() {
                        self.broken[lane] = true;
                        let said = error.to_string();
                        rows.fail(lane, FaultPhase::Step, Cause::NotFinite, said);
                        continue;
                    }
                    if self.recipe.is_drawn() {
                        held = end == End::Terminated;
                        transition = transition.held();
                    }
                    rows.proceed(lane, transition)
                }
                _ => rows.begin(lane),
            };
            let mut place = place;
            if held {
                // Environments need not observe the state in which they ended.
                place.record().fill(0);
                rows.mask(lane).fill(1);
                continue;
            }
            if let Some(fault) = fault {
                rows.fail_next(lane, phase(fault), Cause::Error, fault.said.clone());
                continue;
            }
            place.record().copy_from_slice(shared.observation(lane));
            if has_masks {
                rows.mask(lane).copy_from_slice(shared.mask(lane));
                if let Err(error) = rows.check_mask(lane) {
                    self.broken[lane] = true;
                    fail_after(
                        rows,
                        lane,
                        command,
                        shared.end(lane),
                        Cause::Error,
                        error.to_string(),
                    );
                }
            }
        }
        let mut from = 0;
        while let Some((lane, message)) = rows.first_not_finite(from) {
            self.broken[lane] = true;
            let (command, flags) = (self.commands[lane], shared.end(lane));
            fail_after(rows, lane, command, flags, Cause::NotFinite, message);
            from = lane + 1;
        }
        self.commands.fill(command::NOTHING);
        true
    }

    /// The worker is gone, or has to go: the lane that was at work, if it is known, has failed for this reason,
    /// and the others are lost with it; otherwise all have failed.
    fn lose_all(
        &mut self,
        at: Option<(usize, FaultPhase)>,
        cause: Cause,
        reason: String,
        rows: &mut Rows<'_>,
    ) -> bool {
        let Self {
            commands,
            worker,
            recipe,
            ..
        } = self;
        if let Some((lane, phase)) = at {
            let shared = worker.as_mut().and_then(|worker| worker.shared.as_mut());
            match shared {
                // The step that ended the episode went well; only its successor could not start.
                Some(shared) if commands[lane] == command::STEP && phase == FaultPhase::Reset => {
                    let transition = Transition::terminated(shared.reward(lane));
                    let transition = recipe.wrapping().shape(transition);
                    match transition.check_reward() {
                        Ok(()) => {
                            rows.proceed(lane, transition);
                            rows.fail_next(lane, phase, cause, reason.clone());
                        }
                        Err(_) => rows.fail(lane, phase, cause, reason.clone()),
                    }
                }
                _ => rows.fail(lane, phase, cause, reason.clone()),
            }
            commands[lane] = command::NOTHING;
        }
        for (lane, command) in commands.iter_mut().enumerate() {
            let phase = match std::mem::replace(command, command::NOTHING) {
                command::NOTHING => continue,
                command::STEP => FaultPhase::Step,
                _ => FaultPhase::Reset,
            };
            match at {
                Some((culprit, _)) => {
                    let culprit = rows.lane(culprit);
                    rows.lose(lane, phase, format!("its worker ended with lane {culprit}"));
                }
                None => rows.fail(lane, phase, cause, reason.clone()),
            }
        }
        self.worker = None;
        self.stage = Stage::Idle;
        true
    }

    /// The worker has ended by itself, or can no longer be understood.
    fn bury(&mut self, gone: Gone, rows: &mut Rows<'_>) -> bool {
        let at = self.at_work();
        let how = self.worker.as_mut().map(|worker| worker.bury(gone));
        let reason = format!("its worker is gone: {}", how.unwrap_or_default());
        self.lose_all(at, Cause::Error, reason, rows)
    }

    /// The lane that the worker itself says to be at, if it has something to do.
    fn at_work(&self) -> Option<(usize, FaultPhase)> {
        let at = self.worker.as_ref()?.shared.as_ref()?.at();
        at.filter(|(lane, _)| self.has_work(*lane))
    }

    fn has_work(&self, lane: usize) -> bool {
        let command = self.commands.get(lane);
        command.is_some_and(|command| *command != command::NOTHING)
    }
}

impl AsyncVectorEnv for WorkerBlock {
    fn lanes(&self) -> usize {
        self.commands.len()
    }

    fn begin(&mut self, rows: &mut Rows<'_>) {
        for lane in 0..self.commands.len() {
            if rows.is_set_aside(lane) {
                rows.skip(lane);
                self.commands[lane] = command::NOTHING;
                continue;
            }
            let next = rows.seed_after(lane);
            self.commands[lane] = match rows.turn(lane) {
                Turn::Reset(ctx) => {
                    self.seeds[lane] = seed(ctx.seed());
                    match self.broken[lane] {
                        true => command::REBUILD,
                        false => command::RESET,
                    }
                }
                Turn::Step(action, _) => {
                    self.seeds[lane] = seed(next);
                    let worker = self.worker.as_mut();
                    if let Some(shared) = worker.and_then(|worker| worker.shared.as_mut()) {
                        shared.action(lane).copy_from_slice(action.record());
                    }
                    command::STEP
                }
            };
        }
        if self.commands.iter().all(|c| *c == command::NOTHING) {
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
                match Worker::start(&self.recipe, self.commands.len()) {
                    Ok(worker) => self.worker = Some(worker),
                    Err(error) => {
                        self.lose_all(None, Cause::Error, error.to_string(), rows);
                    }
                }
                continue;
            };
            let Poll::Ready(heard) = worker.poll(cx) else {
                return Poll::Pending;
            };
            match heard {
                Ok(message) => self.hear(message, rows),
                Err(gone) => self.bury(gone, rows),
            };
        }
        Poll::Ready(())
    }

    fn busy(&self, lane: usize) -> Option<FaultPhase> {
        let (at, phase) = self.at()?;
        (at == lane).then_some(phase)
    }

    fn give_up(&mut self, rows: &mut Rows<'_>, lane: usize, why: String) {
        if self.commands[lane] == command::NOTHING {
            return;
        }
        let phase = self
            .at()
            .filter(|(at, _)| *at == lane)
            .map(|(_, phase)| phase);
        let was = match self.commands[lane] {
            command::STEP => FaultPhase::Step,
            _ => FaultPhase::Reset,
        };
        let worker = self.worker.as_mut();
        let reason = match worker.map(Worker::abandon).unwrap_or_default() {
            said if said.is_empty() => why,
            said => format!("{why}; its worker was ended, and said:\n{said}"),
        };
        let at = Some((lane, phase.unwrap_or(was)));
        self.lose_all(at, Cause::Deadline, reason, rows);
    }

    fn render(&mut self, lane: usize, frame: &mut Frame) -> Result<bool, EnvError> {
        let Some(worker) = self.worker.as_mut().filter(|_| self.stage == Stage::Idle) else {
            return Ok(false);
        };
        let index = u32::try_from(lane).unwrap_or(u32::MAX).to_le_bytes();
        worker.send(&[b"d", index.as_slice()].concat())?;
        match worker.wait(Some(Instant::now() + PICTURE)) {
            Ok(Some(Message::Picture(width, height, rgb))) => {
                frame.resize(width, height).copy_from_slice(&rgb);
                frame.fps = self.fps;
                Ok(true)
            }
            Ok(Some(Message::Failed(said))) => {
                Err(EnvError::new(message::read::<String>(said.as_bytes())?))
            }
            // What has become of the worker the next turn finds out.
            other => Err(EnvError::new(format!("no picture came: {other:?}"))),
        }
    }
}

/// A seed that every simulator takes: 31 bits.
fn seed(seed: u64) -> u64 {
    seed >> 33
}

fn phase(fault: &LaneFault) -> FaultPhase {
    match fault.phase {
        1 => FaultPhase::Build,
        2 => FaultPhase::Reset,
        _ => FaultPhase::Step,
    }
}

/// A failure found in what was observed, after the outcome was given.
fn fail_after(
    rows: &mut Rows<'_>,
    lane: usize,
    command: u8,
    flags: u8,
    cause: Cause,
    message: String,
) {
    if command != command::STEP {
        rows.fail(lane, FaultPhase::Reset, cause, message);
    } else if flags & 1 != 0 {
        rows.fail_next(lane, FaultPhase::Reset, cause, message);
    } else {
        rows.retract(lane);
        rows.fail(lane, FaultPhase::Step, cause, message);
    }
}
