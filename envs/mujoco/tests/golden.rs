//! Every environment against 1,000 steps recorded from Gymnasium by `scripts/record_mujoco.py`, on the same MuJoCo.
//!
//! States and rewards agree within 1e-9, ends and starts exactly. Nothing is set right on the way: the steps are one run
//! from the recorded start.
#![cfg(feature = "mujoco")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Lane;
use hotloop_env::{End, EnvRng, Script, Stream};
use hotloop_mujoco::*;

const STEPS: usize = 1000;
const TOLERANCE: f64 = 1e-9;

/// The recorded numbers, taken one group after the other.
struct Numbers(&'static [u8]);

impl Numbers {
    fn take(&mut self, n: usize) -> Vec<f64> {
        let (taken, rest) = self.0.split_at(n * 8);
        self.0 = rest;
        let (numbers, _) = taken.as_chunks();
        numbers
            .iter()
            .map(|bytes| f64::from_le_bytes(*bytes))
            .collect()
    }

    fn count(&mut self) -> usize {
        self.take(1)[0] as usize
    }
}

#[track_caller]
fn assert_close(got: &[f64], expected: &[f64], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (x, y)) in got.iter().zip(expected).enumerate() {
        assert!(
            (x - y).abs() <= TOLERANCE,
            "{what}, number {i}: {x}, expected {y}"
        );
    }
}

/// The script's formula.
fn action(step: usize, high: &[f64]) -> Vec<f32> {
    let scale = if step < 200 { 0.1 } else { 1.0 };
    let number = |i: usize| {
        let unit =
            ((i + step * 32) as u64 * 2_654_435_761 % (1 << 32)) as f64 / (1u64 << 32) as f64;
        (scale * (2.0 * unit - 1.0) * high[i]) as f32
    };
    (0..high.len()).map(number).collect()
}

fn agrees<T: Task>(recording: &'static [u8]) {
    let id = T::ID;
    let mut numbers = Numbers(recording);
    let [nq, nv, observed] = [(); 3].map(|()| numbers.count());
    let count = numbers.count();
    let uniforms = numbers.take(count).into();
    let count = numbers.count();
    let normals = numbers.take(count).into();
    let mut rng = EnvRng::scripted(Script {
        uniforms,
        normals,
        ..Script::default()
    });
    let mut lane = Lane::<T>::new(&[]);
    lane.reset(&mut rng);
    assert_eq!(lane.state(), numbers.take(nq + nv), "{id}: the start");
    assert_close(
        &lane.observe(),
        &numbers.take(observed),
        &format!("{id}: the first observation"),
    );

    let rewards = numbers.take(STEPS);
    let ends = numbers.take(STEPS);
    let mut states = Numbers(numbers.0);
    numbers.take(STEPS / 50 * (nq + nv));
    let mut rng = EnvRng::new(0, 0, Stream::Env);
    let high = lane.high();
    for step in 1..=STEPS {
        let at = format!("{id}, step {step}");
        let (reward, end) = lane.step(&action(step, &high), &mut rng);
        assert_close(
            &[reward],
            &rewards[step - 1..step],
            &format!("{at}: reward"),
        );
        assert_eq!(end == End::Terminated, ends[step - 1] == 1.0, "{at}");
        if step % 50 == 0 {
            assert_close(
                &lane.state(),
                &states.take(nq + nv),
                &format!("{at}: state"),
            );
        }
        if step % 250 == 0 {
            assert_close(
                &lane.observe(),
                &numbers.take(observed),
                &format!("{at}: observation"),
            );
        }
    }
    assert!(
        numbers.0.is_empty(),
        "{id}: all of the recording was compared"
    );
}

macro_rules! golden {
    ($($name:ident: $task:ty, $file:literal;)*) => {$(
        #[test]
        // Another processor's rounding, over a thousand steps of contacts, is another run.
        #[cfg_attr(not(target_arch = "x86_64"), ignore = "recorded on x86-64")]
        fn $name() {
            agrees::<$task>(include_bytes!(concat!("golden/", $file, ".bin")));
        }
    )*};
}

golden! {
    ant: Ant, "Ant-v5";
    half_cheetah: HalfCheetah, "HalfCheetah-v5";
    hopper: Hopper, "Hopper-v5";
    humanoid: Humanoid, "Humanoid-v5";
    humanoid_standup: HumanoidStandup, "HumanoidStandup-v5";
    inverted_double_pendulum: InvertedDoublePendulum, "InvertedDoublePendulum-v5";
    inverted_pendulum: InvertedPendulum, "InvertedPendulum-v5";
    pusher: Pusher, "Pusher-v5";
    reacher: Reacher, "Reacher-v5";
    swimmer: Swimmer, "Swimmer-v5";
    walker2d: Walker2d, "Walker2d-v5";
}
