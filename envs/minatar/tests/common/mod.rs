//! An environment with what it is called with.

use hotloop_env::{
    ActionBuf, End, Env, EnvRng, Frame, Layout, ObservationBuf, ResetCtx, StateReader, StateWriter,
};

pub(crate) struct Lane<E> {
    env: E,
    action: ActionBuf,
    observation: ObservationBuf,
}

#[allow(dead_code, reason = "each test binary uses its own part of this")]
impl<E: Env> Lane<E> {
    pub(crate) fn new(env: E) -> Self {
        let actions = Layout::of_actions(&env.action_space()).unwrap();
        let observations = Layout::new(&env.observation_space()).unwrap();
        Self {
            env,
            action: ActionBuf::new(&actions),
            observation: ObservationBuf::new(&observations),
        }
    }

    pub(crate) fn reset(&mut self, rng: &mut EnvRng) {
        self.env.reset(&mut ResetCtx::new(rng, 0, 0, 0)).unwrap();
    }

    pub(crate) fn step(&mut self, action: usize, rng: &mut EnvRng) -> (f64, End) {
        self.action = self.action.clone().with_index(action);
        let transition = self.env.step(self.action.view(), rng).unwrap();
        (transition.reward(), transition.end())
    }

    pub(crate) fn observe(&mut self) -> &[u8] {
        self.env.observe(&mut self.observation.as_mut()).unwrap();
        self.observation.record()
    }

    pub(crate) fn draw(&mut self, frame: &mut Frame) {
        assert!(self.env.render(frame).unwrap());
    }

    pub(crate) fn save(&self) -> Vec<u8> {
        let mut out = StateWriter::new();
        assert!(self.env.save(&mut out));
        out.into_bytes()
    }

    pub(crate) fn load(&mut self, state: &[u8]) {
        let mut reader = StateReader::new(state);
        self.env.load(&mut reader).unwrap();
        reader.finish().unwrap();
    }
}
