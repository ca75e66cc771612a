//! The unit of values.

use super::*;

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

#[test]
fn a_unit_of_its_own_is_turned_back_by_workers_and_where_rows_are_evaluated_anew() {
    let (_rollout, first) = segment();
    let spec = LearnerSpec {
        normalize: NormalizerSpec {
            values: ValueNormalization::PopArt,
            ..Default::default()
        },
        ..spec()
    };
    let mut learner = learner(spec, Appo::default());
    learner.update(&[first], 100).unwrap();
    let store = Arc::new(PolicyStore::new());
    learner.publish(&store).unwrap();
    let actor = ActorPolicy::new(Actor::new(net(), &spaces()), store, 7);
    let config = RolloutConfig {
        lanes: LANES,
        lanes_per_actor: LANES,
        steps: STEPS,
        ..Default::default()
    };
    let make = |_, lanes| Ok(Block::Sync(Box::new(Copies::new(lanes, || Ok(Steps(0)))?)));
    let rollout = Rollout::start(config, spaces(), make, vec![Box::new(actor)], None).unwrap();
    rollout.grant(0, Acting::At(learner.updates())).unwrap();
    let segments = [rollout.recv().unwrap()];

    let (said, _) = by_hand(&segments[0], learner.params());
    let mut expected = said.clone();
    let unit = learner.normalizer().value_unit().unwrap();
    unit.denormalize(&mut expected);
    let incoming = Incoming {
        segments: &segments,
        version: learner.updates(),
        max_staleness: 0,
    };
    learner.gather(&incoming).unwrap();
    let (anew, _) = learner.reevaluation.rows(0, (STEPS + 1) * LANES);
    for i in 0..expected.len() {
        assert!(
            (said[i] - expected[i]).abs() > 0.1,
            "row {i}: the unit must differ"
        );
        assert!(
            (segments[0].values()[i] - expected[i]).abs() < 1e-5,
            "row {i}"
        );
        assert!((anew[i] - expected[i]).abs() < 1e-5, "row {i}");
    }
}
