//! `eval`: plays whole episodes with the policy of a run, and films some of them if asked to.

use crate::args::{EvalArgs, PolicyArgs};
use crate::exit::Failure;
use crate::film::Film;
use crate::{output, signals};
use anyhow::anyhow;
use hotloop::prelude::Registry;
use hotloop::{Agent, Choice, EvalPlan, EvalReport, View, Which};
use hotloop_telemetry::Console;
use std::fs;
use std::ops::ControlFlow;

/// Environments that play side by side. No result depends on it.
const ENVS: usize = 32;

pub(crate) fn eval(args: &EvalArgs, registry: &Registry, console: &Console) -> Result<(), Failure> {
    let film = args.render.as_deref().map(Film::new).transpose();
    let film = film.map_err(Failure::Input)?;
    let unfinished = film.as_ref().map(Film::temporary);
    let clean_up = move || unfinished.iter().try_for_each(fs::remove_file);
    signals::leave(console, clean_up).map_err(Failure::running)?;
    let plan = EvalPlan {
        episodes: args.episodes as usize,
        seed: args.policy.seed,
        choice: choice(&args.policy),
    };
    let mut agent = agent(&args.policy, registry)?;
    let report = match film {
        Some(film) => filmed(&mut agent, plan, film, args.render_episodes as usize)?,
        None => agent.evaluate(plan, ENVS).map_err(Failure::running)?,
    };
    if args.json {
        output::json(&report)
    } else {
        output::put(&summary(args, &report))
    }
}

/// The policy that is asked for.
pub(super) fn agent(args: &PolicyArgs, registry: &Registry) -> Result<Agent, Failure> {
    let which = if args.best { Which::Best } else { Which::Last };
    Agent::load(&args.run, registry, which, &args.device).map_err(Failure::input)
}

/// How its actions are chosen.
pub(super) fn choice(args: &PolicyArgs) -> Choice {
    if args.sampled {
        Choice::Sample
    } else {
        Choice::Greedy
    }
}

/// The evaluation, with its first episodes on film.
fn filmed(
    agent: &mut Agent,
    plan: EvalPlan,
    film: Film,
    episodes: usize,
) -> Result<EvalReport, Failure> {
    let (env, last) = (agent.env().to_string(), episodes.min(plan.episodes) - 1);
    let (mut film, mut outcome) = (Some(film), Ok(()));
    let report = agent.watch(plan, ENVS, episodes, &mut |view| {
        outcome = expose(&mut film, view, &env, last);
        match outcome {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    outcome?;
    let report = report.map_err(Failure::running)?;
    report.ok_or_else(|| Failure::Running(anyhow!("the evaluation was broken off")))
}

/// Puts one state on film, which ends with the last one of episode `last`.
fn expose(
    film: &mut Option<Film>,
    mut view: View<'_>,
    env: &str,
    last: usize,
) -> Result<(), Failure> {
    let (over, episode) = (view.is_over(), view.episode());
    let frame = view.frame().map_err(Failure::running)?;
    let (Some(frame), Some(open)) = (frame, film.as_mut()) else {
        return Err(Failure::Input(anyhow!(
            "{env} cannot be drawn, so there is nothing to film: it does not implement `render`; leave out --render"
        )));
    };
    open.add(frame, over).map_err(Failure::Running)?;
    match film.take_if(|_| over && episode == last) {
        Some(done) => done.finish().map_err(Failure::Running),
        None => Ok(()),
    }
}

fn summary(args: &EvalArgs, report: &EvalReport) -> String {
    let weights = if args.policy.best { "best" } else { "last" };
    let actions = if args.policy.sampled {
        "sampled"
    } else {
        "greedy"
    };
    let mut text = format!(
        "return  {:.2} ± {:.2} (from {:.2} to {:.2})\n\
         length  {:.1}\n\
         over    {} episodes, {weights} weights, {actions} actions, seed {}\n",
        report.return_mean,
        report.return_std,
        report.return_min,
        report.return_max,
        report.length_mean,
        report.episodes,
        args.policy.seed,
    );
    text.push_str(&output::faults("faults  ", report.faults, report.lost));
    if let Some(film) = &args.render {
        text.push_str(&format!("film    {}\n", film.display()));
    }
    text
}
