//! Updates on segments of a real rollout whose version changes from row to row.

use super::*;
use crate::{
    actor::{Actor, ActorPolicy},
    algo::{A2c, Appo, Impala, LossContext, Ppo},
    dist::HeadSpec,
    net::{Activation, CellKind, MlpSpec, NetworkSpec, Outputs, RecurrentSpec},
    objective::Loss,
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

#[test]
fn stale_rows_are_neither_trained_on_nor_counted() {
    let (_rollout, segment) = segment();
    let segments = [segment];
    let normalized = NormalizerSpec {
        observation_clip: Some(10.0),
        reward_clip: Some(10.0),
        ..Default::default()
    };
    // Bound, rows trained on, rows left out, their mean and largest staleness. Row 4, of version 5, is
    // not valid.
    for (bound, rows, stale, mean, max) in [
        (1, 0, 14, 0.0, 0),
        (2, 2, 12, 2.0, 2),
        (4, 6, 8, 3.0, 4),
        (5, 6, 8, 3.0, 4),
        (6, 8, 6, 3.75, 6),
        (9, 14, 0, 39.0 / 7.0, 9),
        (100, 14, 0, 39.0 / 7.0, 9),
    ] {
        let spec = LearnerSpec {
            max_staleness: bound,
            normalize: normalized,
            ..spec()
        };
        let mut learner = learner(spec, Impala::default());
        let before = learner.params().weights_hash().unwrap();
        let stats = learner.update(&segments, 100).unwrap();
        assert_eq!((stats.rows, stats.stale), (rows, stale), "bound {bound}");
        assert_eq!(stats.staleness_max, max, "bound {bound}");
        assert!((stats.staleness_mean - mean).abs() < 1e-12, "bound {bound}");
        let changed = learner.params().weights_hash().unwrap() != before;
        assert_eq!(changed, rows > 0);
        let (observations, returns, _) = learner.normalizer().parts();
        assert_eq!(observations.unwrap().count(), rows as u64);
        assert_eq!(returns.unwrap().moments().count(), rows as u64);
        assert_eq!(learner.updates(), 11);
    }
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

#[test]
fn rows_are_evaluated_anew_with_the_weights_that_are_trained() {
    let (_rollout, segment) = segment();
    let segments = [segment];
    let learner = &mut learner(spec(), Impala::default());
    let incoming = Incoming {
        segments: &segments,
        version: 10,
        max_staleness: 100,
    };
    learner.gather(&incoming).unwrap();
    let all = (STEPS + 1) * LANES;
    let (values, log_probs) = learner.reevaluation.rows(0, all);
    let (expected_values, expected) = by_hand(&segments[0], learner.params());
    let mut differ = 0.0f32;
    for i in 0..all {
        assert!((values[i] - expected_values[i]).abs() < 1e-6, "row {i}");
        if i < STEPS * LANES && segments[0].valid()[i] != 0 {
            assert!((log_probs[i] - expected[i]).abs() < 1e-5, "row {i}");
            differ = differ.max((log_probs[i] - segments[0].log_probs()[i]).abs());
        }
    }
    assert!(differ > 0.1, "the policies must differ: {differ}");
    // What is trained on is V-trace of these.
    let ratios: Vec<f32> = (0..STEPS * LANES)
        .map(|i| expected[i] - segments[0].log_probs()[i])
        .collect();
    let (mut advantages, mut targets) = (vec![0.0; ratios.len()], vec![0.0; ratios.len()]);
    let terminated = vec![0; ratios.len()];
    let rows = Rows::new(
        LANES,
        segments[0].rewards(),
        &expected_values,
        &terminated,
        segments[0].valid(),
    );
    Impala::default().estimate(
        &rows.with_log_ratios(&ratios),
        &mut advantages,
        &mut targets,
    );
    let valid = |i: &usize| segments[0].valid()[*i] != 0;
    let trained = (0..STEPS * LANES).filter(valid);
    let found = learner.columns.advantages();
    assert_eq!(found.len(), 14);
    for (found, i) in found.iter().zip(trained) {
        assert!((found - advantages[i]).abs() < 1e-4, "row {i}");
    }
}

/// A segment that a recurrent network decided on, all rows with version 0, and that network.
fn remembered(store: &Arc<PolicyStore>) -> (Rollout, Segment, ActorCritic) {
    let spec = NetworkSpec {
        recurrent: Some(RecurrentSpec {
            kind: CellKind::Lstm,
            hidden: 4,
        }),
        ..net().spec().clone()
    };
    let net = ActorCritic::new(spec).unwrap();
    let weights = net.init(5, Device::Cpu).unwrap();
    let _ = tch::no_grad(|| weights.flat().shallow_clone().f_mul_scalar_(2.0)).unwrap();
    store.publish(0, &weights, &Normalizer::default()).unwrap();
    let states = StateStore::new(LANES, net.state(), Device::Cpu).unwrap();
    let actor = Actor::new(net.clone(), &spaces());
    let policy = ActorPolicy::new(actor, Arc::clone(store), 7).with_states(states);
    let config = RolloutConfig {
        lanes: LANES,
        lanes_per_actor: LANES,
        steps: 2 * STEPS,
        state: Some(StateColumn {
            bytes: 4 * net.state(),
            every: 5,
        }),
        ..Default::default()
    };
    let make = |_, lanes| Ok(Block::Sync(Box::new(Copies::new(lanes, || Ok(Steps(0)))?)));
    let rollout = Rollout::start(config, spaces(), make, vec![Box::new(policy)], None).unwrap();
    // The second segment begins within an episode.
    for _ in 0..2 {
        rollout.grant(0, Acting::At(0)).unwrap();
        let segment = rollout.recv().unwrap();
        if segment.starts()[0] == 0 {
            return (rollout, segment, net);
        }
    }
    panic!("no segment begins within an episode");
}

#[test]
fn br_30_rows_of_a_network_that_remembers_are_evaluated_as_in_the_rollout() {
    let store = Arc::new(PolicyStore::new());
    let (_rollout, segment, net) = remembered(&store);
    let segments = [segment];
    let spec = LearnerSpec {
        shards: 2,
        recall: Some(Recall {
            length: 5,
            state: net.state(),
        }),
        ..spec()
    };
    let state = net.state();
    let mut learner = Learner::new(
        spec,
        net,
        Arc::new(Impala::default()),
        &spaces(),
        Device::Cpu,
    )
    .unwrap();
    learner
        .params
        .copy_from(&store.lease(0).unwrap().params)
        .unwrap();
    let incoming = Incoming {
        segments: &segments,
        version: 0,
        max_staleness: 0,
    };
    learner.gather(&incoming).unwrap();
    let all = (2 * STEPS + 1) * LANES;
    let (values, log_probs) = learner.reevaluation.rows(0, all);
    assert!(state > 0 && segments[0].starts().contains(&1) && segments[0].valid().contains(&0));
    for i in 0..all {
        assert!(
            (values[i] - segments[0].values()[i]).abs() < 1e-5,
            "row {i}: {} {}",
            values[i],
            segments[0].values()[i]
        );
        if i < 2 * STEPS * LANES && segments[0].valid()[i] != 0 {
            assert!(
                (log_probs[i] - segments[0].log_probs()[i]).abs() < 1e-5,
                "row {i}"
            );
        }
    }
    let stats = learner.update(&segments, 100).unwrap();
    let rho = stats.values.iter().find(|v| v.0 == "rho_mean").unwrap().1;
    assert!(
        (rho - 1.0).abs() < 1e-5,
        "stretches begin in the states kept: {rho}"
    );
    assert_eq!(stats.skipped, 0);
}

#[test]
fn rows_of_the_same_weights_have_the_ratio_one() {
    let (_rollout, segment) = segment();
    let segments = [segment];
    // Only row 7 of version 8 is young enough.
    let spec = LearnerSpec {
        max_staleness: 2,
        ..spec()
    };
    for same in [true, false] {
        let mut learner = learner(spec.clone(), Impala::default());
        if same {
            learner.params.copy_from(&weights(8)).unwrap();
        }
        let stats = learner.update(&segments, 100).unwrap();
        let rho = stats.values.iter().find(|v| v.0 == "rho_mean").unwrap().1;
        assert_eq!((rho - 1.0).abs() < 1e-5, same, "{rho}");
    }
}

#[test]
fn the_statistics_of_the_last_versions_are_kept() {
    let (_rollout, segment) = segment();
    let segments = [segment];
    let spec = LearnerSpec {
        max_staleness: 2,
        normalize: NormalizerSpec {
            observation_clip: Some(10.0),
            ..Default::default()
        },
        ..spec()
    };
    let mut learner = learner(spec, Ppo::default());
    let mut history = vec![learner.normalizer().standardizer().unwrap().clone()];
    for _ in 0..4 {
        learner.updates = 10;
        learner.update(&segments, 100).unwrap();
        history.push(learner.normalizer().standardizer().unwrap().clone());
    }
    for (age, expected) in [(0, 4), (1, 3), (2, 2), (9, 2)] {
        let found = learner.normalizer().standardizer_before(age).unwrap();
        assert_eq!(found, &history[expected], "{age} versions before");
    }
}

#[test]
fn popart_keeps_what_the_network_says_and_running_does_not() {
    let (_rollout, segment) = segment();
    let segments = [segment];
    let said = |learner: &Learner| {
        let (mut values, _) = by_hand(&segments[0], learner.params());
        let unit = learner.normalizer().value_unit().unwrap();
        unit.denormalize(&mut values);
        values
    };
    for values in [ValueNormalization::Running, ValueNormalization::PopArt] {
        // Nothing is learned: only the unit moves.
        let spec = LearnerSpec {
            learning_rate: Schedule::Constant(0.0),
            normalize: NormalizerSpec {
                values,
                ..Default::default()
            },
            ..spec()
        };
        let mut learner = learner(spec, Appo::default());
        let before = said(&learner);
        learner.update(&segments, 100).unwrap();
        let unit = learner.normalizer().value_unit().unwrap();
        assert!(unit.mean > 0.5, "rewards are positive: {unit:?}");
        let moved = before
            .iter()
            .zip(said(&learner))
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert_eq!(
            moved < 1e-5,
            values == ValueNormalization::PopArt,
            "{moved}"
        );
        // Targets are learned in the unit that they are part of.
        let (targets, _) = learner.columns.targets_and_values();
        let mean = targets.iter().sum::<f32>() / targets.len() as f32;
        assert!(mean.abs() < 1e-4, "{mean}");
    }
}

/// Plain autograd of PPO that notes which rows it has seen; with `broken` the advantages are NaN.
struct Noting {
    inner: Ppo,
    broken: bool,
    seen: Arc<Mutex<Vec<f32>>>,
}

impl Algorithm for Noting {
    fn name(&self) -> &'static str {
        "noting"
    }
    fn statistics(&self) -> &'static [&'static str] {
        self.inner.statistics()
    }
    fn estimate(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        self.inner.estimate(rows, advantages, targets);
        targets
            .iter_mut()
            .enumerate()
            .for_each(|(i, t)| *t = i as f32);
        if self.broken {
            advantages.fill(f32::NAN);
        }
    }
    fn loss(&self, cx: &LossContext<'_>, outputs: &Outputs) -> Result<Loss, LearnError> {
        let rows = Vec::<f32>::try_from(&cx.batch.targets)?;
        self.seen.lock().unwrap().extend(rows);
        self.inner.loss(cx, outputs)
    }
}

