//! An environment that plays back what a test wrote down, and the calls that drive one.

use crate::{
    ActionBuf, ActionView, Env, EnvError, EnvRng, Layout, ObservationBuf, ObservationMut, ResetCtx,
    Space, StateReader, StateWriter, Stream, Transition,
};

/// Plays back observations (as `f64`s for every leaf) and transitions, and keeps the actions it got.
pub(super) struct Tape {
    pub(super) observation_space: Space,
    pub(super) action_space: Space,
    pub(super) frames: Vec<Vec<f64>>,
    pub(super) outcomes: Vec<Transition>,
    pub(super) actions: Vec<Vec<f32>>,
    at: usize,
    steps: usize,
}

impl Tape {
    pub(super) fn new(observation_space: Space, action_space: Space) -> Self {
        Self {
            observation_space,
            action_space,
            frames: vec![],
            outcomes: vec![],
            actions: vec![],
            at: 0,
            steps: 0,
        }
    }

    /// Observes these numbers, one a frame.
    pub(super) fn frames(mut self, frames: &[f64]) -> Self {
        self.frames = frames.iter().map(|&frame| vec![frame]).collect();
        self
    }

    pub(super) fn outcomes(mut self, outcomes: Vec<Transition>) -> Self {
        self.outcomes = outcomes;
        self
    }
}

impl Env for Tape {
    fn observation_space(&self) -> Space {
        self.observation_space.clone()
    }
    fn action_space(&self) -> Space {
        self.action_space.clone()
    }
    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        Ok(())
    }
    fn step(&mut self, action: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        if matches!(self.action_space, Space::Box(_)) {
            self.actions.push(action.continuous().to_vec());
        }
        let outcome = self.outcomes.get(self.steps).copied();
        self.steps += 1;
        Ok(outcome.unwrap_or(Transition::running(0.0)))
    }
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        let layout = out.layout();
        let mut rest = &self.frames[self.at][..];
        for leaf in layout.leaves() {
            let (here, after) = rest.split_at(leaf.elements);
            out.key(&leaf.path)?.write(here)?;
            rest = after;
        }
        self.at += 1;
        Ok(())
    }
    fn save(&self, out: &mut StateWriter) -> bool {
        out.u32(self.at as u32);
        out.u32(self.steps as u32);
        true
    }
    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.at = state.u32()? as usize;
        self.steps = state.u32()? as usize;
        Ok(())
    }
}

pub(super) fn reset(env: &mut impl Env) {
    let mut rng = EnvRng::new(0, 0, Stream::Env);
    env.reset(&mut ResetCtx::new(&mut rng, 0, 0, 0)).unwrap();
}

/// One step with the action of all zeros.
pub(super) fn step(env: &mut impl Env) -> Transition {
    let layout = Layout::of_actions(&env.action_space()).unwrap();
    let mut rng = EnvRng::new(0, 0, Stream::Env);
    env.step(ActionBuf::new(&layout).view(), &mut rng).unwrap()
}

/// One step with this box action.
pub(super) fn act(env: &mut impl Env, action: &[f32]) {
    let layout = Layout::of_actions(&env.action_space()).unwrap();
    let mut rng = EnvRng::new(0, 0, Stream::Env);
    let action = ActionBuf::new(&layout).with_continuous(action);
    env.step(action.view(), &mut rng).unwrap();
}

pub(super) fn observe(env: &mut impl Env) -> ObservationBuf {
    let mut buf = ObservationBuf::new(&Layout::new(&env.observation_space()).unwrap());
    env.observe(&mut buf.as_mut()).unwrap();
    buf
}
