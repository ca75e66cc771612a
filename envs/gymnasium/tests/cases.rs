//! What environments may return, and what becomes of it: against real workers.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod support;

use hotloop_env::{
    ActionBuf, Cause, FaultPhase, ImageLayout, LeafKind, OptionValue, Space, end_flags,
};
use support::{Desk, made, soon, toy};

/// Observations of lane 0 in so many turns, each with whether the row's decision counted.
fn seen(desk: &mut Desk, turns: usize) -> Vec<(f32, bool)> {
    let turn = |_| {
        desk.turn();
        assert!(desk.faults.is_empty(), "{:?}", desk.faults);
        (desk.floats(0)[0], desk.valid[0] != 0)
    };
    (0..turns).map(turn).collect()
}

#[test]
fn br_08_an_environment_that_resets_itself_has_no_rows_of_its_own() {
    let mut count = toy("Count", r#"{"length": 3, "end": "term"}"#);
    count.wrappers = r#"["gymnasium.wrappers:Autoreset"]"#.into();
    let mut desk = count.desk(1);
    let (mut returns, mut lengths, mut rows) = (vec![], vec![], vec![]);
    let mut before = f32::NAN;
    for turn in 0..7 {
        desk.turn();
        let now = desk.floats(0)[0];
        if turn > 0 {
            rows.push((before, now, desk.valid[0], desk.rewards[0]));
        }
        if desk.ends[0] & end_flags::EPISODE != 0 {
            returns.push(desk.returns[0]);
            lengths.push(desk.lengths[0]);
        }
        before = now;
    }
    let first = rows[0].0;
    let steps: Vec<f32> = rows.iter().map(|row| row.1 - first).collect();
    assert_eq!(steps, [1.0, 2.0, 10.0, 11.0, 12.0, 20.0]);
    assert!(
        rows.iter().all(|row| (row.2, row.3) == (1, 1.0)),
        "six rows, all of them steps"
    );
    assert_eq!((returns, lengths), (vec![3.0, 3.0], vec![3, 3]));
}

#[test]
fn br_09_the_final_observation_of_a_truncated_episode_is_kept() {
    let mut desk = toy("Count", r#"{"length": 3, "end": "trunc"}"#).desk(1);
    let rows = seen(&mut desk, 9);
    let first = rows[0].0;
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(now, counts)| (now - first, counts))
        .collect();
    let episode = |from: f32| [(from + 1.0, true), (from + 2.0, true), (from + 3.0, true)];
    let mut expected = vec![(0.0, false)];
    expected.extend(episode(0.0));
    expected.push((10.0, false));
    expected.extend(episode(10.0));
    expected.push((20.0, false));
    assert_eq!(rows, expected);
    // With V(s) = s, g = 0.5, lambda = 0: r + g V(s') - V(s), the last from the final observation.
    let deltas: Vec<f32> = (0..3)
        .map(|i| 1.0 + 0.5 * rows[i + 1].0 - rows[i].0)
        .collect();
    assert_eq!(deltas, [1.5, 1.0, 0.5]);
}

#[test]
fn both_flags_at_once_are_a_termination() {
    let mut desk = toy("Count", r#"{"length": 1, "end": "both"}"#).desk(1);
    desk.turn();
    desk.turn();
    assert_eq!(desk.ends[0] & 3, end_flags::TERMINATED);
    assert_eq!(desk.next_valid[0], 1);
}

#[test]
fn br_12_rewards_of_every_type_that_is_one_number() {
    let mut desk = toy("Rewards", "{}").desk(1);
    desk.turn();
    let mut rewards = vec![];
    for _ in 0..7 {
        desk.turn();
        rewards.push(desk.rewards[0]);
    }
    assert_eq!(rewards, [2.0, 2.0, 2.0, 2.0, 1.0, 0.1, 16_777_216.0]);
    // The sum is of the numbers as they were.
    let sum = desk.states.totals[0].episode_return;
    assert!((sum - 16_777_226.1).abs() < 1e-6, "{sum}");
}

#[test]
fn rewards_are_shaped_for_the_learner_alone() {
    let mut rewards = toy("Rewards", "{}");
    rewards.wrapping.clip_reward = Some([-1.5, 1.5]);
    let mut desk = rewards.desk(1);
    desk.turn();
    desk.turn();
    let total = desk.states.totals[0].episode_return;
    assert_eq!((desk.rewards[0], total), (1.5, 2.0));
    rewards.wrapping.rescale_action = true;
    let error = rewards.spaces().unwrap_err();
    assert!(error.contains("env.wrappers"), "{error}");
}

#[test]
fn br_12_br_41_what_is_wrong_is_named_with_what_was_expected() {
    for (what, cause, parts) in [
        (
            "shape",
            Cause::Error,
            ["expected shape (1,) of float32", "shape (1, 2) of float32"],
        ),
        (
            "text",
            Cause::Error,
            ["expected shape (1,) of float32", "'hello' (str)"],
        ),
        ("wraps", Cause::Error, ["got 300", "uint8 cannot hold"]),
        (
            "reward",
            Cause::Error,
            ["reward: expected one number", "shape (2,)"],
        ),
        ("nan", Cause::NotFinite, ["observation", "NaN"]),
        ("infinite", Cause::NotFinite, ["reward inf", "not finite"]),
    ] {
        let mut desk = toy("Strange", &format!(r#"{{"what": "{what}"}}"#)).desk(2);
        for turn in 0..3 {
            desk.turn();
            assert_eq!(
                desk.faults.len(),
                if turn == 2 { 2 } else { 0 },
                "{what}: {:?}",
                desk.faults
            );
        }
        let fault = desk.faults[0].clone();
        assert_eq!(
            (fault.cause, fault.phase, fault.step),
            (cause, FaultPhase::Step, 1),
            "{fault}"
        );
        for part in parts {
            assert!(fault.message.contains(part), "{what}: {fault}");
        }
        // The row is not to be trained on, and the environment begins anew.
        assert_eq!((desk.valid[0], desk.next_valid[0]), (0, 0));
        desk.turn();
        assert!(desk.faults.is_empty());
        assert_eq!((desk.record(0)[0], desk.next_valid[0]), (0, 1), "{what}");
    }
}

#[test]
fn br_41_another_float_type_is_cast() {
    let mut desk = toy("Strange", r#"{"what": "double"}"#).desk(1);
    assert_eq!(seen(&mut desk, 3)[2], (0.1, true));
}

#[test]
fn br_34_a_frame_stack_starts_afresh_with_each_episode() {
    let mut count = toy("Count", r#"{"length": 2, "end": "trunc"}"#);
    count.wrappers =
        r#"[{"wrapper": "gymnasium.wrappers:FrameStackObservation", "stack_size": 3}]"#.into();
    let mut desk = count.desk(1);
    let mut stacks = vec![];
    for _ in 0..5 {
        desk.turn();
        stacks.push(desk.floats(0));
    }
    let first = stacks[0][0];
    let stacks: Vec<_> = stacks
        .iter()
        .map(|s| s.iter().map(|x| x - first).collect::<Vec<_>>())
        .collect();
    assert_eq!(
        stacks,
        [
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 1.0],
            [0.0, 1.0, 2.0],
            [10.0; 3],
            [10.0, 10.0, 11.0]
        ]
    );
}

#[test]
fn br_34_stacks_of_the_engine_are_no_business_of_the_worker() {
    let mut desk = toy("Count", "{}").desk(1);
    desk.spaces = desk.spaces.clone().stacked(3).unwrap();
    desk.turn();
    desk.turn();
    assert!(desk.faults.is_empty(), "{:?}", desk.faults);
}

#[test]
fn br_38_br_43_every_space_goes_there_and_back() {
    let mut desk = toy("Everything", "{}").desk(2);
    let layout = desk.spaces.action.clone();
    let leaf = |path| layout.find(path).unwrap();
    for lane in 0..2 {
        let mut action = ActionBuf::new(&layout);
        // Indices: the environment is to get -1, [1, 7] and [0, 1].
        action.indices_mut(leaf("choice"))[0] = 0;
        action
            .continuous_mut(leaf("force"))
            .copy_from_slice(&[0.25, -1.0]);
        action.indices_mut(leaf("gear/0")).copy_from_slice(&[1, 2]);
        action.indices_mut(leaf("gear/1")).copy_from_slice(&[0, 1]);
        desk.set_action(lane, &action);
    }
    desk.turn();
    desk.turn();
    assert!(desk.faults.is_empty(), "{:?}", desk.faults);
    let observation = desk.spaces.observation.clone();
    let bytes = |path: &str| {
        let leaf = &observation.leaves()[observation.find(path).unwrap().index()];
        desk.record(1)[leaf.bytes()].to_vec()
    };
    let ints = |path| ints_of(&bytes(path));
    assert_eq!(doubles(&bytes("box")), [1.0, 0.25, 0.5, -0.5]);
    assert_eq!(bytes("half"), 0.25f32.to_ne_bytes());
    assert_eq!(bytes("flag"), [1, 0]);
    assert_eq!(ints("words"), [60_000]);
    assert!(bytes("nothing").is_empty());
    // 20 - 1 is the 17th of 2..=20; [2, 1] from [1, -1]; bits as they are.
    assert_eq!(ints("choice"), [17]);
    assert_eq!(ints("inner/0"), [1, 2]);
    assert_eq!(ints("inner/1"), [1, 0, 1]);
}

/// Whole numbers, whatever the alignment.
fn ints_of(bytes: &[u8]) -> Vec<i32> {
    let parts = bytes.chunks_exact(4);
    parts
        .map(|part| i32::from_ne_bytes(part.try_into().unwrap()))
        .collect()
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    let parts = bytes.chunks_exact(8);
    parts
        .map(|part| f64::from_ne_bytes(part.try_into().unwrap()))
        .collect()
}

#[test]
fn br_43_a_large_observation_is_as_any_other() {
    let mut desk = toy("Large", "{}").desk(2);
    for step in 0..3 {
        desk.turn();
        assert!(desk.faults.is_empty(), "{:?}", desk.faults);
        let record = desk.record(1);
        assert_eq!(record.len(), 17_280_000);
        assert_eq!(record[17_279_996..], (step as f32).to_ne_bytes());
    }
}

#[test]
fn masks_of_info_reach_the_policy_unless_they_are_not_wanted() {
    let mut masked = toy("Masked", "{}");
    let mut desk = masked.desk(1);
    for step in 0..4 {
        desk.turn();
        let allowed: Vec<u8> = (0..3).map(|i| u8::from(i == step % 3)).collect();
        assert_eq!(desk.mask(0), allowed);
    }
    masked.options = [("action_mask".to_string(), OptionValue::Bool(false))].into();
    assert_eq!(masked.spaces().unwrap().action.mask_bytes(), 0);
}

#[test]
fn images_have_their_channels_found() {
    let image = |id: &str| {
        let spaces = made(id).spaces().unwrap();
        match &spaces.observation.single().unwrap().kind {
            LeafKind::Box(space) => (space.shape.clone(), space.image),
            other => panic!("{other:?}"),
        }
    };
    let pong = image("ale_py:ALE/Pong-v5");
    assert_eq!(pong, (vec![210, 160, 3], Some(ImageLayout::Hwc)));
}

#[test]
fn what_cannot_be_made_says_why_and_what_to_do() {
    let mut unknown_wrapper = made("CartPole-v1");
    unknown_wrapper.wrappers = r#"["gymnasium.wrappers:NoSuchWrapper"]"#.into();
    let mut wrong = made("CartPole-v1");
    wrong.kwargs = r#"{"colour": "red"}"#.into();
    for (made, part) in [
        (made("CartPool-v1"), "`CartPole`"),
        (wrong, "colour"),
        (unknown_wrapper, "NoSuchWrapper"),
        (
            toy("Words", "{}"),
            "observation/said: hotloop has no Text space; put a wrapper around",
        ),
        (
            toy("Fault", r#"{"kind": "constructor"}"#),
            "boom-42 in the constructor",
        ),
    ] {
        let error = made.spaces().unwrap_err();
        assert!(error.contains(part) && error.contains(&made.id), "{error}");
    }
}

#[test]
fn wrappers_go_around_from_the_inside() {
    let mut count = toy("Count", "{}");
    count.wrappers = r#"[{"wrapper": "tests.toys:Once", "factor": 3}, "tests.toys:Once"]"#.into();
    let mut desk = count.desk(1);
    desk.turn();
    desk.turn();
    assert_eq!(desk.rewards[0], 3.0);
}

#[test]
fn a_drawn_episode_rests_in_its_last_state() {
    let mut count = toy("Count", r#"{"length": 2}"#);
    count.drawn = true;
    let mut desk = count.desk(1);
    let mut pictures = vec![];
    for _ in 0..5 {
        desk.turn();
        assert!(desk.faults.is_empty(), "{:?}", desk.faults);
        let frame = desk.frame(0);
        assert_eq!((frame.width, frame.height, frame.fps), (3, 2, 12.0));
        pictures.push((frame.rgb[17], desk.next_valid[0]));
    }
    let first = pictures[0].0;
    let pictures: Vec<_> = pictures
        .iter()
        .map(|(pixel, valid)| (pixel - first, *valid))
        .collect();
    assert_eq!(pictures, [(0, 1), (1, 1), (2, 0), (10, 1), (11, 1)]);
    // It is the same space all the while.
    assert_eq!(desk.spaces.observation_space, Space::unbounded(&[1]));
}

#[test]
fn a_worker_that_is_not_needed_closes_its_environments_and_ends() {
    let desk = toy("Count", "{}").desk(2);
    let id = desk.block.process_id().unwrap();
    assert!(support::lives(id));
    drop(desk);
    soon("the end of the worker", || !support::lives(id));
}
