//! Every environment against steps and resets recorded from Gymnasium by `scripts/record_classic.py`.
//!
//! States and rewards agree to the last bits of `f64`, observations to a rounding of `f32`, ends exactly. Steps are
//! compared one by one, each from its recorded state: some of these systems are chaotic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotloop_classic::{Acrobot, CartPole, ContinuousMountainCar, MountainCar, Pendulum};
use hotloop_env::{
    ActionBuf, Bound, BoxSpace, End, Env, EnvRng, Layout, ObservationBuf, ResetCtx, Script, Space,
    StateReader, StateWriter, Stream, Transition,
};
use std::collections::HashMap;

/// Far below a rounding of `f32`, so that a step that rounds in the wrong place is found.
const TOLERANCE: f64 = 1e-13;

/// One recorded file: its facts, and its records by kind.
struct Golden {
    facts: HashMap<&'static str, &'static str>,
    steps: Vec<Vec<f64>>,
    resets: Vec<Vec<f64>>,
}

impl Golden {
    fn new(text: &'static str) -> Self {
        let mut golden = Self {
            facts: HashMap::new(),
            steps: vec![],
            resets: vec![],
        };
        for line in text.lines() {
            if let Some((key, value)) = line.strip_prefix("# ").and_then(|l| l.split_once(": ")) {
                golden.facts.insert(key, value);
                continue;
            }
            let (kind, numbers) = line.split_once(',').unwrap();
            let numbers = numbers.split(',').map(|x| x.parse().unwrap()).collect();
            match kind {
                "step" => golden.steps.push(numbers),
                "reset" => golden.resets.push(numbers),
                other => panic!("unknown record {other:?}"),
            }
        }
        assert!(golden.steps.len() >= 1000 && golden.resets.len() >= 20);
        golden
    }

    fn numbers(&self, fact: &str) -> Vec<f64> {
        self.facts[fact]
            .split(',')
            .map(|x| x.parse().unwrap())
            .collect()
    }
}

/// What the tests need to know of an environment besides [`Env`].
struct Subject<E> {
    golden: Golden,
    make: fn() -> E,
    at: fn(&[f64]) -> E,
    state: fn(&E) -> Vec<f64>,
}

/// What one step gave.
struct Outcome {
    state: Vec<f64>,
    observation: Vec<f32>,
    transition: Transition,
}

/// The numbers of a record, taken one group after the other.
struct Fields<'a>(&'a [f64]);

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> &'a [f64] {
        let (taken, rest) = self.0.split_at(n);
        self.0 = rest;
        taken
    }
}

impl<E: Env> Subject<E> {
    fn observe(&self, env: &mut E) -> Vec<f32> {
        let mut out = ObservationBuf::new(&Layout::new(&env.observation_space()).unwrap());
        env.observe(&mut out.as_mut()).unwrap();
        out.first::<f32>().to_vec()
    }

    fn step(&self, env: &mut E, action: f64) -> Outcome {
        let space = env.action_space();
        let buf = ActionBuf::new(&Layout::of_actions(&space).unwrap());
        let buf = match space {
            Space::Discrete(_) => buf.with_index(action as usize),
            _ => buf.with_continuous(&[action as f32]),
        };
        let mut rng = EnvRng::new(0, 0, Stream::Env);
        let transition = env.step(buf.view(), &mut rng).unwrap();
        assert_eq!(rng.position(), 0, "these environments are deterministic");
        Outcome {
            state: (self.state)(env),
            observation: self.observe(env),
            transition,
        }
    }

    /// Compares an outcome with a record's next state, observation, reward and terminated.
    fn compare(&self, found: &Outcome, expected: &mut Fields<'_>, what: &str) {
        close(&found.state, expected.take(found.state.len()), what);
        rounded(
            &found.observation,
            expected.take(found.observation.len()),
            what,
        );
        close(&[found.transition.reward()], expected.take(1), what);
        let end = if expected.take(1)[0] == 1.0 {
            End::Terminated
        } else {
            End::Continue
        };
        assert_eq!(found.transition.end(), end, "{what}");
        assert!(
            expected.0.is_empty(),
            "{what}: the record has more numbers than expected"
        );
    }

    fn check_steps(&self) {
        for (n, record) in self.golden.steps.iter().enumerate() {
            let what = format!("step record {n}: {record:?}");
            let mut fields = Fields(record);
            let width = (self.state)(&(self.make)()).len();
            let state = fields.take(width);
            let mut env = (self.at)(state);
            assert_eq!((self.state)(&env), state, "{what}");
            let found = self.step(&mut env, fields.take(1)[0]);
            self.compare(&found, &mut fields, &what);
        }
    }

    fn check_resets(&self, draws: usize) {
        for (n, record) in self.golden.resets.iter().enumerate() {
            let what = format!("reset record {n}: {record:?}");
            let mut fields = Fields(record);
            let uniforms = fields.take(draws).iter().copied().collect();
            let mut rng = EnvRng::scripted(Script {
                uniforms,
                ..Script::default()
            });
            let mut env = (self.make)();
            env.reset(&mut ResetCtx::new(&mut rng, 0, 0, 0)).unwrap();
            let state = (self.state)(&env);
            close(&state, fields.take(state.len()), &what);
            let observation = self.observe(&mut env);
            rounded(&observation, fields.take(observation.len()), &what);
            // The first step, from the state as the reset left it.
            let found = self.step(&mut env, fields.take(1)[0]);
            self.compare(&found, &mut fields, &what);
        }
    }

