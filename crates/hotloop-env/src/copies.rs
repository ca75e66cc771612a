//! A block of lanes made of copies of one [`Env`], each contained: a panic or an error costs one row
//! of one lane, and the environment is rebuilt.

use crate::contain::{Build, Failure, check_mask, check_reward, contain};
use crate::{
    Cause, End, Env, EnvError, FaultPhase, Frame, Rows, Spaces, StateReader, StateWriter, Turn,
    VectorEnv,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `lanes` copies of an environment as one block.
pub struct Copies<E> {
    envs: Vec<E>,
    /// Lanes whose environment failed and could not be replaced yet. It is not used again.
    broken: Vec<bool>,
    build: Build<E>,
    spaces: Spaces,
}

/// The lane at work and what it is doing, known to whoever catches its panic.
struct Progress {
    lane: usize,
    doing: Doing,
}

#[derive(Clone, Copy)]
enum Doing {
    /// The step.
    Step,
    /// What follows a step that was made and counted.
    AfterStep,
    /// The reset that was due, and what follows it.
    Reset,
    /// The reset after a step that was made and terminated the episode, and what follows it.
    Restart,
}

impl<E: Env> Copies<E> {
    /// Builds `lanes` copies (at least one). The first failure to build one is returned.
    pub fn new(
        lanes: usize,
        build: impl Fn() -> Result<E, EnvError> + Send + 'static,
    ) -> Result<Self, EnvError> {
        let mut envs = Vec::with_capacity(lanes);
        for _ in 0..lanes {
            envs.push(contain(&build).map_err(Failure::into_error)?);
        }
        let first = envs.first().ok_or("a block needs at least one lane")?;
        let spaces = Spaces::new(first.observation_space(), first.action_space())?;
        Ok(Self {
            broken: vec![false; envs.len()],
            envs,
            build: Box::new(build),
            spaces,
        })
    }

    /// The spaces of the environment.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Gives every lane its turn. One `catch_unwind` covers many calls, which costs nothing while no
    /// lane panics; after a panic the loop goes on with the next lane.
    fn run(&mut self, rows: &mut Rows<'_>) {
        let lanes = self.envs.len();
        let mut at = Progress {
            lane: 0,
            doing: Doing::Step,
        };
        while at.lane < lanes {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                while at.lane < lanes {
                    if rows.reset_due(at.lane) && self.has_no_turn(rows, at.lane) {
                        self.revive(rows, at.lane);
                    } else {
                        take_turn(&mut self.envs[at.lane], rows, &mut at)?;
                    }
                    at.lane += 1;
                }
                Ok::<(), Failure>(())
            }));
            match caught {
                Ok(Ok(())) => break,
                Ok(Err(failure)) => self.lose(rows, &at, failure),
                Err(payload) => self.lose(rows, &at, Failure::panic(payload.as_ref())),
            }
            at.lane += 1;
        }
        // One pass over the block's row, which is in the cache, costs less than a look at each lane.
        let mut from = 0;
        while let Some((lane, message)) = rows.first_not_finite(from) {
            let doing = if rows.reset_due(lane) {
                Doing::Reset
            } else if rows.terminated(lane) {
                Doing::Restart
            } else {
                Doing::AfterStep
            };
            let failure = Failure::new(Cause::NotFinite, message);
            self.lose(rows, &Progress { lane, doing }, failure);
            from = lane + 1;
        }
    }

    /// Whether a lane that is due for a reset is out of use, or has no environment that could be used.
    fn has_no_turn(&self, rows: &Rows<'_>, lane: usize) -> bool {
        self.broken[lane] || rows.is_set_aside(lane)
    }

    /// The turn of such a lane.
    #[cold]
    fn revive(&mut self, rows: &mut Rows<'_>, lane: usize) {
        if rows.is_set_aside(lane) {
            rows.skip(lane);
        } else {
            rows.begin(lane);
            self.rebuild(rows, lane);
        }
    }

    /// Records the failure of the lane at work and rebuilds it.
    #[cold]
    fn lose(&mut self, rows: &mut Rows<'_>, at: &Progress, failure: Failure) {
        let lane = at.lane;
        let (cause, message) = failure.into_parts();
        match at.doing {
            Doing::Step => rows.fail(lane, FaultPhase::Step, cause, message),
            Doing::AfterStep => {
                rows.retract(lane);
                rows.fail(lane, FaultPhase::Step, cause, message);
            }
            Doing::Reset => rows.fail(lane, FaultPhase::Reset, cause, message),
            // The step that ended the episode went well; only its successor could not start.
            Doing::Restart => rows.fail_next(lane, FaultPhase::Reset, cause, message),
        }
        self.rebuild(rows, lane);
    }

    /// Replaces a failed lane's environment and starts its next episode. If that fails too, the lane
    /// stays without an observation and tries again at its next turn.
    #[cold]
    fn rebuild(&mut self, rows: &mut Rows<'_>, lane: usize) {
        self.broken[lane] = true;
        rows.at_work(lane, FaultPhase::Build);
        let env = match contain(&self.build) {
            Ok(env) => env,
            Err(failure) => {
                let (cause, message) = failure.into_parts();
                return rows.fail_next(lane, FaultPhase::Build, cause, message);
            }
        };
        // Dropping the old one may panic as well; it is contained with the reset.
        let outcome = contain(|| -> Result<(), Failure> {
            self.envs[lane] = env;
            let env = &mut self.envs[lane];
            env.reset(&mut rows.reset_ctx(lane))?;
            observe(env, rows, lane)?;
            rows.check_finite(lane).map_err(Failure::not_finite)?;
            rows.recover(lane);
            Ok(())
        });
        match outcome {
            Ok(()) => self.broken[lane] = false,
            Err(failure) => {
                let (cause, message) = failure.into_parts();
                rows.fail_next(lane, FaultPhase::Reset, cause, message);
            }
        }
    }
}

