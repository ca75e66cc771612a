//! Rows that are too old, and the statistics of the versions before.

use super::*;

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
    // Other rows are young enough each time, so that no two versions have the same statistics.
    for version in [4, 6, 8, 10] {
        learner.updates = version;
        learner.update(&segments, 100).unwrap();
        history.push(learner.normalizer().standardizer().unwrap().clone());
    }
    assert!(history.windows(2).all(|pair| pair[0] != pair[1]));
    for (age, expected) in [(0, 4), (1, 3), (2, 2), (9, 2)] {
        let found = learner.normalizer().standardizer_before(age).unwrap();
        assert_eq!(found, &history[expected], "{age} versions before");
    }

    // Rows 5, 6 and 7 were decided on by versions 6, 7 and 8: each is seen as its own version saw it.
    let incoming = Incoming {
        segments: &segments,
        version: 8,
        max_staleness: 2,
    };
    let seen = learner
        .features
        .of(&segments[0], STEPS, &incoming, &learner.normalizer);
    let raw: &[f32] = bytemuck::cast_slice(segments[0].observations());
    for (row, version) in [(5, 2), (6, 3), (7, 4)] {
        let lanes = row * LANES..(row + 1) * LANES;
        let mut expected = [0.0; LANES];
        history[version].apply(&raw[lanes.clone()], &mut expected);
        assert_eq!(&seen[lanes], expected, "row {row}");
    }
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
