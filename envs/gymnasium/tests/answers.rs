//! What `step` and `reset` may answer, and what is said of what they may not.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod support;

use hotloop_env::{ActionBuf, AsyncVectorEnv, Cause, Fault, FaultPhase, Frame, end_flags};
use serde_json::json;
use support::{Desk, Made, toy};

fn says(kwargs: serde_json::Value) -> Made {
    toy("Says", &kwargs.to_string())
}

fn steps(step: &str) -> Made {
    says(json!({"step": step}))
}

/// The failures of the first turn that has any.
fn faults(desk: &mut Desk) -> Vec<Fault> {
    for _ in 0..6 {
        desk.turn();
        if !desk.faults.is_empty() {
            return std::mem::take(&mut desk.faults);
        }
    }
    panic!("nothing failed");
}

/// The one failure of an environment of one lane, which said all of this.
fn fails(made: &Made, phase: FaultPhase, parts: &[&str]) -> Fault {
    let faults = faults(&mut made.desk(1));
    let [fault] = &faults[..] else {
        panic!("{faults:?}")
    };
    assert_eq!((fault.phase, fault.cause), (phase, Cause::Error), "{fault}");
    for part in parts {
        assert!(fault.message.contains(part), "{part:?} is not in {fault}");
    }
    fault.clone()
}

#[test]
fn ends_are_bools_and_nothing_else_is_taken_for_one() {
    let flags = [
        ("'False'", "got 'False' (str)"),
        ("np.zeros(1, bool)", "got an array of shape (1,) of bool"),
        ("None", "got None"),
        ("2", "got 2 (int)"),
        ("0.0", "got 0.0 (float)"),
    ];
    let all = flags.map(|(flag, _)| flag).join(", ");
    for (name, step) in [
        (
            "terminated",
            format!("(obs, 1.0, [{all}][number], False, {{}})"),
        ),
        (
            "truncated",
            format!("(obs, 1.0, False, [{all}][number], {{}})"),
        ),
    ] {
        let faults = faults(&mut steps(&step).desk(flags.len()));
        assert_eq!(faults.len(), flags.len());
        for (fault, (_, got)) in faults.iter().zip(flags) {
            assert_eq!((fault.phase, fault.cause), (FaultPhase::Step, Cause::Error));
            let expected = format!("{name}: expected True or False, {got}");
            assert!(fault.message.contains(&expected), "{fault}");
        }
    }
    let all = "True, 1, np.True_, np.int64(1), False, 0, np.False_, np.uint8(0)";
    for (end, step) in [
        (
            end_flags::TERMINATED,
            format!("(obs, 1.0, [{all}][number], False, {{}})"),
        ),
        (
            end_flags::TRUNCATED,
            format!("(obs, 1.0, False, [{all}][number], {{}})"),
        ),
    ] {
        let mut desk = steps(&step).desk(8);
        desk.turn();
        desk.turn();
        assert!(desk.faults.is_empty(), "{:?}", desk.faults);
        let ends: Vec<u8> = desk.ends.iter().map(|ends| ends & 3).collect();
        assert_eq!(ends, [end, end, end, end, 0, 0, 0, 0], "{step}");
    }
}