/// One lane's turn, from action to observation.
#[inline]
fn take_turn<E: Env>(env: &mut E, rows: &mut Rows<'_>, at: &mut Progress) -> Result<(), Failure> {
    let i = at.lane;
    match rows.turn(i) {
        Turn::Step(action, rng) => {
            at.doing = Doing::Step;
            let transition = env.step(action, rng)?;
            check_reward(&transition)?;
            rows.proceed(i, transition);
            at.doing = Doing::AfterStep;
            if transition.end() == End::Terminated {
                at.doing = Doing::Restart;
                env.reset(&mut rows.reset_ctx(i))?;
            }
        }
        Turn::Reset(mut ctx) => {
            at.doing = Doing::Reset;
            env.reset(&mut ctx)?;
            rows.begin(i);
        }
    }
    Ok(observe(env, rows, i)?)
}

/// Writes the observation that follows a lane's turn, and the mask beside it.
#[inline]
fn observe<E: Env>(env: &mut E, rows: &mut Rows<'_>, lane: usize) -> Result<(), EnvError> {
    env.observe(&mut rows.next(lane))?;
    let masks = &rows.spaces().action;
    if masks.mask_bytes() == 0 {
        return Ok(());
    }
    let mask = rows.mask(lane);
    env.action_mask(mask);
    check_mask(masks, mask)
}

impl<E: Env> VectorEnv for Copies<E> {
    fn lanes(&self) -> usize {
        self.envs.len()
    }

    fn reset(&mut self, rows: &mut Rows<'_>) {
        self.run(rows);
    }

    fn step(&mut self, rows: &mut Rows<'_>) {
        self.run(rows);
    }

    fn save(&self, lane: usize, out: &mut StateWriter) -> bool {
        !self.broken[lane] && self.envs[lane].save(out)
    }

    fn load(&mut self, lane: usize, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.envs[lane].load(state)
    }

    fn render(&mut self, lane: usize, frame: &mut Frame) -> Result<bool, EnvError> {
        let env = &mut self.envs[lane];
        contain(|| env.render(frame)).map_err(Failure::into_error)
    }

    fn glyphs(&self, lane: usize) -> Option<String> {
        self.envs[lane].glyphs()
    }
}
