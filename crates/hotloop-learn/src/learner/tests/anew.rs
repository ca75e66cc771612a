//! Rows as the weights see them that are about to be trained.

use super::*;

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
