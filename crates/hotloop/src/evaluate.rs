//! Playing whole episodes with a fixed policy, and what they amount to.
//!
//! Every env plays the same number of episodes (one more for the first few, if they do not divide), so
//! that short episodes cannot crowd out long ones. Episode `i` gets the random numbers of (seed, `i`),
//! so that the result does not depend on how many envs share the work. Nothing of the policy changes:
//! normalizer statistics are those that were trained.

use crate::Error;
use crate::stop::Patience;
use hotloop_env::{
    Block, EnvError, EnvOptions, EnvSpec, Fault, LaneStates, Philox, Rows, RowsParts, Spaces,
    Stream, end_flags,
};
use hotloop_learn::{Actor, Choice, Params};
use hotloop_math::Standardizer;
use hotloop_rollout::{Bounding, Clip};
use serde::Serialize;
use std::future::poll_fn;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How often a wait for environments looks whether the run is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How an evaluation is made.
#[derive(Clone, Copy, Debug)]
pub struct EvalPlan {
    /// Episodes to play.
    pub episodes: usize,
    /// Seed of the episodes.
    pub seed: u64,
    /// Whether actions are the likeliest, or drawn.
    pub choice: Choice,
}

/// What the episodes of an evaluation amounted to. Returns are raw and undiscounted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvalReport {
    /// Episodes played.
    pub episodes: usize,
    /// Mean return.
    pub return_mean: f64,
    /// Population standard deviation of the returns.
    pub return_std: f64,
    /// The lowest return.
    pub return_min: f64,
    /// The highest return.
    pub return_max: f64,
    /// Mean length in env steps.
    pub length_mean: f64,
    /// Failures of environments. The episodes that they hit were begun anew, and do not count.
    pub faults: u64,
}

impl EvalReport {
    /// The report of these (return, length) pairs, in order; at least one.
    fn of(episodes: &[(f64, u32)], faults: u64) -> Self {
        let n = episodes.len() as f64;
        let mean = episodes.iter().map(|e| e.0).sum::<f64>() / n;
        let variance = episodes.iter().map(|e| (e.0 - mean).powi(2)).sum::<f64>() / n;
        Self {
            episodes: episodes.len(),
            return_mean: mean,
            return_std: variance.sqrt(),
            return_min: episodes.iter().map(|e| e.0).fold(f64::INFINITY, f64::min),
            return_max: episodes
                .iter()
                .map(|e| e.0)
                .fold(f64::NEG_INFINITY, f64::max),
            length_mean: episodes.iter().map(|e| f64::from(e.1)).sum::<f64>() / n,
            faults,
        }
    }
}

/// The rows that an evaluation needs: one, whose next is itself.
struct Row {
    /// Eight-byte words, so that elements of any type are aligned.
    observations: Vec<u64>,
    actions: Vec<u64>,
    masks: Vec<u8>,
    clip: Clip,
    valid: Vec<u8>,
    next_valid: Vec<u8>,
    rewards: Vec<f32>,
    ends: Vec<u8>,
    returns: Vec<f32>,
    lengths: Vec<u32>,
}

impl Row {
    fn new(spaces: &Spaces, lanes: usize, bounding: Bounding) -> Self {
        let words = |bytes: usize| vec![0u64; (bytes * lanes).div_ceil(8)];
        Self {
            observations: words(spaces.observation.record_bytes()),
            actions: words(spaces.action.record_bytes()),
            clip: Clip::new(&spaces.action, lanes, bounding),
            masks: vec![1; spaces.action.mask_bytes() * lanes],
            valid: vec![0; lanes],
            next_valid: vec![0; lanes],
            rewards: vec![0.0; lanes],
            ends: vec![0; lanes],
            returns: vec![0.0; lanes],
            lengths: vec![0; lanes],
        }
    }

    /// Clips the actions on their way; one that is not a number is the environment's to refuse.
    fn clip(&mut self, spaces: &Spaces) {
        let bytes = self.valid.len() * spaces.action.record_bytes();
        self.clip
            .apply(&bytemuck::cast_slice(&self.actions)[..bytes], |_| {});
    }

    fn rows<'a>(
        &'a mut self,
        spaces: &'a Spaces,
        lanes: &'a mut LaneStates,
        faults: &'a mut Vec<Fault>,
    ) -> Rows<'a> {
        let n = self.valid.len();
        Rows::new(RowsParts {
            spaces,
            lanes,
            actions: self
                .clip
                .clipped(&bytemuck::cast_slice(&self.actions)[..n * spaces.action.record_bytes()]),
            valid: &mut self.valid,
            rewards: &mut self.rewards,
            ends: &mut self.ends,
            episode_returns: &mut self.returns,
            episode_lengths: &mut self.lengths,
            next_observations: &mut bytemuck::cast_slice_mut(&mut self.observations)
                [..n * spaces.observation.record_bytes()],
            next_masks: &mut self.masks,
            next_valid: &mut self.next_valid,
            faults,
        })
    }
}

