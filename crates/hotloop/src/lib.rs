//! hotloop's facade: the typed configuration, and the presets.

pub mod config;
pub mod presets;
