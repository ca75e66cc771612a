//! Pictures of a simulation, by OpenGL without a window.

use crate::Simulation;
use hotloop_env::{EnvError, Frame};
use mujoco_rs::renderer::MjRenderer;
use mujoco_rs::wrappers::{MjModel, MjtObjBase, MjvCamera};
use std::cell::RefCell;

/// Pixels of each side, as with Gymnasium.
const SIDE: u32 = 480;

thread_local! {
    // A context of OpenGL belongs to the thread that made it, and an environment may be stepped by several in turn.
    static RENDERER: RefCell<Option<MjRenderer>> = const { RefCell::new(None) };
}

/// Draws the present state, seen by the model's camera `track` if it has one, else from where all is in sight.
pub(crate) fn draw(simulation: &mut Simulation, frame: &mut Frame) -> Result<(), EnvError> {
    RENDERER.with_borrow_mut(|kept| {
        let renderer = match kept {
            Some(renderer) => renderer,
            None => kept.insert(open(simulation.model())?),
        };
        renderer.set_camera(camera(simulation.model()));
        frame.fps = 1.0 / simulation.dt();
        renderer
            .sync_data(simulation.data_mut())
            .and_then(|()| renderer.render())
            .map_err(|error| EnvError::new(format!("MuJoCo cannot draw: {error}")))?;
        let pixels = frame.resize(SIDE, SIDE);
        pixels.copy_from_slice(renderer.rgb_flat().unwrap_or_default());
        Ok(())
    })
}

fn open(model: &MjModel) -> Result<MjRenderer, EnvError> {
    let builder = MjRenderer::builder().width(SIDE).height(SIDE);
    builder.build(model).map_err(|error| {
        EnvError::new(format!(
            "MuJoCo cannot draw: {error}. It needs OpenGL through EGL, which graphics drivers bring; without a graphics \
             card Mesa draws in software (Debian, Ubuntu: apt install libegl1 libgl1-mesa-dri)"
        ))
    })
}

fn camera(model: &MjModel) -> MjvCamera {
    match model.name_to_id(MjtObjBase::mjOBJ_CAMERA, "track") {
        Some(id) => MjvCamera::new_fixed(id),
        None => MjvCamera::new_free(model),
    }
}
