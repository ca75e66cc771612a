//! What each lane of a block is told to do in a turn, and what becomes of its rows.

use crate::message::LaneFault;
use crate::recipe::Recipe;
use crate::shared::Shared;
use hotloop_env::{Cause, End, FaultPhase, Rows, Transition, Turn, Wrapping, end_flags};

/// What a lane is told to do, as the worker knows it.
mod command {
    pub(super) const NOTHING: u8 = 0;
    pub(super) const STEP: u8 = 1;
    pub(super) const RESET: u8 = 2;
    /// Make the environment anew, and reset it.
    pub(super) const REBUILD: u8 = 3;
}

/// The orders of one turn.
pub(crate) struct Orders {
    commands: Vec<u8>,
    seeds: Vec<u64>,
    /// Lanes whose environment has to be made anew.
    broken: Vec<bool>,
    wrapping: Wrapping,
    /// Whether episodes rest in their last state for a turn.
    drawn: bool,
}

impl Orders {
    /// Nothing to do for so many lanes.
    pub(crate) fn new(recipe: &Recipe, lanes: usize) -> Self {
        Self {
            commands: vec![command::NOTHING; lanes],
            seeds: vec![0; lanes],
            broken: vec![false; lanes],
            wrapping: recipe.wrapping().clone(),
            drawn: recipe.is_drawn(),
        }
    }

    pub(crate) fn lanes(&self) -> usize {
        self.commands.len()
    }

