//! Playing whole episodes with a fixed policy, and what they amount to.
//!
//! Every env plays the same number of episodes (one more for the first few, if they do not divide), so
//! that short episodes cannot crowd out long ones. Episode `i` gets the random numbers of (seed, `i`),
//! so that the result does not depend on how many envs share the work. Nothing of the policy changes:
//! normalizer statistics are those that were trained.

mod failures;
mod frames;
mod row;
mod stage;
mod tally;
mod view;

pub(crate) use stage::Stage;
pub use view::View;

use crate::Error;
use crate::stop::Patience;
use failures::Failures;
use hotloop_env::{LaneStates, Philox, Stream};
use hotloop_learn::{Actor, Choice, Learner};
use row::Row;
use serde::Serialize;
use std::ops::{ControlFlow, Range};
use tally::Tally;

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
    /// Failures of environments, what was lost included. The episodes that they hit were begun anew, and do not
    /// count.
    pub faults: u64,
    /// How many of them were no failures of their own: episodes lost with a neighbour whose process ended.
    pub lost: u64,
}

impl EvalReport {
    /// The report of what was played; at least one episode.
    pub(crate) fn of(played: &Played) -> Self {
        let episodes = &played.episodes;
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
            faults: played.faults,
            lost: played.lost,
        }
    }
}

/// Episodes that were played.
#[derive(Default)]
pub(crate) struct Played {
    /// Return and length of each, in order.
    pub(crate) episodes: Vec<(f64, u32)>,
    /// Failures of environments on the way.
    pub(crate) faults: u64,
    /// How many of them were lost with another.
    pub(crate) lost: u64,
}

/// Who looks on while lane 0 plays: called with every state, and says whether to go on.
pub(crate) type Watch<'a> = dyn FnMut(View<'_>) -> ControlFlow<()> + Send + 'a;

/// Plays these episodes of `plan` on the lanes of `stage`, with the present weights and statistics of `learner`,
/// which do not change. `None` if `watch` broke off, or if the run was stopped and it would take long: then the stage may
/// be within a turn, and is not to be used again.
///
/// # Errors
/// If an environment fails too often, or the network does.
pub(crate) fn play_episodes(
    stage: &mut Stage,
    learner: &Learner,
    plan: EvalPlan,
    episodes: Range<usize>,
    mut patience: Patience,
    mut watch: Option<&mut Watch<'_>>,
) -> Result<Option<Played>, Error> {
    let mut actor = Actor::new(learner.net().clone(), stage.spaces());
    let philox = Philox::new(plan.seed, Stream::EvalAction);
    let mut row = Row::new(stage.spaces(), stage.lanes(), actor.bounding());
    let mut states = LaneStates::new(plan.seed, Stream::Eval, 0, stage.lanes());
    let mut tally = Tally::new(episodes, &mut states, stage.lanes());
    let mut failures = Failures::new(stage.env(), stage.lanes());
    let mut first = true;
    loop {
        if !stage.turn(&mut row, &mut states, first, &mut patience) {
            return Ok(None);
        }
        first = false;
        failures.take(&mut row.faults)?;
        if let Some(watch) = &mut watch
            && row.has_state(0)
            && watch(stage.view(tally.playing[0], &row, &states)).is_break()
        {
            return Ok(None);
        }
        tally.count(&mut row, &mut states, &mut failures);
        row.frames.start(&tally.starts);
        if let Some(episodes) = tally.all_finished() {
            return Ok(Some(Played {
                episodes,
                faults: failures.total,
                lost: failures.lost,
            }));
        }
        if patience.is_over() {
            return Ok(None);
        }
        let (observations, masks, actions) = row.decision(stage.spaces());
        actor.play(
            learner.params(),
            learner.normalizer().standardizer(),
            plan.choice,
            &philox,
            observations,
            masks,
            &tally.starts,
            |lane| (tally.playing[lane] as u64, tally.steps[lane]),
            actions,
        )?;
        row.clip(stage.spaces());
    }
}
