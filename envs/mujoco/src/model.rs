//! Models: each is compiled once and shared by all environments of its kind.

use hotloop_env::EnvError;
use mujoco_rs::logging::set_log_handler;
use mujoco_rs::wrappers::MjModel;
use mujoco_rs::wrappers::mj_logging::{MjLogMessage, MjtLogLevel};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The models compiled so far, by the text they were compiled from.
static MODELS: Mutex<BTreeMap<&'static str, Arc<MjModel>>> = Mutex::new(BTreeMap::new());

/// The model that `xml` describes.
pub(crate) fn shared(xml: &'static str) -> Result<Arc<MjModel>, EnvError> {
    let mut models = MODELS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(model) = models.get(xml) {
        return Ok(model.clone());
    }
    if models.is_empty() {
        // SAFETY: nothing but this crate uses MuJoCo's functions here, every use of them needs a model, and there is
        // none yet: no other thread is inside MuJoCo while the lock is held.
        unsafe { set_log_handler(heard) };
    }
    let mut model = MjModel::from_xml_string(xml)
        .map_err(|error| EnvError::new(format!("MuJoCo cannot compile the model: {error}")))?;
    // Pictures only: with the defaults they take four times as long where there is no graphics card.
    let quality = &mut model.vis_mut().quality;
    (quality.shadowsize, quality.offsamples) = (1024, 0);
    let model = Arc::new(model);
    models.insert(xml, model.clone());
    Ok(model)
}

/// What MuJoCo has to say. After an error it ends the process, so that is printed. Its own handler would write warnings
/// (that a state grew too large and was reset, as with Gymnasium) into a file in the working directory; the episode's
/// return shows as much.
fn heard(message: &MjLogMessage) {
    if message.level() == MjtLogLevel::mjLOG_ERROR {
        eprintln!("error: MuJoCo cannot go on: {}", message.subject());
    }
}