    /// Takes the orders of a turn from its rows, and actions to where the worker finds them.
    pub(crate) fn take(&mut self, rows: &mut Rows<'_>, mut shared: Option<&mut Shared>) {
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
                    if let Some(shared) = &mut shared {
                        shared.action(lane).copy_from_slice(action.record());
                    }
                    command::STEP
                }
            };
        }
    }

    /// Hands them to the worker.
    pub(crate) fn hand_over(&self, shared: &mut Shared) {
        shared.commands().copy_from_slice(&self.commands);
        shared.seeds().copy_from_slice(&self.seeds);
        shared.clear();
    }

    /// The worker is new, and makes all environments anew without being told.
    pub(crate) fn are_new(&mut self) {
        self.broken.fill(false);
        for command in &mut self.commands {
            if *command == command::REBUILD {
                *command = command::RESET;
            }
        }
    }

    pub(crate) fn has_work(&self, lane: usize) -> bool {
        let command = self.commands.get(lane);
        command.is_some_and(|command| *command != command::NOTHING)
    }

    /// The first lane that has something to do.
    pub(crate) fn first(&self) -> Option<usize> {
        (0..self.commands.len()).find(|lane| self.has_work(*lane))
    }

    /// What a lane that has something to do is to do first.
    pub(crate) fn phase(&self, lane: usize) -> FaultPhase {
        match self.commands[lane] {
            command::STEP => FaultPhase::Step,
            _ => FaultPhase::Reset,
        }
    }

    /// Takes over what came of the turn; these lanes failed in it.
    pub(crate) fn conclude(
        &mut self,
        faults: &[LaneFault],
        shared: &mut Shared,
        rows: &mut Rows<'_>,
    ) {
        let has_masks = rows.spaces().action.mask_bytes() > 0;
        let mut faults = faults.iter().peekable();
        for lane in 0..self.commands.len() {
            if !self.has_work(lane) {
                continue;
            }
            let fault = faults.next_if(|fault| fault.lane == lane);
            self.broken[lane] = fault.is_some();
            if let Some(fault) = fault
                && !fault.stepped
            {
                rows.fail(lane, phase(fault), Cause::Error, fault.said.clone());
                continue;
            }
            if self.commands[lane] != command::STEP {
                rows.begin(lane);
            } else if !self.step(lane, shared, rows) {
                continue;
            }
            if let Some(fault) = fault {
                rows.fail_next(lane, phase(fault), Cause::Error, fault.said.clone());
                continue;
            }
            rows.next(lane)
                .record()
                .copy_from_slice(shared.observation(lane));
            if has_masks {
                rows.mask(lane).copy_from_slice(shared.mask(lane));
                match rows.check_mask(lane) {
                    Err(_) if shared.end(lane) == end_flags::TRUNCATED => {
                        // No choice follows a final observation.
                        rows.mask(lane).fill(1);
                    }
                    Err(error) => {
                        self.fail_after(lane, Cause::Error, error.to_string(), shared, rows)
                    }
                    Ok(()) => {}
                }
            }
        }
        let mut from = 0;
        while let Some((lane, message)) = rows.first_not_finite(from) {
            self.fail_after(lane, Cause::NotFinite, message, shared, rows);
            from = lane + 1;
        }
        self.commands.fill(command::NOTHING);
    }

    /// The outcome of a lane's step; true if an observation is to follow.
    fn step(&mut self, lane: usize, shared: &mut Shared, rows: &mut Rows<'_>) -> bool {
        let flags = shared.end(lane);
        let end = End::from_flags(
            flags & end_flags::TERMINATED != 0,
            flags & end_flags::TRUNCATED != 0,
        );
        let mut transition = self
            .wrapping
            .shape(Transition::new(shared.reward(lane), end));
        if let Err(error) = transition.check_reward() {
            self.broken[lane] = true;
            rows.fail(lane, FaultPhase::Step, Cause::NotFinite, error.to_string());
            return false;
        }
        if !self.drawn {
            rows.proceed(lane, transition);
            return true;
        }
        transition = transition.held();
        let mut place = rows.proceed(lane, transition);
        if end == End::Terminated {
            // Environments need not observe the state in which they ended.
            place.record().fill(0);
            rows.mask(lane).fill(1);
        }
        end != End::Terminated
    }

    /// A failure found in what was observed, after the outcome was given.
    fn fail_after(
        &mut self,
        lane: usize,
        cause: Cause,
        message: String,
        shared: &mut Shared,
        rows: &mut Rows<'_>,
    ) {
        self.broken[lane] = true;
        if self.commands[lane] != command::STEP {
            rows.fail(lane, FaultPhase::Reset, cause, message);
        } else if shared.end(lane) & end_flags::TERMINATED != 0 {
            rows.fail_next(lane, FaultPhase::Reset, cause, message);
        } else {
            rows.retract(lane);
            rows.fail(lane, FaultPhase::Step, cause, message);
        }
    }

    /// The worker is gone, or has to go: the lane that was at work, if it is known, has failed for this reason,
    /// and the others are lost with it; otherwise all have failed.
    pub(crate) fn lose(
        &mut self,
        culprit: Option<(usize, FaultPhase)>,
        cause: Cause,
        reason: &str,
        shared: Option<&mut Shared>,
        rows: &mut Rows<'_>,
    ) {
        if let Some((lane, phase)) = culprit {
            match shared {
                // The step that ended the episode went well; only its successor could not start.
                Some(shared)
                    if self.commands[lane] == command::STEP && phase == FaultPhase::Reset =>
                {
                    let transition = Transition::terminated(shared.reward(lane));
                    let transition = self.wrapping.shape(transition);
                    match transition.check_reward() {
                        Ok(()) => {
                            rows.proceed(lane, transition);
                            rows.fail_next(lane, phase, cause, reason.into());
                        }
                        Err(_) => rows.fail(lane, phase, cause, reason.into()),
                    }
                }
                _ => rows.fail(lane, phase, cause, reason.into()),
            }
            self.commands[lane] = command::NOTHING;
        }
        for lane in 0..self.commands.len() {
            if !self.has_work(lane) {
                continue;
            }
            let phase = self.phase(lane);
            match culprit {
                Some((culprit, _)) => {
                    let culprit = rows.lane(culprit);
                    rows.lose(lane, phase, format!("its worker ended with lane {culprit}"));
                }
                None => rows.fail(lane, phase, cause, reason.into()),
            }
        }
        self.commands.fill(command::NOTHING);
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
