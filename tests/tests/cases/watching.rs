//! Looking on while a policy plays changes nothing, and shows every state of the first episodes.

use hotloop::env::Registry;
use hotloop::{Agent, Choice, EvalPlan, Which};
use hotloop_classic::CartPole;
use hotloop_env::{
    ActionView, AsyncEnv, Env, EnvError, EnvRng, EnvSpec, Frame, ObservationMut, ResetCtx, Space,
    Transition,
};
use hotloop_tests::{Script, trainer};
use std::ops::ControlFlow;

/// A cart-pole somewhere else.
struct Remote(CartPole);

impl AsyncEnv for Remote {
    fn observation_space(&self) -> Space {
        self.0.observation_space()
    }
    fn action_space(&self) -> Space {
        self.0.action_space()
    }
    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        tokio::task::yield_now().await;
        self.0.reset(ctx)
    }
    async fn step(
        &mut self,
        action: ActionView<'_>,
        rng: &mut EnvRng,
    ) -> Result<Transition, EnvError> {
        tokio::task::yield_now().await;
        self.0.step(action, rng)
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.0.observe(out)
    }
    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        self.0.render(frame)
    }
}

fn agent(spec: &EnvSpec, settings: &[&str]) -> Agent {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let training = trainer(spec, settings).run_dir(&run).build().unwrap();
    training.train().unwrap();
    let mut registry = Registry::new();
    registry.add(spec.clone());
    Agent::load(&run, &registry, Which::Last, "cpu").unwrap()
}

fn plan(choice: Choice) -> EvalPlan {
    EvalPlan {
        episodes: 7,
        seed: 3,
        choice,
    }
}

#[test]
fn watching_changes_nothing_and_misses_no_state() {
    let waiting =
        EnvSpec::asynchronous("Remote-v0", |_| Ok(Remote(CartPole::new()))).time_limit(30);
    // Episodes end by falling and, now and then, at the limit.
    let at_once = EnvSpec::new("CartPole-v9", |_| Ok(CartPole::new())).time_limit(30);
    let memory = [
        "steps=320",
        "network.recurrent=lstm",
        "network.recurrent_size=8",
    ];
    for (spec, settings) in [
        (&at_once, &memory[..1]),
        (&at_once, &memory[..]),
        (&at_once, &["env.frame_stack=3"]),
        (&waiting, &memory[..1]),
    ] {
        let mut agent = agent(spec, settings);
        for choice in [Choice::Greedy, Choice::Sample] {
            let expected = agent.evaluate(plan(choice), 2).unwrap();
            let (mut seen, mut pictures) = (vec![], vec![]);
            let report = agent.watch(plan(choice), 2, 3, &mut |mut view| {
                assert_eq!(view.glyphs(), None);
                let frame = view.frame().unwrap().expect("a cart-pole can be drawn");
                pictures.push(frame.rgb.clone());
                seen.push((view.episode(), view.steps(), view.is_over()));
                assert_eq!(view.episode_return(), f64::from(view.steps()));
                ControlFlow::Continue(())
            });
            assert_eq!(report.unwrap(), Some(expected), "{spec:?} {settings:?}");
            let ends: Vec<_> = seen.iter().filter(|(.., over)| *over).collect();
            let lengths: Vec<usize> = ends.iter().map(|end| end.1 as usize).collect();
            assert_eq!(ends.iter().map(|end| end.0).collect::<Vec<_>>(), [0, 1, 2]);
            // Every state from the first to the last, each with a picture of its own.
            assert_eq!(seen.len(), lengths.iter().map(|n| n + 1).sum::<usize>());
            assert_eq!((seen[0], seen[1].1), ((0, 0, false), 1));
            assert!(pictures.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }
}

#[test]
fn who_looks_on_can_break_off() {
    let spec = Script::count(9, hotloop_env::End::Terminated).spec();
    let mut agent = agent(&spec, &["steps=32"]);
    let mut calls = 0;
    let report = agent.watch(plan(Choice::Greedy), 2, 1, &mut |mut view| {
        calls += 1;
        assert!(view.frame().unwrap().is_none());
        match calls {
            4 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert_eq!((report.unwrap(), calls), (None, 4));
}
