//! Networks that remember: what the learner says of a rollout's rows at the weights that acted.

use super::*;
use crate::{
    actor::Actor,
    algo::Impala,
    dist::HeadSpec,
    net::{Activation, CellKind, MlpSpec, NetworkSpec, RecurrentSpec},
    policy::ActorPolicy,
    state::StateStore,
};
use hotloop_env::{
    ActionView, Block, Copies, End, Env, EnvError, EnvRng, ObservationMut, ResetCtx, Space,
    Transition,
};
use hotloop_rollout::{Acting, Policy, Rollout, RolloutConfig, StateColumn};

const LANES: usize = 3;
/// Rows of a segment, and of a sequence.
const STEPS: usize = 11;
const LENGTH: usize = 4;

/// Observes random numbers; every other episode is cut after four steps, the others terminate after five.
#[derive(Default)]
struct Mixed {
    step: u32,
    episode: u64,
    seen: [f32; 2],
}

impl Env for Mixed {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[2])
    }
    fn action_space(&self) -> Space {
        Space::discrete(2)
    }
    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.episode = ctx.episode();
        self.step = 0;
        self.seen = std::array::from_fn(|_| ctx.rng().normal() as f32);
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        self.step += 1;
        self.seen = std::array::from_fn(|_| rng.normal() as f32);
        let end = match (self.step, self.episode % 2) {
            (4, 0) => End::Truncated,
            (5, _) => End::Terminated,
            _ => End::Continue,
        };
        Ok(Transition::new(1.0, end))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&self.seen)
    }
}

fn spaces() -> Spaces {
    let env = Mixed::default();
    Spaces::new(env.observation_space(), env.action_space()).unwrap()
}

fn net(kind: CellKind, fast: bool) -> ActorCritic {
    let spec = MlpSpec {
        inputs: 2,
        hidden: vec![6],
        activation: Activation::Tanh,
        shared: false,
        head: HeadSpec::categorical(2),
        fast,
    };
    ActorCritic::new(NetworkSpec {
        recurrent: Some(RecurrentSpec { kind, hidden: 5 }),
        ..spec.into()
    })
    .unwrap()
}

fn learner(net: &ActorCritic) -> Learner {
    let spec = LearnerSpec {
        seed: 3,
        lanes: LANES,
        batch: LANES * STEPS,
        max_staleness: 0,
        recall: Some(Recall {
            length: LENGTH,
            state: net.state(),
        }),
        epochs: 2,
        minibatches: 2,
        shards: 2,
        threads: 2,
        learning_rate: Schedule::Constant(1e-3),
        adam: AdamSpec::default(),
        normalize_advantages: false,
        target_kl: None,
        gamma: 0.9,
        normalize: NormalizerSpec::default(),
    };
    let algorithm = Arc::new(Impala::default());
    let learner = Learner::new(spec, net.clone(), algorithm, &spaces(), Device::Cpu).unwrap();
    let policy = learner.params().get("policy.weight").unwrap();
    let _ = tch::no_grad(|| policy.shallow_clone().f_mul_scalar_(100.0)).unwrap();
    learner
}

#[track_caller]
fn assert_close(a: f32, b: f32, what: &str) {
    assert!((a - b).abs() <= 1e-5, "{what}: {a} {b}");
}

#[test]
fn at_equal_weights_the_learner_says_what_the_rollout_said() {
    for (kind, fast) in [
        (CellKind::Lstm, true),
        (CellKind::Gru, true),
        (CellKind::Lstm, false),
    ] {
        let net = net(kind, fast);
        let mut learner = learner(&net);
        let store = Arc::new(PolicyStore::new());
        learner.publish(&store).unwrap();
        let states = StateStore::new(LANES, net.state(), Device::Cpu).unwrap();
        let config = RolloutConfig {
            lanes: LANES,
            lanes_per_actor: LANES,
            steps: STEPS,
            state: Some(StateColumn {
                bytes: StateStore::bytes(1, net.state()),
                every: LENGTH,
            }),
            ..Default::default()
        };
        let make = |_, lanes| {
            let copies = Copies::new(lanes, || Ok(Mixed::default()))?;
            Ok(Block::Sync(Box::new(copies)))
        };
        let actor = ActorPolicy::new(Actor::new(net.clone(), &spaces()), store, 7);
        let policies: Vec<Box<dyn Policy>> = vec![Box::new(actor.with_states(states))];
        let rollout = Rollout::start(config, spaces(), make, policies, None).unwrap();
        // The second and third segments begin within episodes.
        let mut left = vec![];
        for round in 0..3 {
            rollout.grant(0, Acting::At(0)).unwrap();
            let segments = [rollout.recv().unwrap()];
            let incoming = Incoming {
                segments: &segments,
                version: 0,
                max_staleness: 0,
            };
            learner.gather(&incoming).unwrap();
            let what = format!("{kind:?}, fast {fast}, round {round}");
            reevaluated(&learner, &segments[0], &what);
            trained_on(&learner, &what);
            begins_where_the_last_ended(&segments[0], &left, &what);
            left = left_by(&learner, &segments[0]);
        }
    }
}

