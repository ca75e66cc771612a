//! A sink that hands every update to a closure.

use hotloop_telemetry::{Sink, TelemetryError, Timing, Update};

/// Calls a closure after every update.
pub struct Watch<F>(pub F);

impl<F: FnMut(&Update) + Send> Sink for Watch<F> {
    fn update(&mut self, update: &Update, _: &Timing) -> Result<(), TelemetryError> {
        (self.0)(update);
        Ok(())
    }
}
