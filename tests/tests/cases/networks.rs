//! Networks and heads of every kind, through the trainer and back from disk.

use crate::holds;
use hotloop::network::{Body, FeatureSpec, Init, LearnError, ParamBuilder, Views};
use hotloop::{Agent, Choice, Error, EvalPlan, Which};
use hotloop_env::{
    ActionView, Env, EnvError, EnvRng, EnvSpec, ImageLayout, ObservationMut, Registry, ResetCtx,
    Space, Transition,
};
use hotloop_tests::{mirror, mixed, picture, trainer};
use tch::Tensor;

fn registry(spec: &EnvSpec) -> Registry {
    let mut registry = Registry::new();
    registry.add(spec.clone());
    registry
}

fn plan(episodes: usize) -> EvalPlan {
    EvalPlan {
        episodes,
        seed: 7,
        choice: Choice::Greedy,
    }
}

/// Trains on an image, a number and a choice, for a masked choice and a number; the best return is 20.
fn learns_mixed(settings: &[&str]) {
    let base = [
        "rollout.envs=64",
        "rollout.horizon=16",
        "network.hidden=[64]",
        "network.shared=true",
        "algo.epochs=8",
        "algo.minibatches=4",
        "algo.learning_rate=2e-3",
        "algo.learning_rate_schedule=linear",
        "algo.gamma=0",
        "algo.entropy=0",
        "steps=40000",
    ];
    let dir = tempfile::tempdir().unwrap();
    let settings = [&base[..], settings].concat();
    let run = trainer(&mixed(), &settings).run_dir(dir.path().join("run"));
    let report = run.build().unwrap().train().unwrap();
    assert_eq!(report.faults, 0, "a forbidden choice was made");
    let agent = Agent::load(&report.run_dir, &registry(&mixed()), Which::Last, "cpu");
    let evaluation = agent.unwrap().evaluate(plan(50), 10).unwrap();
    assert_eq!(evaluation.faults, 0);
    assert!(
        evaluation.return_mean > 19.5,
        "{} of at most 20 ({settings:?}); {:?} in training",
        evaluation.return_mean,
        report.return_mean_100
    );
}

#[test]
fn a_mixed_observation_and_a_composed_action_are_learned_to_the_optimum() {
    learns_mixed(&[]);
}

#[test]
fn a_mixed_observation_and_a_composed_action_are_learned_asynchronously() {
    learns_mixed(&["algo.name=appo", "rollout.mode=async"]);
}

#[test]
fn a_squashed_action_with_deviations_of_the_state_is_learned_to_the_optimum() {
    learns_mixed(&["network.squash=true", "network.log_std=state"]);
}

#[test]
fn a_squash_without_bounds_and_a_network_without_image_are_refused_before_anything_runs() {
    for (spec, setting, expected) in [
        (
            mirror(),
            "network.squash=true",
            &["between -inf and inf", "network.squash = false"],
        ),
        (
            mirror(),
            "network.body=nature-cnn",
            &["no part of the observation", "mlp fits"],
        ),
        (
            picture(),
            "network.body=nature-cnn",
            &["image of 2 × 2 (3 channels)", "impala-resnet"],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let run = trainer(&spec, &[setting]).run_dir(dir.path().join("run"));
        let Err(error) = run.build() else {
            panic!("{setting} is taken");
        };
        holds(&error.to_string(), expected);
        assert!(!dir.path().join("run").exists());
    }
}

/// A large image that is never shown.
struct Unseen;

impl Env for Unseen {
    fn observation_space(&self) -> Space {
        Space::image([1000, 1000, 1], ImageLayout::Hwc)
    }
    fn action_space(&self) -> Space {
        Space::discrete(2)
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        Ok(Transition::running(0.0))
    }
    fn observe(&mut self, _: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        Ok(())
    }
}

#[test]
fn br_43_images_that_fit_as_bytes_but_not_as_features_are_refused_at_the_start() {
    let spec = EnvSpec::new("Unseen-v0", |_| Ok(Unseen));
    let build = |horizon: usize| {
        let dir = tempfile::tempdir().unwrap();
        let horizon = format!("rollout.horizon={horizon}");
        let settings = ["network.body=mlp", "rollout.envs=4", &horizon];
        let run = trainer(&spec, &settings).run_dir(dir.path().join("run"));
        run.build().map(|_| ())
    };
    let Err(Error::Memory {
        what, available, ..
    }) = build(1 << 20)
    else {
        panic!("four tebibytes are taken");
    };
    assert_eq!(what, "the segments");
    // A third of what there is, which as features is eight thirds.
    let error = build(available / 3 / 4_000_000).unwrap_err();
    let (error, usage) = (error.to_string(), error.is_usage());
    holds(&error, &["the rows of an update", "rollout.horizon"]);
    assert!(usage);
}

/// One layer that is scaled by a weight of its own.
#[derive(Debug)]
struct Scaled(i64);

impl Body for Scaled {
    fn build(
        &self,
        inputs: &FeatureSpec,
        params: &mut ParamBuilder<'_>,
    ) -> Result<usize, LearnError> {
        params.linear("in", inputs.len(), self.0 as usize, 1.0);
        params.push("scale", &[self.0], Init::Constant(0.25));
        Ok(self.0 as usize)
    }

    fn forward(
        &self,
        _: &FeatureSpec,
        params: &Views<'_>,
        x: &Tensor,
    ) -> Result<Tensor, LearnError> {
        Ok(params
            .linear("in", x)?
            .f_tanh()?
            .f_mul(params.get("scale")?)?)
    }
}

#[test]
fn a_network_of_ones_own_trains_and_is_read_back_with_itself_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let run = trainer(&mirror(), &[]).run_dir(&path).network(Scaled(8));
    run.build().unwrap().train().unwrap();
    let registry = registry(&mirror());
    let load = |body| Agent::load_network(&path, &registry, Which::Last, "cpu", body);
    let first = load(Scaled(8)).unwrap().evaluate(plan(1), 1).unwrap();
    let again = load(Scaled(8)).unwrap().evaluate(plan(1), 1).unwrap();
    assert_eq!(first, again);
    let Err(error) = Agent::load(&path, &registry, Which::Last, "cpu") else {
        panic!("the configured network is another");
    };
    holds(&error.to_string(), &["actor."]);
    let Err(error) = load(Scaled(9)) else {
        panic!("a wider network is another");
    };
    holds(&error.to_string(), &["actor.in.weight"]);
}
