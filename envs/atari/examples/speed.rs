//! How much of a bare loop over the emulator is left to an environment: emulated frames without a look at the screen,
//! against steps with observations, on one thread and on several, by turns.
//!
//!     cargo run --release -p hotloop-atari --features atari --example speed -- pong 2 5
//!
//! for two threads and five rounds; prints env steps (four frames) per second of all threads together, counting the time
//! that threads ran.

use hotloop_atari::{Atari, Console, Rules};
use hotloop_env::{
    ActionBuf, Env, EnvError, EnvRng, Layout, ObservationBuf, ResetCtx, Space, Stream,
};
use std::path::Path;
use std::time::{Duration, Instant};

const SLICE: Duration = Duration::from_secs(1);
const SKIP: u32 = 4;

/// How long this thread ran so far, where the system tells, so that other programs count less; or the time of day.
fn on_core(start: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// Steps per second that one thread runs, as `step` counts them.
fn count(mut step: impl FnMut() -> Result<(), EnvError>) -> Result<f64, EnvError> {
    let start = Instant::now();
    let (before, mut steps) = (on_core(start), 0u32);
    while start.elapsed() < SLICE {
        for _ in 0..16 {
            step()?;
        }
        steps += 16;
    }
    Ok(f64::from(steps) / (on_core(start) - before).as_secs_f64())
}

fn bare(name: &str, rom: &[u8], seed: u64) -> Result<f64, EnvError> {
    let mut console = Console::open(name, rom, 108_000)?;
    let actions = console.actions(false);
    let mut rng = EnvRng::new(seed, 0, Stream::Env);
    count(|| {
        let action = actions[rng.below(actions.len() as u64) as usize];
        for _ in 0..SKIP {
            let outcome = console.act(action)?;
            if outcome.game_over() || outcome.truncated() {
                console.reset()?;
                break;
            }
        }
        Ok(())
    })
}

fn environment(name: &str, rom: &[u8], seed: u64) -> Result<f64, EnvError> {
    let rules = Rules {
        repeat_action_probability: 0.0,
        ..Rules::default()
    };
    let mut env = Atari::new(name, rom, rules)?;
    let mut seen = ObservationBuf::new(&Layout::new(&env.observation_space())?);
    let mut action = ActionBuf::new(&Layout::of_actions(&env.action_space())?);
    let Space::Discrete(actions) = env.action_space() else {
        return Err("a game's actions are a choice".into());
    };
    let leaf = action.view().layout().find("").ok_or("one leaf")?;
    let mut rng = EnvRng::new(seed, 0, Stream::Env);
    env.reset(&mut ResetCtx::new(&mut rng, seed, 0, 0))?;
    count(|| {
        action.indices_mut(leaf)[0] = rng.below(actions.n as u64) as i32;
        let over = env.step(action.view(), &mut rng)?.end().is_over();
        if over {
            env.reset(&mut ResetCtx::new(&mut rng, seed, 0, 0))?;
        }
        env.observe(&mut seen.as_mut())
    })
}

/// The sum over `threads` threads.
fn all(threads: u64, run: impl Fn(u64) -> Result<f64, EnvError> + Sync) -> Result<f64, EnvError> {
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|seed| {
                scope.spawn({
                    let run = &run;
                    move || run(seed)
                })
            })
            .collect();
        let finished = started.into_iter().map(|thread| thread.join());
        finished
            .map(|sum| sum.map_err(|_| EnvError::new("a thread panicked"))?)
            .sum()
    })
}

fn main() -> Result<(), EnvError> {
    let args: Vec<String> = std::env::args().collect();
    let name = args.get(1).map_or("pong", String::as_str);
    let number = |at: usize, or: u64| args.get(at).and_then(|n| n.parse().ok()).unwrap_or(or);
    let (threads, rounds) = (number(2, 2), number(3, 5));
    let path = Path::new(env!("HOTLOOP_ALE")).join(format!("roms/{name}.bin"));
    let rom = std::fs::read(path)?;
    for threads in [1, threads] {
        let (mut emulator, mut env) = (0.0f64, 0.0f64);
        for _ in 0..rounds {
            emulator = emulator.max(all(threads, |seed| bare(name, &rom, seed))?);
            env = env.max(all(threads, |seed| environment(name, &rom, seed))?);
        }
        println!(
            "{name}, {threads} threads, best of {rounds}: emulator {emulator:.0} steps/s, environment {env:.0}, {:.3} of it",
            env / emulator
        );
    }
    Ok(())
}
