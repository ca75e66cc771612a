//! How a batch is drawn from, row by row or by sequences.

use super::*;

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
