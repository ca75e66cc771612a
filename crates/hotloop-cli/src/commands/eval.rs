//! `eval`: plays whole episodes with the policy of a run.

use crate::args::EvalArgs;
use crate::exit::Failure;
use crate::{output, signals};
use hotloop::prelude::Registry;
use hotloop::{Agent, Choice, EvalPlan, EvalReport, Which};
use hotloop_telemetry::Console;

/// Environments that play side by side. No result depends on it.
const ENVS: usize = 32;

pub(crate) fn eval(args: &EvalArgs, registry: &Registry, console: &Console) -> Result<(), Failure> {
    signals::leave(console).map_err(Failure::running)?;
    let which = if args.best { Which::Best } else { Which::Last };
    let plan = EvalPlan {
        episodes: args.episodes as usize,
        seed: args.seed,
        choice: if args.sampled {
            Choice::Sample
        } else {
            Choice::Greedy
        },
    };
    let mut agent =
        Agent::load(&args.run, registry, which, &args.device).map_err(Failure::input)?;
    let report = agent.evaluate(plan, ENVS).map_err(Failure::running)?;
    if args.json {
        output::json(&report)
    } else {
        output::put(&summary(args, &report))
    }
}

fn summary(args: &EvalArgs, report: &EvalReport) -> String {
    let weights = if args.best { "best" } else { "last" };
    let actions = if args.sampled { "sampled" } else { "greedy" };
    format!(
        "return  {:.2} ± {:.2} (from {:.2} to {:.2})\n\
         length  {:.1}\n\
         over    {} episodes, {weights} weights, {actions} actions, seed {}\n",
        report.return_mean,
        report.return_std,
        report.return_min,
        report.return_max,
        report.length_mean,
        report.episodes,
        args.seed,
    )
}
