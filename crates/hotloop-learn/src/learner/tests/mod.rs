//! Updates on segments of a real rollout whose version changes from row to row.

mod anew;
mod minibatches;
mod stale;
mod values;

use super::*;
use crate::{
    actor::Actor,
    algo::{A2c, Appo, Impala, LossContext, Ppo},
    dist::HeadSpec,
    net::{Activation, CellKind, MlpSpec, NetworkSpec, Outputs, RecurrentSpec},
    objective::Loss,
    policy::ActorPolicy,
    state::StateStore,
};
use hotloop_env::{
    ActionView, Block, Copies, Env, EnvError, EnvRng, ObservationMut, ResetCtx, Space, Transition,
};
use hotloop_math::Rows;
use hotloop_rollout::{Acting, Batch, Policy, PolicyError, Rollout, RolloutConfig, StateColumn};
use std::sync::Mutex;

/// Observes its steps, rewards 1 for each, and is cut after `LENGTH` of them.
struct Steps(u32);

const LENGTH: u32 = 4;

impl Env for Steps {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }
    fn action_space(&self) -> Space {
        Space::discrete(2)
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.0 = 0;
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        self.0 += 1;
        Ok(if self.0 == LENGTH {
            Transition::truncated(1.0)
        } else {
            Transition::running(1.0)
        })
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.0 as f32])
    }
}

fn spaces() -> Spaces {
    Spaces::new(Steps(0).observation_space(), Steps(0).action_space()).unwrap()
}

fn net() -> ActorCritic {
    ActorCritic::new(MlpSpec {
        inputs: 1,
        hidden: vec![8],
        activation: Activation::Tanh,
        shared: false,
        head: HeadSpec::categorical(2),
        fast: true,
    })
    .unwrap()
}

/// The weights of a version, far from those of others.
fn weights(version: u64) -> Params {
    let params = net().init(version, Device::Cpu).unwrap();
    let mut policy = params.get("policy.weight").unwrap().shallow_clone();
    let _ = tch::no_grad(|| policy.f_mul_scalar_(100.0)).unwrap();
    params
}

/// Publishes another version before every batch.
struct Ageing(ActorPolicy, Arc<PolicyStore>);

impl Policy for Ageing {
    fn newest(&mut self) -> u64 {
        let next = self.1.newest() + 1;
        self.1
            .publish(next, &weights(next), &Normalizer::default())
            .unwrap();
        self.0.newest()
    }
    fn decide(&mut self, batch: &mut Batch<'_>) -> Result<(), PolicyError> {
        // A state that can be told from others: lane and version.
        let version = batch.version() as f32;
        let states: &mut [f32] = bytemuck::cast_slice_mut(batch.states_mut());
        for (lane, state) in states.chunks_exact_mut(2).enumerate() {
            state.copy_from_slice(&[lane as f32, version]);
        }
        self.0.decide(batch)
    }
}

const LANES: usize = 2;
const STEPS: usize = 8;

/// A segment of 8 rows of 2 lanes; the versions of its rows are 1, 2, …, 8, that of the bootstrap row 9.
/// In both lanes row 4 is a final observation. States are kept before rows 0, 3 and 6.
fn segment() -> (Rollout, Segment) {
    let store = Arc::new(PolicyStore::new());
    store
        .publish(0, &weights(0), &Normalizer::default())
        .unwrap();
    let actor = ActorPolicy::new(Actor::new(net(), &spaces()), Arc::clone(&store), 7);
    let config = RolloutConfig {
        lanes: LANES,
        lanes_per_actor: LANES,
        steps: STEPS,
        state: Some(StateColumn { bytes: 8, every: 3 }),
        ..Default::default()
    };
    let make = |_, lanes| Ok(Block::Sync(Box::new(Copies::new(lanes, || Ok(Steps(0)))?)));
    let policies: Vec<Box<dyn Policy>> = vec![Box::new(Ageing(actor, store))];
    let rollout = Rollout::start(config, spaces(), make, policies, None).unwrap();
    rollout.grant(0, Acting::Newest).unwrap();
    let segment = rollout.recv().unwrap();
    assert_eq!(segment.versions(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    (rollout, segment)
}

fn spec() -> LearnerSpec {
    LearnerSpec {
        seed: 3,
        lanes: LANES,
        batch: 4,
        max_staleness: 100,
        recall: None,
        epochs: 1,
        minibatches: 1,
        shards: 2,
        threads: 2,
        learning_rate: Schedule::Constant(1e-3),
        adam: AdamSpec::default(),
        normalize_advantages: false,
        target_kl: None,
        gamma: 0.9,
        normalize: NormalizerSpec::default(),
    }
}

/// A learner that holds version 10.
fn learner(spec: LearnerSpec, algorithm: impl Algorithm + 'static) -> Learner {
    let mut learner =
        Learner::new(spec, net(), Arc::new(algorithm), &spaces(), Device::Cpu).unwrap();
    let (first, second) = learner.adam().moments();
    let moments = (first.duplicate(), second.duplicate());
    let normalizer = learner.normalizer().clone();
    learner
        .restore(
            10,
            &weights(10),
            (&moments.0, &moments.1, AdamCounters::default()),
            normalizer,
        )
        .unwrap();
    learner
}

/// Values and log-probabilities of the stored actions of the segment's rows, by hand.
fn by_hand(segment: &Segment, params: &Params) -> (Vec<f32>, Vec<f32>) {
    let x: &[f32] = bytemuck::cast_slice(segment.observations());
    let x = Tensor::from_slice(x).view([-1, 1]);
    let outputs = net().forward(params, &x).unwrap();
    let log_p = outputs.head.log_softmax(1, Kind::Float);
    let actions: &[i32] = bytemuck::cast_slice(segment.actions());
    let log_probs = actions
        .iter()
        .enumerate()
        .map(|(i, a)| log_p.double_value(&[i as i64, i64::from(*a)]) as f32)
        .collect();
    (Vec::try_from(outputs.value).unwrap(), log_probs)
}
