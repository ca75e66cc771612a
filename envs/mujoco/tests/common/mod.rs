//! An environment with what it is called with.

#![allow(dead_code, reason = "each test file uses its part")]

use hotloop_env::{
    ActionBuf, End, Env, EnvError, EnvRng, Frame, Layout, ObservationBuf, OptionValue, Registry,
    ResetCtx, Space, StateReader, StateWriter,
};
use hotloop_mujoco::{MuJoCo, Task, register};

pub(crate) struct Lane<T> {
    env: MuJoCo<T>,
    action: ActionBuf,
    observation: ObservationBuf,
}

impl<T: Task> Lane<T> {
    /// With these options, and Gymnasium's defaults for all others.
    pub(crate) fn new(given: &[(&str, OptionValue)]) -> Self {
        let mut registry = Registry::new();
        register(&mut registry);
        let spec = registry.get(T::ID).unwrap();
        let given = given
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()));
        let env = MuJoCo::<T>::new(&spec.options(&given.collect()).unwrap()).unwrap();
        let actions = Layout::of_actions(&env.action_space()).unwrap();
        let observations = Layout::new(&env.observation_space()).unwrap();
        Self {
            env,
            action: ActionBuf::new(&actions),
            observation: ObservationBuf::new(&observations),
        }
    }

    /// The upper bound of every action.
    pub(crate) fn high(&self) -> Vec<f64> {
        let Space::Box(space) = self.env.action_space() else {
            panic!("not a box");
        };
        (0..space.elements()).map(|i| space.high.at(i)).collect()
    }

    /// Positions and velocities.
    pub(crate) fn state(&self) -> Vec<f64> {
        let simulation = self.env.simulation();
        [simulation.positions(), simulation.velocities()].concat()
    }

    pub(crate) fn reset(&mut self, rng: &mut EnvRng) {
        self.env.reset(&mut ResetCtx::new(rng, 0, 0, 0)).unwrap();
    }

    pub(crate) fn step(&mut self, action: &[f32], rng: &mut EnvRng) -> (f64, End) {
        self.action = self.action.clone().with_continuous(action);
        let transition = self.env.step(self.action.view(), rng).unwrap();
        (transition.reward(), transition.end())
    }

    pub(crate) fn observe(&mut self) -> Vec<f64> {
        self.env.observe(&mut self.observation.as_mut()).unwrap();
        self.observation.first().to_vec()
    }

    pub(crate) fn draw(&mut self) -> Result<Frame, EnvError> {
        let mut frame = Frame::new();
        assert!(self.env.render(&mut frame)?);
        Ok(frame)
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

    pub(crate) fn env(&self) -> &MuJoCo<T> {
        &self.env
    }
}
