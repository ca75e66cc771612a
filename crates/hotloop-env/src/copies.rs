//! A block of lanes made of copies of one [`Env`], each contained: a panic or an error costs one row
//! of one lane, and the environment is rebuilt.

use crate::{
    Env, EnvError, FaultPhase, Rows, SpaceError, Spaces, StateReader, StateWriter, Turn, VectorEnv,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Builds one environment.
pub(crate) type Build<E> = Box<dyn Fn() -> Result<E, EnvError> + Send>;

/// `lanes` copies of an environment as one block.
pub struct Copies<E> {
    envs: Vec<E>,
    build: Build<E>,
    spaces: Spaces,
}

/// The lane at work and what it is doing, known to whoever catches its panic.
struct Progress {
    lane: usize,
    phase: FaultPhase,
}

impl<E: Env> Copies<E> {
    /// Builds `lanes` copies (at least one). The first failure to build one is returned.
    pub fn new(
        lanes: usize,
        build: impl Fn() -> Result<E, EnvError> + Send + 'static,
    ) -> Result<Self, EnvError> {
        let mut envs = Vec::with_capacity(lanes);
        for _ in 0..lanes {
            envs.push(contain(&build).map_err(|(_, message)| EnvError::new(message))?);
        }
        let first = envs.first().ok_or("a block needs at least one lane")?;
        let spaces = Spaces::new(first.observation_space(), first.action_space())
            .map_err(|error: SpaceError| EnvError::new(error.to_string()))?;
        Ok(Self {
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
            phase: FaultPhase::Step,
        };
        while at.lane < lanes {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                while at.lane < lanes {
                    at.phase = FaultPhase::Step;
                    take_turn(&mut self.envs[at.lane], rows, &mut at)?;
                    at.lane += 1;
                }
                Ok::<(), EnvError>(())
            }));
            match caught {
                Ok(Ok(())) => return,
                Ok(Err(error)) => rows.fail(at.lane, at.phase, false, error.to_string()),
                Err(payload) => rows.fail(at.lane, at.phase, true, panic_message(payload.as_ref())),
            }
            self.rebuild(rows, at.lane);
            at.lane += 1;
        }
    }

    /// Replaces a failed lane's environment and starts its next episode. If that fails too, the lane
    /// stays without an observation and tries again at its next turn.
    #[cold]
    fn rebuild(&mut self, rows: &mut Rows<'_>, lane: usize) {
        let env = match contain(&self.build) {
            Ok(env) => env,
            Err((panicked, message)) => {
                return rows.fail(lane, FaultPhase::Build, panicked, message);
            }
        };
        // Dropping the old one may panic as well; it is contained with the reset.
        let outcome = contain(|| {
            self.envs[lane] = env;
            let env = &mut self.envs[lane];
            env.reset(&mut rows.reset_ctx(lane))?;
            env.observe(&mut rows.recover(lane))?;
            write_mask(env, rows, lane)
        });
        if let Err((panicked, message)) = outcome {
            rows.fail(lane, FaultPhase::Reset, panicked, message);
        }
    }
}

/// One lane's turn, from action to observation.
#[inline]
fn take_turn<E: Env>(env: &mut E, rows: &mut Rows<'_>, at: &mut Progress) -> Result<(), EnvError> {
    let i = at.lane;
    match rows.turn(i) {
        Turn::Step(action, rng) => {
            let transition = env.step(action, rng)?;
            if !transition.reward().is_finite() || !transition.raw_reward().is_finite() {
                return Err(not_finite(transition.raw_reward()));
            }
            if transition.end() == crate::End::Terminated {
                at.phase = FaultPhase::Reset;
                // The reset must not see the totals of an episode that is not yet recorded, and the
                // record must not be made for an episode whose successor cannot start: record first.
                rows.proceed(i, transition);
                env.reset(&mut rows.reset_ctx(i))?;
                env.observe(&mut rows.next(i))?;
            } else {
                env.observe(&mut rows.proceed(i, transition))?;
            }
        }
        Turn::Reset(mut ctx) => {
            at.phase = FaultPhase::Reset;
            env.reset(&mut ctx)?;
            env.observe(&mut rows.begin(i))?;
        }
    }
    write_mask(env, rows, i)
}

#[cold]
fn not_finite(reward: f64) -> EnvError {
    EnvError::new(format!("reward {reward} is not finite"))
}

#[inline]
fn write_mask<E: Env>(env: &mut E, rows: &mut Rows<'_>, lane: usize) -> Result<(), EnvError> {
    let masks = &rows.spaces().action;
    if masks.mask_bytes() == 0 {
        return Ok(());
    }
    let mask = rows.mask(lane);
    env.action_mask(mask);
    for leaf in masks.leaves() {
        let Some(mut start) = leaf.mask_offset else {
            continue;
        };
        for choices in leaf.kind.choices() {
            if mask[start..start + choices]
                .iter()
                .all(|&allowed| allowed == 0)
            {
                return Err(EnvError::new(format!(
                    "the action mask allows none of {choices} choices"
                )));
            }
            start += choices;
        }
    }
    Ok(())
}

/// Runs `f`; an error or a panic becomes (whether it panicked, message).
fn contain<T>(f: impl FnOnce() -> Result<T, EnvError>) -> Result<T, (bool, String)> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err((false, error.to_string())),
        Err(payload) => Err((true, panic_message(payload.as_ref()))),
    }
}

fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
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
        self.envs[lane].save(out)
    }

    fn load(&mut self, lane: usize, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.envs[lane].load(state)
    }
}
