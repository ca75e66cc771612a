//! How fast CartPole is stepped with a policy that costs nothing.
//!
//!     cargo bench -p hotloop-rollout --bench rollout [-- ACTORS ENVS_PER_ACTOR [lockstep|first-ready] [SECONDS]]

use hotloop_env::{EnvOptions, Registry};
use hotloop_rollout::{Acting, Batch, Policy, PolicyError, Rollout, RolloutConfig, Scheduler};
use std::time::{Duration, Instant};

/// Pushes left and right in turn.
struct Alternate;

impl Policy for Alternate {
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        let action = (batch.places().counter(0) & 1) as i32;
        let outputs = batch.outputs();
        bytemuck::cast_slice_mut::<u8, i32>(outputs.actions).fill(action);
        outputs.log_probs.fill(0.0);
        outputs.values.fill(0.0);
        Ok(())
    }
}

fn measure(actors: usize, envs: usize, scheduler: Scheduler, time: Duration) {
    let mut registry = Registry::new();
    hotloop_classic::register(&mut registry);
    let spec = registry
        .get("CartPole-v1")
        .expect("the classic environments are registered");
    let options = EnvOptions::default();
    let spaces = spec.spaces(&options).expect("CartPole can be built");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let config = RolloutConfig {
        lanes: actors * envs,
        lanes_per_actor: envs,
        groups: 2,
        steps: 64,
        segments_per_group: 2,
        scheduler,
        env_threads: threads,
        ..Default::default()
    };
    let rollout = Rollout::start(
        config,
        spaces,
        |_, lanes| spec.make(&options, lanes),
        vec![Box::new(Alternate)],
        None,
    )
    .expect("the rollout starts");
    let grant = |group| {
        rollout
            .grant(group, Acting::At(0))
            .expect("a segment is free")
    };
    for group in 0..rollout.groups() {
        grant(group);
        grant(group);
    }
    let run = |time: Duration| {
        let (start, before) = (Instant::now(), rollout.statistics());
        while start.elapsed() < time {
            let group = rollout.recv().expect("the rollout goes on").group();
            grant(group);
        }
        let after = rollout.statistics();
        let seconds = start.elapsed().as_secs_f64();
        let share = |time: fn(&hotloop_rollout::WorkerStatistics) -> Duration| {
            (time(&after.workers[0]) - time(&before.workers[0])).as_secs_f64() / seconds
        };
        let count = |n: fn(&hotloop_rollout::WorkerStatistics) -> u64| {
            (n(&after.workers[0]) - n(&before.workers[0])) as f64
        };
        println!(
            "{actors:>6} actors x {envs:>3} {scheduler:?}: {:8.2} M steps/s, worker {:.0} % deciding, {:.0} % waiting, {:.0} lanes a batch",
            (after.env_steps - before.env_steps) as f64 / seconds / 1e6,
            100.0 * share(|w| w.deciding),
            100.0 * share(|w| w.waiting),
            count(|w| w.decisions) / count(|w| w.batches),
        );
    };
    run(time / 4);
    run(time);
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let number = |i: usize| arguments.get(i).and_then(|text| text.parse().ok());
    let time =
        Duration::from_secs_f64(arguments.get(3).and_then(|t| t.parse().ok()).unwrap_or(2.0));
    let settings = match (number(0), number(1)) {
        (Some(actors), Some(envs)) => vec![(actors, envs)],
        _ => vec![(4096, 1), (1024, 16), (256, 64)],
    };
    for (actors, envs) in settings {
        let first_ready = arguments.get(2).is_some_and(|name| name == "first-ready");
        let scheduler = if first_ready {
            Scheduler::FirstReady {
                max_batch: (actors * envs / 4).max(envs),
            }
        } else {
            Scheduler::Lockstep
        };
        measure(actors, envs, scheduler, time);
    }
}