/// Plays `plan.episodes` episodes on the lanes of `stage`; `None` if the run was stopped and it would
/// take long: then the stage may be within a turn, and is not to be used again.
///
/// # Errors
/// If an environment fails too often, or the network does.
pub(crate) fn play_episodes(
    stage: &mut Stage,
    spaces: &Spaces,
    actor: &mut Actor,
    params: &Params,
    standardizer: Option<&Standardizer>,
    plan: EvalPlan,
    mut patience: Patience,
) -> Result<Option<EvalReport>, Error> {
    let lanes = stage.block.lanes();
    let mut states = LaneStates::new(plan.seed, Stream::Eval, 0, lanes);
    let mut row = Row::new(spaces, lanes, actor.bounding());
    let philox = Philox::new(plan.seed, Stream::EvalAction);
    let (mut faults, mut failures) = (vec![], Failures::new(&stage.env, lanes));
    // Lane l plays episodes l, l + lanes, …
    let mut playing: Vec<usize> = (0..lanes).collect();
    let mut steps = vec![0u64; lanes];
    let mut starts = vec![1u8; lanes];
    let mut finished = vec![None; plan.episodes];
    let mut left = plan.episodes;

    for (lane, &episode) in playing.iter().enumerate() {
        states.restart(lane, episode as u64);
    }
    let rows = &mut row.rows(spaces, &mut states, &mut faults);
    if !stage.turn(rows, true, &mut patience) {
        return Ok(None);
    }
    failures.take(&mut faults)?;
    row.valid.copy_from_slice(&row.next_valid);

    while left > 0 {
        if patience.is_over() {
            return Ok(None);
        }
        let (observations, actions) = (
            bytemuck::cast_slice(&row.observations),
            bytemuck::cast_slice_mut(&mut row.actions),
        );
        actor.play(
            params,
            standardizer,
            plan.choice,
            &philox,
            &observations[..lanes * spaces.observation.record_bytes()],
            &row.masks,
            &starts,
            |lane| (playing[lane] as u64, steps[lane]),
            &mut actions[..lanes * spaces.action.record_bytes()],
        )?;
        row.clip(spaces);
        let rows = &mut row.rows(spaces, &mut states, &mut faults);
        if !stage.turn(rows, false, &mut patience) {
            return Ok(None);
        }
        failures.take(&mut faults)?;
        for lane in 0..lanes {
            // A turn that only started an episode used no decision.
            steps[lane] += u64::from(row.valid[lane]);
            let goes_on = row.valid[lane] != 0 && row.ends[lane] & end_flags::TERMINATED == 0;
            starts[lane] = u8::from(!goes_on);
            if row.ends[lane] & end_flags::EPISODE == 0 {
                continue;
            }
            if let Some(slot) = finished.get_mut(playing[lane]) {
                *slot = Some((f64::from(row.returns[lane]), row.lengths[lane]));
                left -= 1;
            }
            playing[lane] += lanes;
            steps[lane] = 0;
            failures.of_episode[lane] = 0;
            states.restart(lane, playing[lane] as u64);
            // The next episode starts with its own numbers, also where the block has reset already.
            row.next_valid[lane] = 0;
        }
        row.valid.copy_from_slice(&row.next_valid);
    }
    let finished: Vec<_> = finished.into_iter().flatten().collect();
    Ok(Some(EvalReport::of(&finished, failures.total)))
}

/// The environments of evaluations, with what those that wait need: their timers and sockets belong to
/// the runtime in which they were made, and outlive one evaluation.
pub(crate) struct Stage {
    env: String,
    block: Block,
    // Dropped last.
    reactor: Option<Reactor>,
}

impl Stage {
    /// `lanes` environments, with nothing begun yet.
    ///
    /// # Errors
    /// If they cannot be made.
    pub(crate) fn new(spec: &EnvSpec, options: &EnvOptions, lanes: usize) -> Result<Self, Error> {
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
            block,
            reactor,
        })
    }

    /// Gives lanes their turns, and waits for those that wait themselves. False if the run was stopped
    /// meanwhile: the turn is not over.
    fn turn(&mut self, rows: &mut Rows<'_>, first: bool, patience: &mut Patience) -> bool {
        match (&mut self.block, &self.reactor) {
            (Block::Async(block), Some(reactor)) => {
                block.begin(rows);
                reactor.runtime().block_on(async {
                    // One of them may never answer.
                    while timeout(LOOK, poll_fn(|cx| block.poll(cx, rows)))
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

/// Failures of environments in an evaluation. The block has rebuilt what failed and begun its episode
/// anew, with the random numbers that follow; only an episode that goes on failing ends the evaluation.
struct Failures {
    env: String,
    total: u64,
    /// Those of the episode that each lane plays.
    of_episode: Vec<u32>,
}

/// So often may an episode fail before it is given up.
const MOST_FAILURES: u32 = 10;

impl Failures {
    fn new(env: &str, lanes: usize) -> Self {
        Self {
            env: env.to_string(),
            total: 0,
            of_episode: vec![0; lanes],
        }
    }

    fn take(&mut self, faults: &mut Vec<Fault>) -> Result<(), Error> {
        for fault in faults.drain(..) {
            let what = format!("{}, evaluation, {fault}", self.env);
            tracing::warn!("{what}");
            self.total += 1;
            let failures = &mut self.of_episode[fault.lane];
            *failures += 1;
            if *failures > MOST_FAILURES {
                let reason = format!("{what} (failure {failures} of one episode)");
                return Err(EnvError::new(reason).into());
            }
        }
        Ok(())
    }
}
