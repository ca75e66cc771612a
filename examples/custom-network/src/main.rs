//! Trains CartPole with the network of this crate: `cargo run --release`.

fn main() -> Result<(), hotloop::Error> {
    let report = custom_network::trainer(200_000).build()?.train()?;
    let mean = report.return_mean_100.unwrap_or(f64::NAN);
    println!("{} in {} steps", report.env, report.env_steps);
    println!("mean return of the last 100 episodes: {mean:.1}");
    Ok(())
}
