//! Trains on the crate's environment: `cargo run --release --example train`.

use hotloop::prelude::*;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::new("GridWorld-v0");
    config.steps = 200_000;
    config.algo.learning_rate = 1e-3;
    config.algo.gamma = 0.95;

    let report = Trainer::builder()
        .registry(custom_env::registry())
        .config(config)
        .build()?
        .train()?;

    let mean = report.return_mean_100.unwrap_or(f64::NAN);
    println!(
        "{} steps at {:.0} steps/s",
        report.env_steps, report.steps_per_s
    );
    println!("mean return of the last 100 episodes: {mean:.2} (0.98 is about the best)");
    println!("run: {}", report.run_dir.display());
    Ok(())
}
