//! Cost of one step of each environment, observation included, through `Env` with static dispatch: a
//! block of 64 environments stepped in turn with actions that cannot be predicted.

#![allow(missing_docs, reason = "criterion's macros generate a public function")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hotloop_classic::{Acrobot, CartPole, ContinuousMountainCar, MountainCar, Pendulum};
use hotloop_env::{ActionView, Env, EnvRng, Layout, ObservationMut, ResetCtx, Space, Stream};
use std::hint::black_box;

const LANES: usize = 64;
const ROWS: usize = 16;

fn bench<E: Env>(c: &mut Criterion, name: &str, make: fn() -> E) {
    let mut envs: Vec<E> = (0..LANES).map(|_| make()).collect();
    let mut rng = EnvRng::new(1, 0, Stream::Env);
    for env in &mut envs {
        env.reset(&mut ResetCtx::new(&mut rng, 1, 0, 0))
            .expect("these environments always reset");
    }
    let actions = Layout::of_actions(&envs[0].action_space()).expect("a valid space");
    let observations = Layout::new(&envs[0].observation_space()).expect("a valid space");
    let record = observations.record_bytes();
    // Words, so that records are aligned.
    let mut row = vec![0u64; (LANES * record).div_ceil(8)];
    // The record of each of these action spaces is four bytes: an index or a number.
    let choices: Vec<u32> = (0..LANES * ROWS)
        .map(|_| match envs[0].action_space() {
            Space::Discrete(d) => rng.below(d.n as u64) as u32,
            _ => (rng.range(-1.0, 1.0) as f32).to_bits(),
        })
        .collect();

    let mut group = c.benchmark_group("step");
    group.throughput(Throughput::Elements((LANES * ROWS) as u64));
    group.bench_function(name, |b| {
        b.iter(|| {
            let row: &mut [u8] = bytemuck::cast_slice_mut(&mut row);
            for choices in choices.chunks_exact(LANES) {
                for ((env, out), choice) in envs
                    .iter_mut()
                    .zip(row.chunks_exact_mut(record))
                    .zip(choices)
                {
                    let action = ActionView::new(bytemuck::bytes_of(choice), &actions);
                    let step = env
                        .step(action, &mut rng)
                        .expect("these environments never fail");
                    if step.end().is_over() {
                        env.reset(&mut ResetCtx::new(&mut rng, 1, 0, 0))
                            .expect("as above");
                    }
                    env.observe(&mut ObservationMut::new(out, &observations))
                        .expect("as above");
                }
            }
            black_box(row);
        });
    });
}

fn all(c: &mut Criterion) {
    bench(c, "CartPole-v1", CartPole::new);
    bench(c, "Acrobot-v1", Acrobot::new);
    bench(c, "MountainCar-v0", MountainCar::new);
    bench(c, "MountainCarContinuous-v0", ContinuousMountainCar::new);
    bench(c, "Pendulum-v1", Pendulum::new);
}

criterion_group!(benches, all);
criterion_main!(benches);
