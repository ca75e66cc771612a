//! Cost of one frame of each game, observation included, through `Env` with static dispatch: a block of 64
//! environments stepped in turn by random play.

#![allow(missing_docs, reason = "criterion's macros generate a public function")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hotloop_env::{ActionView, Env, EnvRng, Layout, ObservationMut, ResetCtx, Stream};
use hotloop_minatar::{Asterix, Breakout, Freeway, Game, MinAtar, Rules, Seaquest, SpaceInvaders};
use std::hint::black_box;

const LANES: usize = 64;
const ROWS: usize = 16;

fn bench<G: Game>(c: &mut Criterion, name: &str) {
    let mut envs: Vec<_> = (0..LANES)
        .map(|_| MinAtar::<G>::new(Rules::default()).expect("the published rules hold"))
        .collect();
    // One generator for each, as the engine has it.
    let mut rngs: Vec<_> = (0..LANES as u64)
        .map(|lane| EnvRng::new(1, lane, Stream::Env))
        .collect();
    for (env, rng) in envs.iter_mut().zip(&mut rngs) {
        env.reset(&mut ResetCtx::new(rng, 1, 0, 0))
            .expect("these environments always reset");
    }
    let actions = Layout::of_actions(&envs[0].action_space()).expect("a valid space");
    let observations = Layout::new(&envs[0].observation_space()).expect("a valid space");
    let record = observations.record_bytes();
    let mut row = vec![0u8; LANES * record];
    let choices: Vec<u32> = (0..LANES * ROWS)
        .map(|_| rngs[0].below(G::ACTIONS.len() as u64) as u32)
        .collect();

    let mut group = c.benchmark_group("step");
    group.throughput(Throughput::Elements((LANES * ROWS) as u64));
    group.bench_function(name, |b| {
        b.iter(|| {
            for choices in choices.chunks_exact(LANES) {
                let lanes = envs.iter_mut().zip(&mut rngs).zip(choices);
                for (((env, rng), choice), out) in lanes.zip(row.chunks_exact_mut(record)) {
                    let action = ActionView::new(bytemuck::bytes_of(choice), &actions);
                    let step = env
                        .step(action, rng)
                        .expect("these environments never fail");
                    if step.end().is_over() {
                        env.reset(&mut ResetCtx::new(rng, 1, 0, 0))
                            .expect("as above");
                    }
                    env.observe(&mut ObservationMut::new(out, &observations))
                        .expect("as above");
                }
            }
            black_box(&mut row);
        });
    });
}

fn all(c: &mut Criterion) {
    bench::<Breakout>(c, "Breakout-v1");
    bench::<Asterix>(c, "Asterix-v1");
    bench::<Freeway>(c, "Freeway-v1");
    bench::<Seaquest>(c, "Seaquest-v1");
    bench::<SpaceInvaders>(c, "SpaceInvaders-v1");
}

criterion_group!(benches, all);
criterion_main!(benches);
