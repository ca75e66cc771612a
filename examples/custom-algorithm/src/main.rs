//! Trains CartPole with the algorithm of this crate: `cargo run --release`.

fn main() -> Result<(), hotloop::Error> {
    let report = custom_algorithm::trainer(custom_algorithm::config())
        .build()?
        .train()?;
    let mean = report.return_mean_100.unwrap_or(f64::NAN);
    println!(
        "{} learned {} in {} steps",
        report.algo, report.env, report.env_steps
    );
    println!("mean return of the last 100 episodes: {mean:.1}");
    Ok(())
}