#[test]
fn answers_of_another_shape_are_refused_with_the_right_one() {
    let expected =
        "step(): expected a tuple of observation, reward, terminated, truncated and info, got";
    for (step, got) in [
        (
            "(obs, 1.0, False, {})",
            "a tuple of 4; that is how it was before Gymnasium 0.26",
        ),
        ("obs", "an array of shape (1,) of float32"),
        ("None", "None"),
        ("[[1], [1, 2]]", "a list of 2"),
        // It could be taken apart into five.
        ("np.zeros(5)", "an array of shape (5,)"),
    ] {
        fails(&steps(step), FaultPhase::Step, &[expected, got]);
    }
    fails(
        &steps("(obs, 1.0, False, False, None)"),
        FaultPhase::Step,
        &["info: expected a dict, got None"],
    );
    for (reset, part) in [
        ("obs", "observation and info, got an array of shape (1,)"),
        ("np.zeros(2)", "observation and info, got an array"),
        ("(obs, [])", "info: expected a dict, got a list of 0"),
    ] {
        // The first one is good: it is the probe's as well.
        let later = format!("(obs, {{}}) if episode == 0 else {reset}");
        let step = "(obs, 1.0, True, False, {})";
        let fault = fails(
            &says(json!({"step": step, "reset": later})),
            FaultPhase::Reset,
            &[part],
        );
        // The step before it is found good.
        assert_eq!((fault.step, fault.in_a_row), (0, 1));
        let error = says(json!({"reset": reset})).spaces().unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    // A wrapper of Gymnasium's that takes it apart says nothing of whose it is.
    let limited = Made {
        id: "Toys/Limited-v0".into(),
        ..steps("(obs, 1.0, False, {})")
    };
    fails(
        &limited,
        FaultPhase::Step,
        &["expected 5, got 4", "step() is to return observation"],
    );
}

#[test]
fn what_gymnasium_stumbles_over_is_told_with_what_would_be_right() {
    for (id, part) in [
        ("Old", "reset() is to take seed and options, by keyword"),
        (
            "Foreign",
            "expected one of gymnasium.spaces, got a builtins.dict",
        ),
        ("Spaceless", "has no attribute"),
    ] {
        let error = toy(id, "{}").spaces().unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let mut drawn = steps("(obs, 1.0, False, False, {})");
    drawn.drawn = true;
    let mut desk = drawn.desk(1);
    desk.turn();
    let error = desk.block.render(0, &mut Frame::new()).unwrap_err();
    let expected =
        "render() returned None; the environment was made with render_mode = 'rgb_array'";
    assert!(error.to_string().contains(expected), "{error}");
    for (picture, expected) in [
        (
            "np.zeros((2, 2))",
            "height, width and 3, got an array of shape (2, 2)",
        ),
        ("np.full((2, 2, 3), 0.5)", "whole numbers from 0 to 255"),
        ("np.full((2, 2, 3), 300)", "from 0 to 300"),
    ] {
        let mut drawn = says(json!({"picture": picture}));
        drawn.drawn = true;
        let mut desk = drawn.desk(1);
        desk.turn();
        let error = desk.block.render(0, &mut Frame::new()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn br_44_observations_that_cannot_be_after_each_first_step_are_failures_in_a_row() {
    let mut desk = steps("(np.full(1, np.nan), 1.0, False, False, {})").desk(1);
    for count in 1..4 {
        let faults = loop {
            desk.turn();
            if !desk.faults.is_empty() {
                break &desk.faults;
            }
        };
        assert_eq!((faults.len(), faults[0].in_a_row), (1, count), "{faults:?}");
    }
}

#[test]
fn br_40_actions_are_within_bounds_that_float32_has_not() {
    for (space, least, greatest) in [
        ("spaces.Box(-0.1, 0.1, (2,), np.float64)", -0.1f32, 0.1),
        (
            "spaces.Box(-2**31, 2**31 - 1, (2,), np.int32)",
            -2_147_483_648.0,
            2_147_483_648.0,
        ),
        (
            "spaces.Box(-2**63, 2**63 - 1, (2,), np.int64)",
            -9.3e18,
            9.3e18,
        ),
        ("spaces.Box(0, 2**64 - 1, (2,), np.uint64)", 0.0, 1.9e19),
    ] {
        let step = "(obs, 1.0, not env.action_space.contains(action), False, {})";
        let mut desk = says(json!({"action": space, "step": step})).desk(1);
        desk.turn();
        let action = ActionBuf::new(&desk.spaces.action).with_continuous(&[least, greatest]);
        desk.set_action(0, &action);
        desk.turn();
        assert!(desk.faults.is_empty(), "{:?}", desk.faults);
        assert_eq!(desk.ends[0], 0, "{space}");
    }
}

#[test]
fn br_62_the_order_of_a_dicts_keys_changes_nothing() {
    let space = |keys: [&str; 2]| {
        let part = |key: &str| format!("('{key}', spaces.Box(-9, 9, (1,)))");
        format!("spaces.Dict([{}, {}])", part(keys[0]), part(keys[1]))
    };
    let seen = |keys| {
        let seen = "{'a': obs, 'b': obs + 5}";
        let mut desk = says(json!({
            "observation": space(keys),
            "action": space(keys),
            "reset": format!("({seen}, {{}})"),
            "step": format!("({seen}, float(action['a'][0]), False, False, {{}})"),
        }))
        .desk(1);
        desk.turn();
        let layout = desk.spaces.action.clone();
        let mut action = ActionBuf::new(&layout);
        action.continuous_mut(layout.find("a").unwrap())[0] = 1.0;
        action.continuous_mut(layout.find("b").unwrap())[0] = 2.0;
        desk.set_action(0, &action);
        desk.turn();
        assert!(desk.faults.is_empty(), "{:?}", desk.faults);
        (desk.floats(0), desk.rewards[0])
    };
    assert_eq!(seen(["a", "b"]).1, 1.0);
    assert_eq!(seen(["a", "b"]), seen(["b", "a"]));
}

#[test]
fn a_list_or_another_tuple_is_as_good() {
    let step = "[obs, np.float64(2.0), np.False_, False, __import__('types').MappingProxyType({})]";
    let mut desk = steps(step).desk(1);
    desk.turn();
    desk.turn();
    assert!(desk.faults.is_empty(), "{:?}", desk.faults);
    assert_eq!((desk.floats(0)[0], desk.rewards[0]), (1.0, 2.0));
}

#[test]
fn br_09_the_last_observation_of_an_environment_that_resets_itself_is_taken_from_info() {
    for key in ["final_obs", "final_observation", "terminal_observation"] {
        let step = format!("(obs * 0, 1.0, False, at == 2, {{'{key}': obs}} if at == 2 else {{}})");
        let mut desk = steps(&step).desk(1);
        let mut seen = vec![];
        for _ in 0..4 {
            desk.turn();
            assert!(desk.faults.is_empty(), "{:?}", desk.faults);
            seen.push((desk.floats(0)[0], desk.next_valid[0]));
        }
        assert_eq!(seen, [(0.0, 1), (0.0, 1), (2.0, 0), (0.0, 1)], "{key}");
    }
}

#[test]
fn br_44_texts_are_told_whatever_they_hold_but_not_without_end() {
    let step = |raised: &str| {
        fails(
            &steps(raised),
            FaultPhase::Step,
            &["boom-42", "in step", "odd.py"],
        )
    };
    // Half of a character: Python lets it stand, JSON and Rust do not.
    let fault = step(r"fail('\ud800 boom-42')");
    assert!(
        fault.message.starts_with("ValueError: ? boom-42"),
        "{fault}"
    );
    let fault = step("fail('boom-42 ', 500_000)");
    let end = "… (3996011 more characters)";
    assert!(fault.message.contains(end), "{}", fault.message.len());
    assert!(fault.message.len() < 20_000, "{}", fault.message.len());
    // What an error was raised from is told behind it.
    assert!(
        fault.message.contains("it came of KeyError: 'the key'"),
        "{fault}"
    );
    // One that cannot be written out, and one of which not even Python knows what to say.
    for (members, said) in [
        (
            "'__module__': 'm', '__str__': lambda self: 1 // 0",
            "m.Mute: <exception str() failed>",
        ),
        ("", "Mute, of which nothing can be said"),
    ] {
        let mute = format!("(_ for _ in ()).throw(type('Mute', (Exception,), {{{members}}})())");
        fails(&steps(&mute), FaultPhase::Step, &[said]);
    }
    let error = says(json!({"reset": r"fail('\ud800' + 'x' * 3_000_000)"}))
        .spaces()
        .unwrap_err();
    assert!(error.contains("ValueError: ?xxx") && error.len() < 20_000);
    let key = json!({"observation": r"spaces.Dict({'\ud800': spaces.Discrete(2)})"});
    let space = says(key).spaces().unwrap().observation_space.to_string();
    assert!(space.contains('?'), "{space}");
}

#[test]
fn br_41_what_an_element_type_cannot_hold_is_named_with_the_type() {
    let observes = |space: &str, value: &str| {
        says(json!({
            "observation": space,
            "reset": format!("(np.zeros(1, env.observation_space.dtype), {{}})"),
            "step": format!("({value}, 1.0, False, False, {{}})"),
        }))
    };
    let large = "spaces.Box(0, 2**64 - 1, (1,), np.uint64)";
    for (space, value, said) in [
        (
            large,
            "np.array([2**63 + 8], np.uint64)",
            "got 9223372036854775816, which int64 (as which uint64 is stored) cannot hold",
        ),
        (large, "np.array([-1])", "got -1, which uint64 cannot hold"),
        (
            "spaces.Box(0, 9, (1,), np.int32)",
            "np.array([0.5])",
            "got 0.5, which int32 cannot hold",
        ),
    ] {
        fails(&observes(space, value), FaultPhase::Step, &[said]);
    }
}

#[test]
fn rows_of_unequal_lengths_and_too_many_choices_are_named() {
    let ragged = "([[1.0], [1.0, 2.0]], 1.0, False, False, {})";
    fails(
        &steps(ragged),
        FaultPhase::Step,
        &["observation: expected shape (1,) of float32, got a list of 2"],
    );
    for action in ["spaces.Discrete(2**40)", "spaces.MultiDiscrete([2, 2**31])"] {
        let error = says(json!({"action": action})).spaces().unwrap_err();
        assert!(
            error.contains("Toys/Says-v0: action: ")
                && error.contains("has more than 2147483647 choices"),
            "{error}"
        );
    }
}

#[test]
fn spaces_that_nest_too_deep_are_refused_and_others_are_not() {
    let nested = |depth| {
        let space = format!("nested({depth})");
        says(json!({"observation": space})).spaces()
    };
    assert!(nested(31).is_ok());
    for depth in [32, 300] {
        let error = nested(depth).unwrap_err();
        assert!(
            error.contains("observation/a/a/…: spaces are nested more than 32 deep")
                && error.contains("FlattenObservation"),
            "{error}"
        );
    }
}
