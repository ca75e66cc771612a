//! Every range and every fit, with its message.

use super::*;
use crate::config::Layers;
use hotloop_env::{
    ActionView, Env, EnvError, EnvRng, EnvSpec, ObservationMut, ResetCtx, Space, Transition,
};

struct Still;
impl Env for Still {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
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
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[0.0f32])
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    let spec = EnvSpec::new("Still-v0", |_| Ok(Still)).option("speed", 1.0, "how fast");
    registry.add(spec);
    registry
}

fn check(sets: &[&str]) -> Result<(), String> {
    let mut layers = Layers::new().set("env.id=Still-v0").unwrap();
    for set in sets {
        layers = layers.set(set).unwrap();
    }
    let (config, origins) = layers.finish();
    config
        .validate(&registry(), &origins)
        .map_err(|error| error.to_string())
}

#[test]
fn the_defaults_run() {
    assert_eq!(check(&[]), Ok(()));
    assert_eq!(check(&["rollout.mode=overlap"]), Ok(()));
    assert_eq!(check(&["rollout.scheduler=first-ready"]), Ok(()));
    for algorithm in ALGORITHMS {
        assert_eq!(check(&[&format!("algo.name={algorithm}")]), Ok(()));
    }
}

#[test]
fn values_out_of_range_are_named_with_what_is_possible() {
    for (set, expected) in [
        (
            "steps=0",
            "steps = 0 (from --set) cannot be: expected 1 or more",
        ),
        (
            "rollout.horizon=0",
            "rollout.horizon = 0 (from --set) cannot be: expected 1 to 1048576",
        ),
        ("rollout.envs=0", "rollout.envs = 0"),
        ("rollout.groups=0", "rollout.groups = 0"),
        (
            "rollout.max_failures_in_a_row=0",
            "rollout.max_failures_in_a_row = 0",
        ),
        ("rollout.segments=65536", "rollout.segments = 65536"),
        ("threads=5000", "threads = 5000"),
        ("device=\"\"", "expected \"cpu\""),
        ("until_return=inf", "until_return = inf"),
        ("network.hidden=[64, 0]", "network.hidden = [64, 0]"),
        ("algo.name=sac", "expected one of: ppo, a2c, impala, appo"),
        (
            "algo.gamma=1.5",
            "algo.gamma = 1.5 (from --set) cannot be: expected 0 to 1",
        ),
        ("algo.gamma=nan", "algo.gamma = nan"),
        (
            "env.clip_reward=[1, -1]",
            "env.clip_reward = [1.0, -1.0] (from --set)",
        ),
        ("env.clip_reward=[nan, 1]", "low no more than high"),
        ("env.clip_reward=[inf, inf]", "a finite reward between"),
        ("rollout.max_staleness=0", "expected 1 to 63"),
        ("rollout.max_staleness=64", "expected 1 to 63"),
        ("rollout.step_deadline=-1", "expected 0 (no limit)"),
        ("rollout.backoff=31", "expected 0 to 30 seconds"),
        ("rollout.stuck_after=nan", "rollout.stuck_after = nan"),
        ("network.recurrent_size=0", "network.recurrent_size = 0"),
        ("algo.rho_clip=0", "algo.rho_clip"),
        ("algo.c_clip=inf", "algo.c_clip"),
        ("algo.rho_pg_clip=-1", "algo.rho_pg_clip"),
        ("algo.sequence=2000000", "algo.sequence"),
        ("env.frame_stack=2000", "env.frame_stack = 2000"),
        ("algo.gae_lambda=-0.1", "algo.gae_lambda = -0.1"),
        ("algo.learning_rate=0", "expected more than 0"),
        ("algo.learning_rate=inf", "algo.learning_rate = inf"),
        ("algo.adam_eps=0", "algo.adam_eps"),
        ("algo.minibatches=0", "algo.minibatches = 0"),
        ("algo.clip=0", "algo.clip"),
        ("algo.value_clip=-1", "expected 0 (off) or more"),
        ("algo.entropy=-1", "algo.entropy"),
        ("algo.value_coef=-1", "algo.value_coef"),
        ("algo.max_grad_norm=-1", "algo.max_grad_norm"),
        ("algo.target_kl=-1", "algo.target_kl"),
        ("algo.shards=0", "algo.shards = 0"),
        ("normalize.observation_clip=0", "normalize.observation_clip"),
        ("normalize.reward_clip=0", "normalize.reward_clip"),
        ("normalize.observation_clip=1e-300", "as a 32-bit float"),
        ("normalize.reward_clip=1e300", "as a 32-bit float"),
        ("eval.episodes=0", "eval.episodes = 0"),
        ("eval.episodes=1e12", "expected 1 to 1000000"),
        ("eval.envs=0", "eval.envs = 0"),
    ] {
        let error = check(&[set]).unwrap_err();
        assert!(error.contains(expected), "{set}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn what_does_not_fit_is_named_with_what_would() {
    for (sets, expected) in [
        (
            &["algo.minibatches=7"][..],
            "algo.minibatches = 7 (from --set) does not fit: it does not divide the batch of 2048 rows \
             (rollout.envs = 64 times rollout.horizon = 32); 8 does",
        ),
        (
            &["rollout.groups=3"],
            "it does not divide rollout.envs = 64; 2 does",
        ),
        (
            &["rollout.envs_per_actor=5"],
            "it does not divide the 32 environments of a group",
        ),
        (
            &["rollout.mode=overlap", "rollout.segments=1"],
            "take 2 or more",
        ),
        (
            &[
                "rollout.scheduler=first-ready",
                "rollout.max_batch=1",
                "rollout.envs_per_actor=8",
            ],
            "an actor alone brings 8 environments",
        ),
        (&["until_return=475"], "set eval.every"),
        (
            &["algo.name=a2c", "algo.epochs=2"],
            "algo.epochs = 2 (from --set) does not fit: a2c makes one pass",
        ),
        (&["algo.name=impala", "algo.epochs=8"], "set algo.epochs=1"),
        (
            &["network.hidden=[]", "network.shared=true"],
            "no hidden layer to share",
        ),
        (&["algo.minibatches=2048"], "a minibatch has only 1 rows"),
        (&["algo.sequence=8"], "set network.recurrent"),
        (&["rollout.step_deadline=2"], "Still-v0 waits for nothing"),
        (&["rollout.reset_deadline=2"], "set it to 0"),
    ] {
        let error = check(sets).unwrap_err();
        assert!(error.contains(expected), "{sets:?}: {error}");
    }
}

#[test]
fn environments_and_their_options_are_looked_up() {
    assert_eq!(check(&["env.options.speed=2"]), Ok(()));
    let error = check(&["env.options.sped=2"]).unwrap_err();
    assert!(error.contains("did you mean \"speed\"?"), "{error}");
    assert!(error.starts_with("env.options (from --set)"), "{error}");
    let error = check(&["env.options.speed=fast"]).unwrap_err();
    assert!(error.contains("its default is 1"), "{error}");
    let error = check(&["env.options.speed=[1]"]).unwrap_err();
    assert!(error.contains("options are true or false"), "{error}");
    let error = check(&["env.id=Stil-v0"]).unwrap_err();
    assert!(error.starts_with("env.id (from --set)"), "{error}");
    assert!(error.contains("did you mean \"Still-v0\"?"), "{error}");
    let error = Config::default()
        .validate(&registry(), &Origins::default())
        .unwrap_err();
    assert!(error.to_string().contains("it is not set"), "{error}");
}

#[test]
fn every_preset_fits() {
    for name in crate::presets::names() {
        let layers = Layers::new().preset(name).unwrap();
        let (mut config, origins) = layers.set("env.id=Still-v0").unwrap().finish();
        // Those of the preset's own environment.
        config.env.options.clear();
        assert_eq!(
            config
                .validate(&registry(), &origins)
                .map_err(|e| e.to_string()),
            Ok(()),
            "{name}"
        );
    }
}

#[test]
fn suggested_divisors_divide() {
    assert_eq!(divisor(2048, 7), 8);
    assert_eq!(divisor(64, 3), 2);
    assert_eq!(divisor(64, 4), 4);
    assert_eq!(divisor(7, 3), 1);
    assert_eq!(divisor(64, 1000), 64);
}

#[test]
fn wrappers_go_around_the_environment() {
    let (config, origins) = Layers::new()
        .set("env.id=Still-v0")
        .unwrap()
        .set("env.frame_stack=4")
        .unwrap()
        .finish();
    let registry = registry();
    let (spec, options) = config.env.resolve(&registry, &origins).unwrap();
    let space = spec.spaces(&options).unwrap().observation_space;
    assert_eq!(space, Space::unbounded(&[4, 1]));
}

#[test]
fn a_memory_acts_in_f32() {
    let bf16 = "network.inference_dtype=bf16";
    assert_eq!(check(&[bf16]), Ok(()));
    let error = check(&[bf16, "network.recurrent=lstm"]).unwrap_err();
    assert!(
        error.contains("network.inference_dtype = \"bf16\"") && error.contains("acts in f32 only"),
        "{error}"
    );
}

#[test]
fn what_python_is_told_reaches_the_environment_as_json() {
    let layers = |id: &str, sets: &[&str]| {
        let layers = Layers::new().set(&format!("env.id={id}")).unwrap();
        let set = |layers: Layers, set: &&str| layers.set(set).unwrap();
        sets.iter().fold(layers, set).finish()
    };
    let mut registry = registry();
    registry.add_family("py", |name| {
        let spaces = |_: &_| Err("no".into());
        let spec = EnvSpec::asynchronous_vector(name, |_, _| Err("no".into()), spaces);
        Ok(spec.in_python())
    });
    let (config, origins) = layers(
        "py:Walk-v0",
        &[
            "env.import=one, two",
            "env.kwargs.size=3",
            "env.kwargs.deep.names=[\"a\"]",
            "env.wrappers=[\"m:A\", {wrapper=\"m:B\", n=4}]",
            "env.python=python3.9",
        ],
    );
    let (_, options) = config.env.resolve(&registry, &origins).unwrap();
    let python = options.python();
    assert_eq!(python.imports, ["one", "two"]);
    assert_eq!(python.kwargs, r#"{"deep":{"names":["a"]},"size":3}"#);
    assert_eq!(python.wrappers, r#"["m:A",{"n":4,"wrapper":"m:B"}]"#);
    assert_eq!(python.interpreter.as_deref(), Some("python3.9"));
    // What a run keeps reads back.
    let text = config.to_toml();
    let again = Layers::new().text(&text, super::super::Origin::Flag("x".into()));
    assert_eq!(again.unwrap().finish().0, config);

    for (id, set, part) in [
        ("Still-v0", "env.kwargs.size=3", "Still-v0 is none"),
        ("Still-v0", "env.python=python3", "env.python"),
        ("py:Walk-v0", "env.wrappers=[\"Clip\"]", "\"module:Class\""),
        ("py:Walk-v0", "env.wrappers=[3]", "3 is neither"),
        ("py:Walk-v0", "env.kwargs.a.b=[1, nan]", "a holds nan"),
    ] {
        let (config, origins) = layers(id, &[set]);
        let error = config.env.resolve(&registry, &origins).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}
