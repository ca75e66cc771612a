//! Evaluations of networks that remember.

use super::*;
use crate::net::{Activation, CellKind, MlpSpec, NetworkSpec, RecurrentSpec};
use hotloop_env::{Space, Stream};
use std::sync::Arc;
use tch::{Device, Tensor};

/// An LSTM of one unit whose cell is c' = c / 2 + 1 for observations of 1, with tanh(c) as the value.
fn scalar() -> (Actor, Params) {
    let spec = MlpSpec {
        inputs: 1,
        hidden: vec![],
        activation: Activation::Tanh,
        shared: true,
        head: HeadSpec::categorical(2),
        fast: true,
    };
    let net = ActorCritic::new(NetworkSpec {
        recurrent: Some(RecurrentSpec {
            kind: CellKind::Lstm,
            hidden: 1,
        }),
        ..spec.into()
    })
    .unwrap();
    let params = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
    // Input, forget, candidate and output gate: 1, ½, 1, 1.
    for (name, values) in [
        ("trunk.core.weight_ih_l0", &[0f32, 0., 30., 0.][..]),
        ("trunk.core.bias_ih_l0", &[30., 0., 0., 30.]),
        ("value.weight", &[1.]),
    ] {
        let place = params.get(name).unwrap();
        let values = Tensor::from_slice(values).view_as(place);
        place.shallow_clone().copy_(&values);
    }
    let spaces = Spaces::new(Space::unbounded(&[1]), Space::discrete(2)).unwrap();
    (Actor::new(net, &spaces), params)
}

/// The values of both environments after each of four steps, the first env starting an episode where
/// `starts` says.
fn played(starts: [u8; 4]) -> Vec<f32> {
    let (mut actor, params) = scalar();
    let layout = Layout::new(&Space::unbounded(&[1])).unwrap();
    let philox = Philox::new(1, Stream::EvalAction);
    let (observations, mut actions) = ([1f32; 2], [0i32; 2]);
    let mut values = vec![];
    for (step, start) in starts.into_iter().enumerate() {
        actor
            .play(
                &params,
                None,
                Choice::Greedy,
                &philox,
                Stacks::single(&layout, bytemuck::cast_slice(&observations)),
                &[],
                &[start, u8::from(step == 0)],
                |env| (env as u64, step as u64),
                bytemuck::cast_slice_mut(&mut actions),
            )
            .unwrap();
        values.extend_from_slice(&actor.evaluator.values);
    }
    values
}

#[test]
fn br_30_an_evaluation_carries_the_state_of_each_env_and_forgets_it_where_an_episode_starts() {
    let values = played([1, 0, 1, 0]);
    let expected = [[1.0, 1.0], [1.5, 1.5], [1.0, 1.75], [1.5, 1.875f32]];
    for (value, cell) in values.iter().zip(expected.as_flattened()) {
        assert!((value - cell.tanh()).abs() < 1e-6, "{values:?}");
    }
    // The other environment's episodes change no bit.
    let others = |values: Vec<f32>| -> Vec<f32> { values.into_iter().skip(1).step_by(2).collect() };
    assert_eq!(others(played([1, 0, 0, 0])), others(values));
}
