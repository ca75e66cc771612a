//! What a block adds to the environments in it: ns per lane and step.

#![allow(missing_docs)] // criterion_group! makes a function without any.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hotloop_env::{
    ActionView, Copies, Env, EnvError, EnvRng, LaneStates, ObservationMut, ResetCtx, Rows,
    RowsParts, Space, Stream, Transition, VectorEnv,
};
use std::hint::black_box;

/// Does next to nothing, in the shape of CartPole: four floats, two actions, episodes of 200.
struct Trivial {
    at: u32,
    state: [f32; 4],
}

impl Env for Trivial {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[4])
    }
    fn action_space(&self) -> Space {
        Space::discrete(2)
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.at = 0;
        Ok(())
    }
    #[inline]
    fn step(&mut self, action: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        self.at += 1;
        self.state[0] += action.discrete() as f32;
        Ok(if self.at == 200 {
            Transition::terminated(1.0)
        } else {
            Transition::running(1.0)
        })
    }
    #[inline]
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&self.state)
    }
}

fn trivial(c: &mut Criterion) {
    let mut group = c.benchmark_group("copies");
    for lanes in [1usize, 16, 64] {
        let mut block = Copies::new(lanes, || {
            Ok(Trivial {
                at: 0,
                state: [0.0; 4],
            })
        })
        .expect("the environment builds");
        let spaces = block.spaces().clone();
        let mut states = LaneStates::new(1, Stream::Env, 0, lanes);
        let actions = vec![1i32; lanes];
        let mut valid = vec![0u8; lanes];
        let (mut rewards, mut ends) = (vec![0f32; lanes], vec![0u8; lanes]);
        let (mut returns, mut lengths) = (vec![0f32; lanes], vec![0u32; lanes]);
        let mut next = vec![0f32; 4 * lanes];
        let mut next_valid = vec![0u8; lanes];
        let mut faults = vec![];
        group.throughput(Throughput::Elements(lanes as u64));
        group.bench_function(format!("{lanes} lanes"), |b| {
            b.iter(|| {
                block.step(&mut Rows::new(RowsParts {
                    spaces: &spaces,
                    lanes: &mut states,
                    actions: bytemuck::cast_slice(black_box(&actions)),
                    valid: &mut valid,
                    rewards: &mut rewards,
                    ends: &mut ends,
                    episode_returns: &mut returns,
                    episode_lengths: &mut lengths,
                    next_observations: bytemuck::cast_slice_mut(&mut next),
                    next_masks: &mut [],
                    next_valid: &mut next_valid,
                    faults: &mut faults,
                }));
                std::mem::swap(&mut valid, &mut next_valid);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, trivial);
criterion_main!(benches);