#[test]
fn br_21_every_row_is_used_once_an_epoch_whatever_the_minibatches() {
    let (_rollout, segment) = segment();
    let segments = [segment];
    let valid = |i: &usize| segments[0].valid()[*i] != 0;
    let expected: Vec<f32> = (0..STEPS * LANES).filter(valid).map(|i| i as f32).collect();
    // 14 rows: parts of 4 and 5, of one and two, and more parts than rows.
    for minibatches in [3, 9, 50] {
        let seen = Arc::<Mutex<Vec<f32>>>::default();
        let algorithm = Noting {
            inner: Ppo::default(),
            broken: false,
            seen: Arc::clone(&seen),
        };
        let spec = LearnerSpec {
            minibatches,
            normalize_advantages: true,
            ..spec()
        };
        let mut learner = learner(spec, algorithm);
        let stats = learner.update(&segments, 100).unwrap();
        assert_eq!((stats.rows, stats.skipped), (14, 0));
        assert!(learner.params().is_finite().unwrap());
        let mut seen = seen.lock().unwrap().clone();
        seen.sort_by(f32::total_cmp);
        assert_eq!(seen, expected, "{minibatches} minibatches");
    }
}

#[test]
fn br_21_minibatches_of_one_row_leave_every_algorithm_finite() {
    let (_rollout, segment) = segment();
    let segments = [segment];
    let algorithms: [Arc<dyn Algorithm>; 4] = [
        Arc::new(Ppo::default()),
        Arc::new(Appo::default()),
        Arc::new(A2c::default()),
        Arc::new(Impala::default()),
    ];
    for algorithm in algorithms {
        let name = algorithm.name();
        let spec = LearnerSpec {
            minibatches: 14,
            normalize_advantages: true,
            ..spec()
        };
        let mut learner = Learner::new(spec, net(), algorithm, &spaces(), Device::Cpu).unwrap();
        let stats = learner.update(&segments, 100).unwrap();
        assert_eq!(stats.skipped, 0, "{name}");
        assert!(learner.params().is_finite().unwrap(), "{name}");
        assert!(stats.values.iter().all(|v| v.1.is_finite()), "{stats:?}");
    }
}

