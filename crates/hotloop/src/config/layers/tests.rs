//! Layering, types and unknown keys.

use super::*;
use crate::config::{Mode, ScheduleKind};

fn set(text: &str) -> Result<Config, String> {
    Layers::new()
        .set(text)
        .map(|layers| layers.finish().0)
        .map_err(|error| error.to_string())
}

#[test]
fn later_layers_win_key_by_key() {
    let file = "preset = \"cartpole\"\nseed = 7\n[algo]\ngamma = 0.9\nepochs = 3\n";
    let (config, origins) = Layers::new()
        .text(file, Origin::File("my.toml".into()))
        .unwrap()
        .set("algo.epochs=5")
        .unwrap()
        .finish();
    assert_eq!(config.env.id, "CartPole-v1"); // the preset's
    assert_eq!((config.seed, config.algo.gamma), (7, 0.9)); // the file's
    assert_eq!(config.algo.epochs, 5); // the flag's
    assert_eq!(config.algo.clip, 0.2); // the default's
    assert_eq!(origins.of("env.id"), Origin::Preset("cartpole".into()));
    assert_eq!(origins.of("seed"), Origin::File("my.toml".into()));
    assert_eq!(origins.of("algo.epochs"), Origin::Flag("--set".into()));
    assert_eq!(origins.of("algo.clip"), Origin::Default);
}

#[test]
fn values_are_toml_or_text() {
    assert_eq!(set("steps=5e5").unwrap().steps, 500_000);
    assert_eq!(set("steps = 1_000").unwrap().steps, 1000);
    assert_eq!(set("env.id=CartPole-v1").unwrap().env.id, "CartPole-v1");
    assert_eq!(set("env.id=\"a\"").unwrap().env.id, "a");
    assert_eq!(set("device=cuda:0").unwrap().device, "cuda:0");
    assert_eq!(
        set("network.hidden=[16, 16]").unwrap().network.hidden,
        [16, 16]
    );
    assert_eq!(set("algo.gamma=1").unwrap().algo.gamma, 1.0);
    assert_eq!(
        set("rollout.mode=overlap").unwrap().rollout.mode,
        Mode::Overlap
    );
    assert_eq!(
        set("algo.clip_schedule=linear").unwrap().algo.clip_schedule,
        ScheduleKind::Linear
    );
    assert_eq!(set("until_return=475").unwrap().until_return, Some(475.0));
    let options = set("env.options.goal.x=3").unwrap().env.options;
    assert_eq!(options["goal.x"], Value::Integer(3));
    let inline = set("algo={gamma=0.5, epochs=2}").unwrap().algo;
    assert_eq!((inline.gamma, inline.epochs), (0.5, 2));
}

