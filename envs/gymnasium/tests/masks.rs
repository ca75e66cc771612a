//! Masks of actions in `info`: which are taken, which are refused, and that none is passed over.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod support;

use hotloop_env::{Cause, FaultPhase, OptionValue};
use serde_json::json;
use support::{Desk, Made, toy};

/// An environment with these actions and, at every observation, this mask.
fn masked(action: &str, mask: &str) -> Made {
    let info = format!("{{'action_mask': {mask}}}");
    says(
        action,
        &format!("(obs, {info})"),
        &format!("(obs, 1.0, False, False, {info})"),
    )
}

fn says(action: &str, reset: &str, step: &str) -> Made {
    let kwargs = json!({"action": action, "reset": reset, "step": step});
    toy("Says", &kwargs.to_string())
}

const THREE: &str = "spaces.Discrete(3)";

/// The first failure, at the step after the first, with all of this said.
fn fails(made: &Made, parts: &[&str]) {
    let mut desk = made.desk(2);
    desk.turn();
    assert!(desk.faults.is_empty(), "{:?}", desk.faults);
    desk.turn();
    assert_eq!(desk.faults.len(), 2, "{:?}", desk.faults);
    let fault = &desk.faults[1];
    assert_eq!(
        (fault.lane, fault.step, fault.phase, fault.cause),
        (1, 0, FaultPhase::Step, Cause::Error),
        "{fault}"
    );
    for part in parts {
        assert!(fault.message.contains(part), "{part:?} is not in {fault}");
    }
    assert_eq!(desk.valid, [0, 0]);
}

fn mask_of(desk: &mut Desk) -> Vec<u8> {
    desk.turn();
    desk.turn();
    assert!(desk.faults.is_empty(), "{:?}", desk.faults);
    desk.mask(0).to_vec()
}

#[test]
fn a_mask_is_taken_in_any_form_that_says_the_same() {
    let several = "spaces.MultiDiscrete([2, 3])";
    let square = "spaces.MultiDiscrete([[2, 1], [1, 2]])";
    for (action, mask, expected) in [
        (THREE, "np.array([1, 0, 1], np.int8)", vec![1, 0, 1]),
        (THREE, "np.array([True, False, True])", vec![1, 0, 1]),
        (THREE, "[0, 1, 0]", vec![0, 1, 0]),
        (THREE, "np.array([1.0, 0.0, 0.0])", vec![1, 0, 0]),
        (several, "np.array([1, 0, 0, 1, 1])", vec![1, 0, 0, 1, 1]),
        (
            several,
            "(np.array([1, 0], np.int8), np.array([0, 1, 1], np.int8))",
            vec![1, 0, 0, 1, 1],
        ),
        (several, "([True, False], [0, 0, 1])", vec![1, 0, 0, 0, 1]),
        (
            square,
            "((np.array([1, 0]), np.array([1])), (np.array([1]), np.array([0, 1])))",
            vec![1, 0, 1, 1, 0, 1],
        ),
    ] {
        let mut desk = masked(action, mask).desk(1);
        assert_eq!(mask_of(&mut desk), expected, "{mask}");
    }
}

