//! One simulation: the state of a model, and how time passes in it.

use crate::model;
use hotloop_env::{EnvError, EnvRng, StateReader, StateWriter};
use mujoco_rs::wrappers::mj_data::MjtState;
use mujoco_rs::wrappers::{MjData, MjModel};
use std::sync::Arc;

/// All that the next step depends on: time, positions, velocities, controls, the solver's warm start.
const WHOLE: u32 = MjtState::mjSTATE_INTEGRATION as u32;

/// The state of one model.
///
/// Positions and velocities are MuJoCo's generalized coordinates; everything Cartesian (`xpos`, `site_xpos`, …) is
/// of the last substep's begin, as MuJoCo leaves it.
pub struct Simulation {
    data: MjData<Arc<MjModel>>,
    substeps: u32,
    forces: bool,
}

impl Simulation {
    /// At the initial state of the model that `xml` describes. One [`advance`](Self::advance) is `substeps` steps of
    /// MuJoCo, and `forces` says whether external forces on bodies are wanted after it.
    pub(crate) fn new(xml: &'static str, substeps: u32, forces: bool) -> Result<Self, EnvError> {
        let data = MjData::try_new(model::shared(xml)?)
            .map_err(|error| EnvError::new(format!("MuJoCo cannot make a simulation: {error}")))?;
        Ok(Self {
            data,
            substeps,
            forces,
        })
    }

    /// What is simulated.
    pub fn model(&self) -> &MjModel {
        self.data.model()
    }

    /// The whole state, as MuJoCo has it.
    pub fn data(&self) -> &MjData<Arc<MjModel>> {
        &self.data
    }

    /// The whole state, for what MuJoCo works out beside it.
    pub(crate) fn data_mut(&mut self) -> &mut MjData<Arc<MjModel>> {
        &mut self.data
    }

    /// Generalized positions (`qpos`).
    #[inline]
    pub fn positions(&self) -> &[f64] {
        self.data.qpos()
    }

    /// Generalized velocities (`qvel`).
    #[inline]
    pub fn velocities(&self) -> &[f64] {
        self.data.qvel()
    }

    /// Where the frame of body number `body` is.
    #[inline]
    pub fn body(&self, body: usize) -> [f64; 3] {
        self.data.xpos()[body]
    }

    /// The number of the body of this name. Panics if the model has none: models are this crate's own.
    pub fn body_named(&self, name: &str) -> usize {
        self.model()
            .name_to_id(mujoco_rs::wrappers::MjtObjBase::mjOBJ_BODY, name)
            .unwrap_or_else(|| panic!("the model has no body named {name:?}"))
    }

    /// Seconds that pass in one [`advance`](Self::advance).
    #[inline]
    pub fn dt(&self) -> f64 {
        self.timestep() * f64::from(self.substeps)
    }

    /// Seconds of one substep.
    #[inline]
    pub fn timestep(&self) -> f64 {
        self.data.model_opt().timestep
    }

    /// Goes back to the initial state, with what `place` and `push` make of the initial positions and velocities.
    pub fn restart(&mut self, place: impl FnOnce(&mut [f64]), push: impl FnOnce(&mut [f64])) {
        self.data.reset();
        place(self.data.qpos_mut());
        push(self.data.qvel_mut());
        self.data.forward();
    }

    /// Goes back to the initial state, with uniform noise of ±`scale` on positions and then on velocities.
    pub(crate) fn restart_uniform(&mut self, scale: f64, rng: &mut EnvRng) {
        self.restart_with(scale, rng, |rng| rng.range(-scale, scale));
    }

    /// Goes back to the initial state, with uniform noise of ±`scale` on positions and then normal noise of that
    /// deviation on velocities.
    pub(crate) fn restart_normal(&mut self, scale: f64, rng: &mut EnvRng) {
        self.restart_with(scale, rng, |rng| scale * rng.normal());
    }

    fn restart_with(&mut self, scale: f64, rng: &mut EnvRng, noise: impl Fn(&mut EnvRng) -> f64) {
        let rng = std::cell::RefCell::new(rng);
        self.restart(
            |positions| {
                for x in positions {
                    *x += rng.borrow_mut().range(-scale, scale);
                }
            },
            |velocities| {
                for v in velocities {
                    *v += noise(&mut rng.borrow_mut());
                }
            },
        );
    }

    /// Lets [`dt`](Self::dt) seconds pass under these controls.
    #[inline]
    pub fn advance(&mut self, controls: &[f32]) {
        for (control, given) in self.data.ctrl_mut().iter_mut().zip(controls) {
            *control = f64::from(*given);
        }
        for _ in 0..self.substeps {
            self.data.step();
        }
        if self.forces {
            self.data.rne_post_constraint();
        }
    }

    /// Saves what the next step depends on.
    pub(crate) fn save(&self, out: &mut StateWriter) {
        for &number in &self.data.state(WHOLE) {
            out.f64(number);
        }
    }

    /// Goes to a state that [`save`](Self::save) wrote. What MuJoCo derives from a state follows at the next step.
    pub(crate) fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        let mut numbers = vec![0.0; self.model().state_size(WHOLE)];
        for number in &mut numbers {
            *number = state.f64()?;
        }
        self.data.reset();
        self.data
            .set_state(&numbers, WHOLE)
            .map_err(|error| EnvError::new(format!("MuJoCo refuses the saved state: {error}")))
    }
}
