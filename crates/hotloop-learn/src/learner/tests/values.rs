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