    fn check_spaces(&self) {
        let env = (self.make)();
        let facts = &self.golden.facts;
        let bounds = |space: Space| match space {
            Space::Box(BoxSpace {
                shape, low, high, ..
            }) => {
                let each = |bound: Bound| (0..shape[0]).map(|i| bound.at(i)).collect::<Vec<_>>();
                (each(low), each(high))
            }
            other => panic!("expected a box, found {other}"),
        };
        let (low, high) = bounds(env.observation_space());
        rounded_to(&low, &self.golden.numbers("observation_low"));
        rounded_to(&high, &self.golden.numbers("observation_high"));
        match facts.get("actions") {
            Some(n) => assert_eq!(env.action_space(), Space::discrete(n.parse().unwrap())),
            None => {
                let (low, high) = bounds(env.action_space());
                rounded_to(&low, &self.golden.numbers("action_low"));
                rounded_to(&high, &self.golden.numbers("action_high"));
            }
        }
    }

    /// Saves in the middle of an episode and right after a reset, and goes on from both copies.
    fn check_saving(&self) {
        let mut rng = EnvRng::new(3, 0, Stream::Env);
        let mut env = (self.make)();
        env.reset(&mut ResetCtx::new(&mut rng, 3, 0, 0)).unwrap();
        for n in 0..6 {
            let mut out = StateWriter::new();
            assert!(env.save(&mut out));
            let bytes = out.into_bytes();
            let mut reader = StateReader::new(&bytes);
            let mut copy = (self.make)();
            copy.load(&mut reader).unwrap();
            reader.finish().unwrap();
            assert_eq!(self.observe(&mut copy), self.observe(&mut env), "step {n}");
            let action = f64::from(n % 2);
            let (a, b) = (self.step(&mut env, action), self.step(&mut copy, action));
            assert_eq!((a.state, a.transition), (b.state, b.transition), "step {n}");
        }
        assert!((self.make)().load(&mut StateReader::new(&[0; 5])).is_err());
    }
}

fn close(found: &[f64], expected: &[f64], what: &str) {
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f - e).abs() <= TOLERANCE,
            "{what}: number {i} is {f:?}, expected {e:?}"
        );
    }
}

/// Within one rounding of f32: the f64 before it may differ in its last bit.
fn rounded(found: &[f32], expected: &[f64], what: &str) {
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(f) - e).abs();
        let limit = f64::from(f32::EPSILON) * e.abs() + TOLERANCE;
        assert!(
            error <= limit,
            "{what}: observation {i} is {f:?}, expected {e:?}"
        );
    }
}

/// The recorded numbers are f32 written as decimals.
fn rounded_to(found: &[f64], expected: &[f64]) {
    let expected: Vec<f64> = expected.iter().map(|&x| f64::from(x as f32)).collect();
    assert_eq!(found, expected);
}

macro_rules! golden {
    ($name:ident, $env:ident, $file:literal, $draws:literal, $at:expr) => {
        mod $name {
            use super::*;

            fn subject() -> Subject<$env> {
                Subject {
                    golden: Golden::new(include_str!(concat!("golden/", $file, ".csv"))),
                    make: $env::new,
                    at: $at,
                    state: |env| env.state().to_vec(),
                }
            }

            #[test]
            fn steps_as_gymnasium_does() {
                subject().check_steps();
            }

            #[test]
            fn resets_as_gymnasium_does() {
                subject().check_resets($draws);
            }

            #[test]
            fn has_gymnasiums_spaces() {
                subject().check_spaces();
            }

            #[test]
            fn goes_on_from_a_saved_state() {
                subject().check_saving();
            }

            #[test]
            fn has_gymnasiums_time_limit() {
                let golden = subject().golden;
                assert_eq!(golden.facts["time_limit"], golden.facts["truncated_at"]);
                let mut registry = hotloop_env::Registry::new();
                hotloop_classic::register(&mut registry);
                let limit = registry.get($file).unwrap().max_steps();
                assert_eq!(limit.to_string(), golden.facts["time_limit"]);
            }
        }
    };
}

golden!(cartpole, CartPole, "CartPole-v1", 4, |s| {
    CartPole::with_state(s.try_into().unwrap())
});
golden!(acrobot, Acrobot, "Acrobot-v1", 4, |s| Acrobot::with_state(
    s.try_into().unwrap()
));
golden!(mountain_car, MountainCar, "MountainCar-v0", 1, |s| {
    MountainCar::with_state(s.try_into().unwrap())
});
golden!(
    continuous_mountain_car,
    ContinuousMountainCar,
    "MountainCarContinuous-v0",
    1,
    |s| { ContinuousMountainCar::with_state([s[0] as f32, s[1] as f32]) }
);
golden!(pendulum, Pendulum, "Pendulum-v1", 2, |s| {
    Pendulum::with_state(s.try_into().unwrap())
});