#[test]
fn a_mask_that_says_something_else_is_refused() {
    let good = "np.array([1, 0, 1])";
    let several = "spaces.MultiDiscrete([2, 3])";
    for (action, first, mask, parts) in [
        (
            THREE,
            good,
            "np.array([1, 0])",
            vec!["expected 3 values of 0 or 1, got an array of shape (2,)"],
        ),
        (
            THREE,
            good,
            "np.ones((3, 1))",
            vec!["got an array of shape (3, 1)"],
        ),
        (
            THREE,
            good,
            "'all'",
            vec!["expected 3 values", "'all' (str)"],
        ),
        (
            THREE,
            good,
            "np.array([1, 2, 0], np.int8)",
            vec!["expected 0 or 1", "[1 2 0]"],
        ),
        (
            THREE,
            good,
            "np.array([1, -1, 0], np.int8)",
            vec!["expected 0 or 1", "-1"],
        ),
        (
            THREE,
            good,
            "np.array([0.0, -np.inf, 0.0])",
            vec!["expected 0 or 1", "inf"],
        ),
        (
            THREE,
            good,
            "np.zeros(3, np.int8)",
            vec!["allows none of 3 choices"],
        ),
        (
            THREE,
            good,
            "None",
            vec![
                "had one at the first reset",
                "env.options.action_mask=false",
            ],
        ),
        (
            several,
            "np.ones(5)",
            "(np.ones(3), np.ones(2))",
            vec![
                "expected 5 values",
                "one array for each of the choices [2, 3]",
            ],
        ),
        (
            several,
            "np.ones(5)",
            "(np.zeros(2), np.ones(3))",
            vec!["none of 2 choices"],
        ),
    ] {
        let made = says(
            action,
            &format!("(obs, {{'action_mask': {first}}})"),
            &format!("(obs, 1.0, False, False, {{'action_mask': {mask}}})"),
        );
        fails(&made, &parts);
    }
    let gone = says(
        THREE,
        "(obs, {'action_mask': np.ones(3)})",
        "(obs, 1.0, False, False, {})",
    );
    fails(
        &gone,
        &["info has no \"action_mask\", but had one at the first reset"],
    );
}

#[test]
fn a_mask_that_comes_late_is_not_passed_over() {
    let mut late = says(
        THREE,
        "(obs, {})",
        "(obs, 1.0, False, False, {'action_mask': np.array([1, 0, 0])})",
    );
    fails(
        &late,
        &[
            "but the first reset had none",
            "that of reset() included",
            "env.options.action_mask=false",
        ],
    );
    late.options = [("action_mask".to_string(), OptionValue::Bool(false))].into();
    assert!(mask_of(&mut late.desk(1)).is_empty());
    // None is no mask.
    let none = says(
        THREE,
        "(obs, {})",
        "(obs, 1.0, False, False, {'action_mask': None})",
    );
    assert!(mask_of(&mut none.desk(1)).is_empty());
    // It may be a later reset that has one.
    let reset = "(obs, {} if episode == 0 else {'action_mask': np.ones(3)})";
    let mut desk = says(THREE, reset, "(obs, 1.0, True, False, {})").desk(1);
    desk.turn();
    desk.turn();
    assert_eq!(desk.faults[0].phase, FaultPhase::Reset, "{:?}", desk.faults);
    assert_eq!((desk.valid[0], desk.next_valid[0]), (1, 0));
}

#[test]
fn a_final_observation_needs_no_mask() {
    for info in ["{}", "{'action_mask': np.zeros(3)}"] {
        let mut desk = says(
            THREE,
            "(obs, {'action_mask': np.array([0, 1, 0])})",
            &format!("(obs, 1.0, False, True, {info})"),
        )
        .desk(1);
        assert_eq!(mask_of(&mut desk), [1, 1, 1], "{info}");
        desk.turn();
        assert_eq!((desk.mask(0), desk.next_valid[0]), (&[0, 1, 0][..], 1));
    }
}

#[test]
fn masks_of_other_actions_are_refused_at_the_start() {
    for action in [
        "spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])",
        "spaces.Dict({'a': spaces.Discrete(2)})",
        "spaces.Box(-1, 1, (2,))",
    ] {
        let mut made = masked(action, "(np.ones(2), np.ones(3))");
        let error = made.spaces().unwrap_err();
        assert!(
            error.contains("takes masks for Discrete and MultiDiscrete actions")
                && error.contains("env.options.action_mask=false"),
            "{error}"
        );
        made.options = [("action_mask".to_string(), OptionValue::Bool(false))].into();
        assert_eq!(made.spaces().unwrap().action.mask_bytes(), 0);
    }
}
