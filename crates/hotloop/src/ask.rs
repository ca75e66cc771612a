//! Asking an environment for its spaces: one is made for it, which may take long, or for ever.

use crate::Error;
use hotloop_env::{EnvOptions, EnvSpec, Spaces};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// So long nobody wonders what is being waited for.
const SILENCE: Duration = Duration::from_secs(5);

/// The spaces of this environment. Says what is waited for if that takes long.
pub(crate) fn spaces(spec: &EnvSpec, options: &EnvOptions) -> Result<Spaces, Error> {
    thread::scope(|scope| {
        // Dropped with the answer, which ends the wait.
        let (_asking, answered) = mpsc::channel::<()>();
        // Without this thread nothing is said, and that is all.
        let _ = thread::Builder::new()
            .name("hotloop-ask".into())
            .spawn_scoped(scope, move || {
                if answered.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
                    tracing::warn!("{}", waiting(spec, options));
                }
            });
        Ok(spec.spaces(options)?)
    })
}

fn waiting(spec: &EnvSpec, options: &EnvOptions) -> String {
    let limit = match (spec.waits(), options.reset_deadline()) {
        (true, None) => "; rollout.reset_deadline sets a limit".to_string(),
        (true, Some(limit)) => format!("; rollout.reset_deadline = {}", limit.as_secs_f64()),
        (false, _) => String::new(),
    };
    format!(
        "{}: still waiting for its constructor or its first reset, to know its spaces; Ctrl-C ends it{limit}",
        spec.id()
    )
}