/// All rows of a segment from the state before its first: resets, final observations and the bootstrap row.
fn reevaluated(learner: &Learner, segment: &Segment, what: &str) {
    let (values, log_probs) = learner.reevaluation.rows(0, (STEPS + 1) * LANES);
    let (mut final_rows, mut first_rows) = (0, 0);
    for row in 0..(STEPS + 1) * LANES {
        assert_close(values[row], segment.values()[row], what);
        let is_valid = segment.valid()[row] != 0;
        if is_valid && row < STEPS * LANES {
            assert_close(log_probs[row], segment.log_probs()[row], what);
        }
        final_rows += usize::from(!is_valid);
        first_rows += usize::from(segment.starts()[row] != 0 && row >= LANES);
    }
    assert!(final_rows > 0 && first_rows > final_rows, "{what}");
}

/// The states after a segment's rows, one step after the other from those before its first.
fn left_by(learner: &Learner, segment: &Segment) -> Vec<f32> {
    let (net, lanes) = (&learner.net, LANES as i64);
    let kept: &[f32] = bytemuck::cast_slice(segment.states());
    let mut states = Tensor::from_slice(&kept[..LANES * net.state()]).view([lanes, -1]);
    let seen: &[f32] = bytemuck::cast_slice(segment.observations());
    for (row, x) in seen.chunks_exact(2 * LANES).take(STEPS).enumerate() {
        if row > 0 {
            let starts = Tensor::from_slice(&segment.starts()[row * LANES..][..LANES]);
            states = states.masked_fill(&starts.ne(0).unsqueeze(1), 0.0);
        }
        let x = Tensor::from_slice(x).view([lanes, 2]);
        states = net.step(&learner.params, &x, &states).unwrap().1;
    }
    Vec::try_from(states.view(-1)).unwrap()
}

/// A segment begins with the states that the one before `left`: its bootstrap row, which comes again as the first
/// row here, has left nothing.
fn begins_where_the_last_ended(segment: &Segment, left: &[f32], what: &str) {
    let kept: &[f32] = bytemuck::cast_slice(segment.states());
    let width = left.len() / LANES;
    for (i, left) in left.iter().enumerate() {
        let expected = if segment.starts()[i / width] == 0 {
            *left
        } else {
            0.0
        };
        assert_close(kept[i], expected, what);
    }
}

/// The sequences that minibatches are drawn from, each from the state that was kept before it.
fn trained_on(learner: &Learner, what: &str) {
    let batch = learner.columns.batch();
    let sequences = batch.sequences.as_ref().unwrap();
    assert_eq!(batch.units(), (LANES * STEPS.div_ceil(LENGTH)) as i64);
    let outputs = learner
        .net
        .unroll(&learner.params, &batch.observations, sequences)
        .unwrap();
    let head = &learner.net.spec().head;
    let (log_probs, _) = head
        .log_prob_entropy(&outputs, &batch.actions, None)
        .unwrap();
    let flat = |t: &Tensor| Vec::<f32>::try_from(t).unwrap();
    let (values, old_values) = (flat(&outputs.value), flat(&batch.old_values));
    let (log_probs, old_log_probs) = (flat(&log_probs), flat(&batch.old_log_probs));
    for (row, valid) in learner.columns.valid().iter().enumerate() {
        if *valid != 0 {
            assert_close(values[row], old_values[row], what);
            assert_close(log_probs[row], old_log_probs[row], what);
        }
    }
}

#[test]
fn br_33_a_minibatch_is_made_of_whole_sequences_and_an_epoch_of_all_rows() {
    let mut seen = vec![0; 24];
    // Four environments, six steps, sequences of three; three minibatches do not divide eight sequences.
    for minibatches in [2, 3] {
        let mut index: Vec<i64> = (0..8).collect();
        shuffle(&mut index, &mut EnvRng::new(1, 0, Stream::Shuffle));
        let observed: Vec<f32> = (0..8)
            .flat_map(|s| (0..3).map(move |k| (100 * (s % 4) + 3 * (s / 4) + k) as f32))
            .collect();
        let batch = sequence_batch(&observed);
        let mut trained = 0;
        for i in 0..minibatches {
            let (start, end) = (i * 8 / minibatches, (i + 1) * 8 / minibatches);
            let picked = batch.select(&Tensor::from_slice(&index[start..end]));
            let x = Vec::<f32>::try_from(picked.observations.view(-1)).unwrap();
            for sequence in x.chunks_exact(3) {
                let first = sequence[0];
                assert_eq!(sequence, [first, first + 1.0, first + 2.0]);
                assert_eq!(first as usize % 100 % 3, 0);
                for x in sequence {
                    seen[*x as usize / 100 * 6 + *x as usize % 100] += 1;
                }
            }
            trained += x.len();
        }
        assert_eq!(trained, 24, "{minibatches} minibatches");
    }
    assert_eq!(seen, vec![2; 24]);
}

/// Eight sequences of three rows.
fn sequence_batch(observed: &[f32]) -> crate::algo::Minibatch {
    let n = observed.len() as i64;
    let column = || Tensor::zeros([n], (Kind::Float, Device::Cpu));
    crate::algo::Minibatch {
        observations: Tensor::from_slice(observed).view([n, 1]),
        actions: Tensor::zeros([n, 1], (Kind::Int, Device::Cpu)),
        old_log_probs: column(),
        old_values: column(),
        advantages: column(),
        targets: column(),
        valid: Tensor::ones([n], (Kind::Uint8, Device::Cpu)),
        masks: None,
        valid_count: n as f64,
        sequences: Some(crate::algo::Sequences {
            length: 3,
            starts: Tensor::zeros([n], (Kind::Uint8, Device::Cpu)),
            states: Tensor::zeros([n / 3, 1], (Kind::Float, Device::Cpu)),
        }),
    }
}
