//! What is drawn: the state that a lane's last turn led to, the last one of an episode among them, through
//! every wrapper and both kinds of block.

#![allow(clippy::unwrap_used)] // Helpers of tests are not recognised as tests.

mod common;

use common::Slab;
use hotloop_env::wrappers::{
    CastObservation, ClipAction, ClipReward, EpisodeStats, FlattenObservation, FrameStack,
    MapReward, RescaleAction, SignReward, TimeLimit,
};
use hotloop_env::{
    ActionView, AsyncEnv, Block, DType, Env, EnvError, EnvRng, EnvSpec, Frame, ObservationMut,
    ResetCtx, Space, Transition, Wrapping, end_flags,
};

/// Terminates at its third step; its only pixel says how far it is.
#[derive(Default)]
struct Three {
    at: u8,
}

impl Three {
    fn go(&mut self) -> Transition {
        self.at += 1;
        match self.at {
            3 => Transition::terminated(1.0),
            _ => Transition::running(1.0),
        }
    }

    fn draw(&self, frame: &mut Frame) -> Result<bool, EnvError> {
        frame.resize(1, 1).fill(self.at);
        frame.fps = 7.0;
        Ok(true)
    }
}

impl Env for Three {
    fn observation_space(&self) -> Space {
        Space::boxed(-9.0, 9.0, &[1])
    }
    fn action_space(&self) -> Space {
        Space::boxed(-2.0, 2.0, &[1])
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.at = 0;
        Ok(())
    }
    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        Ok(self.go())
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        assert!(self.at < 3, "nothing is observed after a termination");
        out.write(&[f32::from(self.at)])
    }
    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        self.draw(frame)
    }
    fn glyphs(&self) -> Option<String> {
        Some(self.at.to_string())
    }
}

/// The same, waiting.
struct Waits(Three);

impl AsyncEnv for Waits {
    fn observation_space(&self) -> Space {
        self.0.observation_space()
    }
    fn action_space(&self) -> Space {
        self.0.action_space()
    }
    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.0.reset(ctx)
    }
    async fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        Ok(self.0.go())
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.0.observe(out)
    }
    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        self.0.draw(frame)
    }
    fn glyphs(&self) -> Option<String> {
        self.0.glyphs()
    }
}

/// Drives lane 0 of `spec` through eight turns; what was drawn after each, and the ends of episodes.
fn watch(spec: &EnvSpec, wrapping: Wrapping) -> (Vec<u8>, Vec<u8>) {
    let options = spec.options(&Default::default()).unwrap();
    let options = options.wrapped(wrapping).drawn(true);
    assert!(options.is_drawn());
    let spaces = spec.spaces(&options).unwrap();
    let mut slab = Slab::new(&spaces, 1);
    let mut block = spec.make(&options, 1).unwrap();
    let (mut seen, mut ends, mut frame) = (vec![], vec![], Frame::new());
    for turn in 0..8 {
        let row = match &mut block {
            Block::Sync(block) => slab.turn(|rows| match turn {
                0 => block.reset(rows),
                _ => block.step(rows),
            }),
            Block::Async(block) => slab.drive(block.as_mut()),
        };
        assert!(block.render(0, &mut frame).unwrap());
        assert_eq!((frame.width, frame.height, frame.fps), (1, 1, 7.0));
        assert_eq!(block.glyphs(0), Some(frame.rgb[0].to_string()));
        seen.push(frame.rgb[0]);
        ends.push(row.ends[0]);
    }
    assert_eq!(slab.faults, []);
    (seen, ends)
}

#[test]
fn the_last_state_of_an_episode_is_drawn_before_the_reset() {
    let signed = Wrapping {
        sign_reward: true,
        ..Wrapping::default()
    };
    let sync = EnvSpec::new("Three-v0", |_| Ok(Three::default()));
    let stacked = EnvSpec::new("Three-v0", |_| FrameStack::new(Three::default(), 2));
    let waits = EnvSpec::asynchronous("Waits-v0", |_| Ok(Waits(Three::default())));
    for (spec, wrapping) in [
        (sync.clone(), Wrapping::default()),
        (sync, signed),
        (stacked, Wrapping::default()),
        (waits, Wrapping::default()),
    ] {
        let (seen, ends) = watch(&spec, wrapping);
        assert_eq!(seen, [0, 1, 2, 3, 0, 1, 2, 3]);
        let cut = end_flags::TRUNCATED | end_flags::EPISODE;
        assert_eq!(ends, [0, 0, 0, cut, 0, 0, 0, cut]);
    }
}

#[test]
fn what_is_not_drawn_is_not_held_and_waits_for_nobody() {
    let spec = EnvSpec::asynchronous("Waits-v0", |options| {
        assert!(!options.is_drawn());
        Ok(Waits(Three::default()))
    });
    let options = spec.options(&Default::default()).unwrap();
    let mut slab = Slab::new(&spec.spaces(&options).unwrap(), 1);
    let Block::Async(mut block) = spec.make(&options, 1).unwrap() else {
        panic!("the block waits");
    };
    let ends: Vec<u8> = (0..4).map(|_| slab.drive(block.as_mut()).ends[0]).collect();
    assert_eq!(ends[3], end_flags::TERMINATED | end_flags::EPISODE);
    assert!(!block.render(0, &mut Frame::new()).unwrap());
    assert_eq!(block.glyphs(0), None);
}

#[test]
fn every_wrapper_hands_on_what_is_drawn() {
    fn drawn(mut env: impl Env) -> bool {
        let mut frame = Frame::new();
        env.render(&mut frame).unwrap() && frame.rgb == [0; 3] && env.glyphs().is_some()
    }
    let three = Three::default;
    assert!(drawn(CastObservation::new(three(), DType::F64).unwrap()));
    assert!(drawn(ClipAction::new(three()).unwrap()));
    assert!(drawn(ClipReward::new(three(), -1.0, 1.0)));
    assert!(drawn(EpisodeStats::new(three(), 1)));
    assert!(drawn(FlattenObservation::new(three()).unwrap()));
    assert!(drawn(FrameStack::new(three(), 2).unwrap()));
    assert!(drawn(MapReward::new(three(), |reward| reward)));
    assert!(drawn(RescaleAction::new(three()).unwrap()));
    assert!(drawn(SignReward::new(three())));
    assert!(drawn(TimeLimit::new(three(), 3)));
    let boxed: Box<dyn Env> = Box::new(three());
    assert!(drawn(boxed));
}
