//! A game with the memory for its observation, as the engine has it.

use hotloop_atari::{Atari, Rules};
use hotloop_env::{
    ActionBuf, Env, EnvRng, Layout, ObservationBuf, ResetCtx, StateReader, StateWriter, Transition,
};
use std::path::Path;

pub(crate) struct Lane {
    pub(crate) env: Atari,
    action: ActionBuf,
    seen: ObservationBuf,
}

pub(crate) fn game(name: &str, rules: &Rules) -> Atari {
    let path = Path::new(env!("HOTLOOP_ALE")).join(format!("roms/{name}.bin"));
    Atari::new(name, &std::fs::read(path).unwrap(), rules.clone()).unwrap()
}

impl Lane {
    pub(crate) fn new(name: &str, rules: &Rules) -> Self {
        let env = game(name, rules);
        Self {
            action: ActionBuf::new(&Layout::of_actions(&env.action_space()).unwrap()),
            seen: ObservationBuf::new(&Layout::new(&env.observation_space()).unwrap()),
            env,
        }
    }

    pub(crate) fn reset(&mut self, rng: &mut EnvRng) {
        self.env.reset(&mut ResetCtx::new(rng, 0, 0, 0)).unwrap();
    }

    pub(crate) fn step(&mut self, action: usize, rng: &mut EnvRng) -> Transition {
        self.action = self.action.clone().with_index(action);
        self.env.step(self.action.view(), rng).unwrap()
    }

    pub(crate) fn observe(&mut self) -> &[u8] {
        self.env.observe(&mut self.seen.as_mut()).unwrap();
        self.seen.record()
    }

    pub(crate) fn save(&self) -> Vec<u8> {
        let mut state = StateWriter::new();
        assert!(self.env.save(&mut state));
        state.into_bytes()
    }

    pub(crate) fn load(&mut self, bytes: &[u8]) {
        let mut state = StateReader::new(bytes);
        self.env.load(&mut state).unwrap();
        state.finish().unwrap();
    }
}
