//! Thousand-step sequences through the bridge are those of Gymnasium alone: observations, rewards, ends, final
//! observations, masks.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

mod support;

use hotloop_env::{ActionBuf, EnvRng, Layout, LeafKind, ResetCtx, Stream};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::process::{Command, Stdio};
use support::{Desk, SEED, made, python};

const LANES: usize = 3;
const TURNS: usize = 1000;

/// A random action, as indices or numbers.
fn draw(layout: &Layout, rng: &mut EnvRng) -> (ActionBuf, Vec<f64>) {
    let mut action = ActionBuf::new(layout);
    let leaf = layout.single().unwrap().clone();
    let id = layout.find("").unwrap();
    let numbers = match &leaf.kind {
        LeafKind::Discrete(d) => {
            let index = rng.range(0.0, d.n as f64) as usize;
            action.indices_mut(id)[0] = index as i32;
            vec![index as f64]
        }
        LeafKind::Box(space) => {
            let values = action.continuous_mut(id);
            for (i, value) in values.iter_mut().enumerate() {
                *value = rng.range(space.low.at(i), space.high.at(i)) as f32;
            }
            values.iter().map(|value| f64::from(*value)).collect()
        }
        other => panic!("{other:?}"),
    };
    (action, numbers)
}

/// The bytes of a record without what lies between its parts.
fn packed(desk: &Desk, lane: usize) -> Vec<u8> {
    let record = desk.record(lane);
    let leaves = desk.spaces.observation.leaves().iter();
    let mut bytes: Vec<u8> = leaves
        .flat_map(|leaf| &record[leaf.bytes()])
        .copied()
        .collect();
    bytes.extend(desk.mask(lane));
    bytes
}

fn equal(id: &str, made: support::Made) {
    let mut desk = made.desk(LANES);
    let mut rng = EnvRng::new(1, 0, Stream::Env);
    let (mut bridged, mut actions) = (vec![], vec![]);
    for _ in 0..TURNS {
        let drawn: Vec<_> = (0..LANES)
            .map(|_| draw(&desk.spaces.action, &mut rng))
            .collect();
        for (lane, (action, _)) in drawn.iter().enumerate() {
            desk.set_action(lane, action);
        }
        actions.push(
            drawn
                .into_iter()
                .map(|(_, numbers)| numbers)
                .collect::<Vec<_>>(),
        );
        desk.turn();
        assert!(desk.faults.is_empty(), "{:?}", desk.faults);
        for lane in 0..LANES {
            let digest = Sha256::digest(packed(&desk, lane));
            bridged.push((
                desk.rewards[lane],
                desk.ends[lane] & 3,
                digest[..8].to_vec(),
            ));
        }
    }
    let seeds: Vec<Vec<u64>> = (0..LANES as u64)
        .map(|lane| {
            let seed = |episode| ResetCtx::new(&mut rng, SEED, lane, episode).seed() >> 33;
            (0..=TURNS as u64).map(seed).collect()
        })
        .collect();
    let asked: Value =
        json!({"id": made.id, "imports": ["tests.toys"], "seeds": seeds, "actions": actions});
    let mut reference = Command::new(python())
        .args(["-c", include_str!("reference.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    reference
        .stdin
        .take()
        .unwrap()
        .write_all(asked.to_string().as_bytes())
        .unwrap();
    let output = reference.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout.len(), 17 * bridged.len());
    for (turn, (direct, bridged)) in output.stdout.chunks(17).zip(&bridged).enumerate() {
        let reward = f64::from_le_bytes(direct[..8].try_into().unwrap()) as f32;
        let direct = (reward, direct[8], direct[9..].to_vec());
        assert_eq!(
            &direct,
            bridged,
            "{id}, turn {} of lane {}",
            turn / LANES,
            turn % LANES
        );
    }
}

macro_rules! equal {
    ($($name:ident: $made:expr,)*) => {$(
        #[test]
        fn $name() {
            equal(stringify!($name), $made);
        }
    )*};
}

equal! {
    cartpole: made("CartPole-v1"),
    pendulum: made("Pendulum-v1"),
    lunar_lander: made("LunarLander-v3"),
    blackjack: made("Blackjack-v1"),
    taxi: made("Taxi-v4"),
    cliff_walking: made("CliffWalking-v1"),
    half_cheetah: made("HalfCheetah-v5"),
    pong: made("ale_py:ALE/Pong-v5"),
    dict: made("tests.toys:Toys/Nested-v0"),
}
