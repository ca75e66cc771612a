//! Training on a simulator that is killed on the way.

use hotloop::prelude::*;
use std::error::Error;
use std::thread;
use std::time::Duration;
use tcp_env::{Simulator, registry};

const STEPS: u64 = 12_000;

#[test]
fn training_goes_on_when_the_simulator_was_killed() -> Result<(), Box<dyn Error>> {
    let first = Simulator::start("127.0.0.1:0")?;
    let address = first.address();
    // Killed in the middle, and started again where it was.
    let keeper = thread::spawn(move || {
        while first.steps() < STEPS / 2 {
            thread::sleep(Duration::from_millis(1));
        }
        drop(first);
        Simulator::start(&address.to_string())
    });

    let dir = tempfile::tempdir()?;
    let mut config = Config::new("Hover-v0");
    config.steps = STEPS;
    config.rollout.envs = 16;
    config.rollout.horizon = 32;
    config.algo.learning_rate = 1e-3;
    let trainer = Trainer::builder()
        .registry(registry(&address.to_string()))
        .config(config)
        .run_dir(dir.path().join("run"));
    let report = trainer.build()?.train()?;

    assert_eq!(report.ended, Ended::Finished);
    // Every lane lost its connection in the middle of an episode; some got another one that was closed before a reply.
    assert!((16..64).contains(&report.faults), "{}", report.faults);
    let second = keeper.join().map_err(|_| "the keeper panicked")??;
    assert!(second.steps() > STEPS / 4, "{} steps", second.steps());
    // Chance is about 20.
    let mean = report.return_mean_100.ok_or("no episode ended")?;
    assert!(mean > 60.0, "mean return {mean}");
    Ok(())
}
