//! How fast MuJoCo itself is: a loop of `mj_step` on each of some threads, with nothing around it.
//!
//!     cargo run --release -p hotloop-mujoco --features mujoco --example bare -- HalfCheetah-v5 [THREADS] [SECONDS]
//!
//! Prints env steps per second: five steps of MuJoCo each, with an action drawn beforehand. An episode ends after 1,000
//! steps, or when an Ant lies or flies, so that states are like those of random play.

use anyhow::{Context as _, Result, bail};
use hotloop_env::{EnvRng, Stream};
use mujoco_rs::wrappers::{MjData, MjModel};
use std::time::{Duration, Instant};

const SUBSTEPS: usize = 5;
const ACTIONS: usize = 1024;

/// The model's file, and the heights between which an episode goes on.
fn model(id: &str) -> Result<(&'static str, std::ops::RangeInclusive<f64>)> {
    Ok(match id {
        "HalfCheetah-v5" => (
            include_str!(concat!(env!("HOTLOOP_MUJOCO"), "/models/half_cheetah.xml")),
            f64::NEG_INFINITY..=f64::INFINITY,
        ),
        "Ant-v5" => (
            include_str!(concat!(env!("HOTLOOP_MUJOCO"), "/models/ant.xml")),
            0.2..=1.0,
        ),
        _ => bail!("{id:?} is neither HalfCheetah-v5 nor Ant-v5"),
    })
}

/// Steps until the time is over and returns how often.
fn run(model: &MjModel, heights: &std::ops::RangeInclusive<f64>, lane: u64, time: Duration) -> u64 {
    let mut data = MjData::new(model);
    let controls = data.ctrl().len();
    let mut rng = EnvRng::new(1, lane, Stream::Env);
    let actions: Vec<f64> = (0..ACTIONS * controls)
        .map(|_| rng.range(-1.0, 1.0))
        .collect();
    let (start, mut steps, mut age) = (Instant::now(), 0, 0);
    while steps % 64 != 0 || start.elapsed() < time {
        let at = steps as usize % ACTIONS * controls;
        data.ctrl_mut().copy_from_slice(&actions[at..at + controls]);
        for _ in 0..SUBSTEPS {
            data.step();
        }
        steps += 1;
        age += 1;
        if age == 1000 || !heights.contains(&data.qpos()[2]) {
            data.reset();
            data.forward();
            age = 0;
        }
    }
    steps
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let id = arguments.next().context("name an environment")?;
    let threads: u64 = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(4.0), |text| text.parse())?;
    let (xml, heights) = model(&id)?;
    let model = MjModel::from_xml_string(xml)?;
    let measure = |time: Duration| -> Result<u64> {
        std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..threads)
                .map(|lane| {
                    scope.spawn({
                        let (model, heights) = (&model, &heights);
                        move || run(model, heights, lane, time)
                    })
                })
                .collect();
            let counts = lanes.into_iter().map(|lane| lane.join());
            counts
                .sum::<Result<u64, _>>()
                .ok()
                .context("a thread panicked")
        })
    };
    measure(Duration::from_secs(1))?;
    let time = Duration::from_secs_f64(seconds);
    let rate = measure(time)? as f64 / time.as_secs_f64();
    println!("bare {id} threads={threads} steps_per_s={rate:.0}");
    Ok(())
}