#[test]
fn an_unknown_key_is_named_with_its_origin_and_the_nearest() {
    assert_eq!(
        set("algo.gama=0.9").unwrap_err(),
        "unknown key \"algo.gama\" (from --set); did you mean \"algo.gamma\"?"
    );
    let error = set("envs=3").unwrap_err();
    assert!(error.contains("did you mean \"rollout.envs\"?"), "{error}");
    let error = set("zzzzzz=3").unwrap_err();
    assert!(error.contains("config show"), "{error}");
    let error = Layers::new()
        .text("[algo]\nlearning_rat = 1", Origin::File("a.toml".into()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("(from file a.toml)"), "{error}");
}

#[test]
fn a_value_of_the_wrong_type_says_what_was_expected() {
    for (text, expected) in [
        (
            "algo.epochs=many",
            "algo.epochs = \"many\" (from --set) cannot be: expected a whole number, 0 or more",
        ),
        (
            "algo.epochs=-1",
            "algo.epochs = -1 (from --set) cannot be: expected a whole number, 0 or more",
        ),
        ("algo.epochs=1.5", "expected a whole number, 0 or more"),
        ("algo.gamma=high", "expected a number"),
        ("network.shared=yes", "expected true or false"),
        ("network.hidden=64", "expected a list, as in [64, 64]"),
        ("env.id=3", "expected a text"),
        (
            "env.clip_reward=1",
            "expected two numbers, as in [-1.0, 1.0]",
        ),
        ("env.clip_reward=[0, 1, 2]", "expected two numbers"),
        (
            "rollout.mode=later",
            "expected one of \"auto\", \"sync\", \"overlap\", \"async\"",
        ),
        (
            "algo=3",
            "expected keys of the section, as in algo.NAME = VALUE",
        ),
        ("env.options=3", "expected keys of the section"),
        ("env.kwargs=3", "expected keys of the section"),
    ] {
        let error = set(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn what_is_not_a_pair_is_refused() {
    for text in ["algo.gamma", "=3", "algo.gamma=", ""] {
        assert!(set(text).unwrap_err().contains("KEY=VALUE"), "{text}");
    }
    // Two keys if it were pasted into a document; here one text.
    let (config, origins) = Layers::new()
        .flag("--device", "device", "1\nseed = 3")
        .unwrap()
        .finish();
    assert_eq!((config.device.as_str(), config.seed), ("1\nseed = 3", 1));
    assert_eq!(origins.of("device"), Origin::Flag("--device".into()));
}

#[test]
fn text_that_is_not_toml_is_named_with_its_line() {
    let error = Layers::new()
        .text("seed = 1\nsteps 5\n", Origin::File("a.toml".into()))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("file a.toml, line 2, is not TOML: "),
        "{error}"
    );
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn an_unknown_preset_in_a_file_is_suggested() {
    let error = Layers::new()
        .text("preset = \"cartpol\"", Origin::File("a.toml".into()))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "unknown preset \"cartpol\" (from file a.toml); did you mean \"cartpole\"?"
    );
}

#[test]
fn every_preset_has_only_known_keys() {
    for name in presets::names() {
        let (config, _) = Layers::new().preset(name).unwrap().finish();
        assert!(!config.env.id.is_empty(), "{name}");
    }
}

#[test]
fn a_preset_may_name_another_beneath_it() {
    let (config, origins) = Layers::new().preset("hopper").unwrap().finish();
    assert_eq!(config.env.id, "Hopper-v5");
    assert_eq!(origins.of("env.id"), Origin::Preset("hopper".into()));
    assert_eq!(config.rollout.horizon, 2048);
    let of_horizon = origins.of("rollout.horizon");
    assert_eq!(of_horizon, Origin::Preset("halfcheetah".into()));

    let error = Layers::new().lay_preset("mine", "preset = \"hoper\"");
    let error = error.unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown preset \"hoper\" (from preset mine); did you mean \"hopper\"?"
    );
}

#[test]
fn a_preset_has_settings_of_its_own_for_an_algorithm() {
    let special = || {
        let text =
            "seed = 3\n[algo]\ngamma = 0.9\nepochs = 8\n[for.a2c.algo]\nepochs = 1\ngamma = 0.8";
        Layers::new().lay_preset("mine", text).unwrap()
    };
    let (config, origins) = special().finish();
    assert_eq!((config.algo.epochs, config.algo.gamma), (8, 0.9));
    assert_eq!(origins.of("algo.epochs"), Origin::Preset("mine".into()));

    let (config, origins) = special()
        .set("algo.gamma=0.5")
        .unwrap()
        .set("algo.name=a2c")
        .unwrap()
        .finish();
    assert_eq!((config.seed, config.algo.epochs), (3, 1));
    assert_eq!(config.algo.gamma, 0.5, "a flag wins");
    let origin = origins.of("algo.epochs").to_string();
    assert_eq!(origin, "preset mine, [for.a2c]");

    let error = Layers::new().lay_preset("mine", "[for.a2c.algo]\nepoch = 1");
    let error = error.unwrap_err().to_string();
    assert!(error.contains("did you mean \"algo.epochs\"?"), "{error}");
    // Only presets have them.
    let error = Layers::new().text("[for.a2c.algo]\nepochs = 1", Origin::File("a.toml".into()));
    assert!(error.is_err());
}

#[test]
fn what_a_preset_says_holds_whatever_the_one_beneath_says_of_an_algorithm() {
    let text = "preset = \"cartpole\"\n[algo]\nlearning_rate = 0.5";
    let layers = Layers::new().lay_preset("mine", text).unwrap();
    let (config, origins) = layers.set("algo.name=impala").unwrap().finish();
    assert_eq!(config.algo.learning_rate, 0.5);
    let of_rate = origins.of("algo.learning_rate");
    assert_eq!(of_rate, Origin::Preset("mine".into()));
    assert_eq!(config.rollout.envs, 8, "what it is silent on");
}

#[test]
fn keyword_arguments_in_pythons_spelling_are_refused_and_texts_are_texts() {
    for value in ["True", "False", "None", "[True]", "{'a': 1}", "(1, 2)"] {
        let error = set(&format!("env.kwargs.slippery={value}")).unwrap_err();
        for part in ["env.kwargs.slippery", value, "true, false"] {
            assert!(error.contains(part), "{error}");
        }
    }
    for (value, read) in [
        ("false", Value::Boolean(false)),
        ("4x4", Value::String("4x4".into())),
        ("'False'", Value::String("False".into())),
        ("[1, 2]", Value::Array(vec![1.into(), 2.into()])),
    ] {
        let text = format!("env.kwargs.map={value}");
        let (config, _) = Layers::new().set(&text).unwrap().finish();
        assert_eq!(config.env.kwargs["map"], read);
    }
}

#[test]
fn a_name_that_others_use_is_understood() {
    let error = set("algo.lr=1e-3").unwrap_err();
    assert!(
        error.contains("did you mean \"algo.learning_rate\"?"),
        "{error}"
    );
    let error = set("lr=1e-3").unwrap_err();
    assert!(
        error.contains("did you mean \"algo.learning_rate\"?"),
        "{error}"
    );
}