#[test]
fn br_29_a_loss_that_is_not_finite_changes_no_weight_and_ends_the_run_in_time() {
    let (_rollout, segment) = segment();
    let segments = [segment];
    let spec = LearnerSpec {
        adam: AdamSpec {
            max_skips: 2,
            ..AdamSpec::default()
        },
        ..spec()
    };
    let algorithm = Noting {
        inner: Ppo::default(),
        broken: true,
        seen: Arc::default(),
    };
    let mut learner = learner(spec, algorithm);
    let before = learner.params().weights_hash().unwrap();
    for skipped in 1..=2 {
        let stats = learner.update(&segments, 100).unwrap();
        assert_eq!(stats.skipped, skipped);
    }
    let error = learner.update(&segments, 100).unwrap_err();
    assert!(matches!(error, LearnError::Diverged { .. }), "{error}");
    assert_eq!(learner.params().weights_hash().unwrap(), before);
}

#[test]
fn a_count_of_updates_that_no_run_can_reach_is_refused() {
    let mut learner = learner(spec(), Ppo::default());
    let (params, normalizer) = (learner.params().duplicate(), learner.normalizer().clone());
    let (first, second) = learner.adam().moments();
    let moments = (first.duplicate(), second.duplicate());
    let error = learner
        .restore(
            u64::MAX,
            &params,
            (&moments.0, &moments.1, AdamCounters::default()),
            normalizer,
        )
        .unwrap_err();
    assert!(
        error.to_string().contains("saved count is damaged"),
        "{error}"
    );
    assert_eq!(learner.updates(), 10);
}

