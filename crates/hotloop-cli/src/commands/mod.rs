//! One file for each command.

mod bench;
mod completions;
mod config;
mod doctor;
mod envs;
mod eval;
mod new;
mod play;
mod train;

pub(crate) use bench::bench;
pub(crate) use completions::completions;
pub(crate) use config::config;
pub(crate) use doctor::doctor;
pub(crate) use envs::envs;
pub(crate) use eval::eval;
pub(crate) use new::new;
pub(crate) use play::play;
pub(crate) use train::train;
