//! Training on the simulator is worth it, and does the same again.

use hotloop::env::{ActionBuf, Spaces, Stream};
use hotloop::prelude::*;
use hotloop::{Agent, Choice, EvalPlan, EvalReport, TrainReport, Which};
use rapier_env::{BallOnBeam, registry};
use std::error::Error;

const ID: &str = "BallOnBeam-v0";

/// The mean return of so many episodes of chance.
fn chance(episodes: u64) -> Result<f64, EnvError> {
    let mut env = BallOnBeam::new();
    let spaces = Spaces::new(env.observation_space(), env.action_space())?;
    let mut rng = EnvRng::new(1, 0, Stream::Env);
    let mut sum = 0.0;
    for episode in 0..episodes {
        env.reset(&mut ResetCtx::new(&mut rng, 1, 0, episode))?;
        for _ in 0..200 {
            let action = ActionBuf::new(&spaces.action).with_index(rng.below(3) as usize);
            let step = env.step(action.view(), &mut rng)?;
            sum += step.reward();
            if step.end().is_over() {
                break;
            }
        }
    }
    Ok(sum / episodes as f64)
}

fn train(steps: u64) -> Result<(TrainReport, EvalReport), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let run = dir.path().join("run");
    let mut config = Config::new(ID);
    config.steps = steps;
    config.rollout.envs = 16;
    config.rollout.horizon = 64;
    config.algo.learning_rate = 1e-3;
    let trainer = Trainer::builder().registry(registry()).config(config);
    let report = trainer.run_dir(&run).build()?.train()?;
    let plan = EvalPlan {
        episodes: 20,
        seed: 1,
        choice: Choice::Greedy,
    };
    let played = Agent::load(&run, &registry(), Which::Last, "cpu")?.evaluate(plan, 4)?;
    Ok((report, played))
}

#[test]
fn a_short_training_beats_chance() -> Result<(), Box<dyn Error>> {
    let chance = chance(100)?;
    let (_, played) = train(30_000)?;
    // At most 200.
    assert!(
        played.return_mean > 2.0 * chance,
        "{} against {chance} of chance",
        played.return_mean
    );
    Ok(())
}

#[test]
fn the_simulator_is_deterministic() -> Result<(), Box<dyn Error>> {
    let (first, second) = (train(4_096)?, train(4_096)?);
    assert_eq!(first.0.weights_hash, second.0.weights_hash);
    assert_eq!(first.1, second.1);
    Ok(())
}