#[test]
fn br_21_a_shuffle_keeps_every_row_once() {
    let mut index: Vec<i64> = (0..10).collect();
    shuffle(&mut index, &mut EnvRng::new(3, 0, Stream::Shuffle));
    assert_ne!(index, (0..10).collect::<Vec<_>>());
    index.sort_unstable();
    assert_eq!(index, (0..10).collect::<Vec<_>>());
}

#[test]
fn sequences_hold_all_rows_of_their_stretch_and_the_state_before_it() {
    let (_rollout, segment) = segment();
    let segments = [segment];
    let spec = LearnerSpec {
        batch: 1,
        max_staleness: 4,
        recall: Some(Recall {
            length: 3,
            state: 2,
        }),
        ..spec()
    };
    let mut learner = learner(spec, Ppo::default());
    for (max_staleness, first) in [(100, 0), (4, 2)] {
        let incoming = Incoming {
            segments: &segments,
            version: 10,
            max_staleness,
        };
        learner.gather(&incoming).unwrap();
        let batch = learner.columns.batch();
        batch.check(&learner.net.spec().head).unwrap();
        let sequences = batch.sequences.as_ref().unwrap();
        let flat = |t: &Tensor| Vec::<f32>::try_from(t.to_kind(Kind::Float).reshape([-1])).unwrap();
        // Stretches of rows 0 to 2, 3 to 5, and 6 and 7 with a blank, each of lane 0 and of lane 1. Row 4
        // is a final observation, and row 5 starts an episode.
        let (mut observed, mut valid, mut starts, mut states) = (vec![], vec![], vec![], vec![]);
        let stretches = [
            ([0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [1.0, 0.0, 0.0], 1.0),
            ([3.0, 4.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0], 4.0),
            ([1.0, 2.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0], 7.0),
        ];
        for (i, (x, v, s, version)) in stretches.into_iter().enumerate() {
            // With the bound 4 rows before row 5 are stale, and the first stretch has no others.
            let v = match (first, i) {
                (0, _) | (_, 2) => v,
                (_, 1) => [0.0, 0.0, 1.0],
                _ => continue,
            };
            for lane in [0.0, 1.0] {
                observed.extend(x);
                valid.extend(v);
                starts.extend(s);
                states.extend([lane, version]);
            }
        }
        assert_eq!(flat(&batch.observations), observed);
        assert_eq!(flat(&batch.valid), valid);
        assert_eq!(flat(&sequences.starts), starts);
        assert_eq!(flat(&sequences.states), states);
        let trained = valid.iter().filter(|v| **v > 0.0).count();
        assert_eq!(learner.columns.valid_rows(), trained);
        assert_eq!(learner.columns.units() * 3, valid.len());
    }
}
