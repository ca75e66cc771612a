//! What the environments promise beside Gymnasium's numbers: saved states, options, starts, one model.
#![cfg(feature = "mujoco")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Lane;
use hotloop_env::{End, EnvRng, Registry, Stream};
use hotloop_mujoco::*;

/// Strong controls in a rhythm of its own for every actuator.
fn action(step: usize, high: &[f64]) -> Vec<f32> {
    let wave = |(i, high): (usize, &f64)| (((step * (i + 2)) as f64).sin() * high) as f32;
    high.iter().enumerate().map(wave).collect()
}

fn run<T: Task>(lane: &mut Lane<T>, steps: std::ops::Range<usize>) -> Vec<f64> {
    let (mut rng, high) = (EnvRng::new(0, 0, Stream::Env), lane.high());
    let mut all = Vec::new();
    for step in steps {
        let (reward, end) = lane.step(&action(step, &high), &mut rng);
        all.push(reward);
        all.push(f64::from(u8::from(end == End::Terminated)));
        all.extend(lane.observe());
    }
    all
}

fn goes_on<T: Task>() {
    let mut first = Lane::<T>::new(&[]);
    first.reset(&mut EnvRng::new(1, 0, Stream::Env));
    run(&mut first, 0..60);
    let saved = first.save();
    let mut second = Lane::<T>::new(&[]);
    // Whatever it did before must not matter.
    second.reset(&mut EnvRng::new(2, 0, Stream::Env));
    run(&mut second, 0..7);
    second.load(&saved);
    assert_eq!(
        run(&mut first, 60..160),
        run(&mut second, 60..160),
        "{}",
        T::ID
    );
}

#[test]
fn a_saved_simulation_goes_on_to_the_bit() {
    goes_on::<Ant>();
    goes_on::<HalfCheetah>();
    goes_on::<Hopper>();
    goes_on::<Humanoid>();
    goes_on::<HumanoidStandup>();
    goes_on::<InvertedDoublePendulum>();
    goes_on::<InvertedPendulum>();
    goes_on::<Pusher>();
    goes_on::<Reacher>();
    goes_on::<Swimmer>();
    goes_on::<Walker2d>();
}

#[test]
fn all_eleven_are_registered_with_gymnasiums_limits() {
    let mut registry = Registry::new();
    register(&mut registry);
    let limits: Vec<_> = registry
        .iter()
        .map(|spec| (spec.id(), spec.max_steps()))
        .collect();
    assert_eq!(limits.len(), 11);
    for (id, limit) in limits {
        let expected = match id {
            "Reacher-v5" => 50,
            "Pusher-v5" => 100,
            _ => 1000,
        };
        assert_eq!(limit, expected, "{id}");
        let spec = registry.get(id).unwrap();
        let options = spec.options(&Default::default()).unwrap();
        assert_eq!(spec.make(&options, 3).unwrap().lanes(), 3);
    }
}

#[test]
fn starts_differ_by_lane_and_agree_by_seed() {
    let start = |lane| {
        let mut env = Lane::<Humanoid>::new(&[]);
        env.reset(&mut EnvRng::new(3, lane, Stream::Env));
        env.observe()
    };
    assert_eq!(start(0), start(0));
    assert_ne!(start(0), start(1));
}

#[test]
fn a_new_start_leaves_nothing_of_the_episode_before() {
    let mut used = Lane::<Ant>::new(&[]);
    used.reset(&mut EnvRng::new(1, 0, Stream::Env));
    run(&mut used, 0..80);
    let mut fresh = Lane::<Ant>::new(&[]);
    for lane in [&mut used, &mut fresh] {
        lane.reset(&mut EnvRng::new(5, 0, Stream::Env));
    }
    assert_eq!(run(&mut used, 0..40), run(&mut fresh, 0..40));
}

#[test]
fn a_model_is_there_once() {
    let (one, two) = (Lane::<Swimmer>::new(&[]), Lane::<Swimmer>::new(&[]));
    let model = |lane: &Lane<Swimmer>| std::ptr::from_ref(lane.env().simulation().model());
    assert_eq!(model(&one), model(&two));
}

#[test]
fn options_are_gymnasiums() {
    let length = |given: &[_]| Lane::<Ant>::new(given).observe().len();
    assert_eq!(length(&[]), 105);
    let (hide, forces) = (
        "exclude_current_positions_from_observation",
        "include_cfrc_ext_in_observation",
    );
    assert_eq!(length(&[(hide, false.into())]), 107);
    assert_eq!(length(&[(forces, false.into())]), 27);

    // Lying down ends nothing if that is asked for, and the bonus goes all the same.
    let fallen = |given: &[_]| {
        let mut lane = Lane::<Walker2d>::new(given);
        lane.reset(&mut EnvRng::new(1, 0, Stream::Env));
        run(&mut lane, 0..200);
        let high = lane.high();
        lane.step(&vec![0.0; high.len()], &mut EnvRng::new(0, 0, Stream::Env))
    };
    let (reward, end) = fallen(&[]);
    assert_eq!(end, End::Terminated);
    let kept = fallen(&[("terminate_when_unhealthy", false.into())]);
    assert_eq!(kept, (reward, End::Continue));

    let mut registry = Registry::new();
    register(&mut registry);
    let spec = registry.get("Ant-v5").unwrap();
    for skip in [0, 10_001, i64::MAX] {
        let options = spec.options(&[("frame_skip".into(), skip.into())].into());
        let error = spec.make(&options.unwrap(), 1).unwrap_err().to_string();
        let said = format!("frame_skip is {skip}, expected 1 to 10000");
        assert!(error.contains(&said), "{error}");
    }
}

#[test]
fn a_state_is_drawn_or_what_is_missing_is_said() {
    // Two environments and two models on one thread: each picture is of its own.
    let mut cheetah = Lane::<HalfCheetah>::new(&[]);
    let mut pusher = Lane::<Pusher>::new(&[]);
    let (first, other) = match (cheetah.draw(), pusher.draw()) {
        (Ok(first), Ok(other)) => (first, other),
        (cheetah, pusher) => {
            for error in [cheetah.unwrap_err(), pusher.unwrap_err()] {
                let error = error.to_string();
                assert!(
                    error.contains("MuJoCo cannot draw") && error.contains("EGL"),
                    "{error}"
                );
            }
            return;
        }
    };
    assert_eq!((first.width, first.height, first.fps), (480, 480, 20.0));
    assert_eq!(first.rgb.len(), 480 * 480 * 3);
    assert_ne!(first.rgb, other.rgb);
    assert_eq!(cheetah.draw().unwrap(), first, "nothing has happened");
    run(&mut cheetah, 0..10);
    assert_ne!(cheetah.draw().unwrap().rgb, first.rgb);
    // The sky is above the floor.
    let brightness = |row: usize| {
        first.rgb[row * 1440..(row + 1) * 1440]
            .iter()
            .map(|b| u64::from(*b))
            .sum::<u64>()
    };
    assert_ne!(brightness(0), brightness(479));
}
