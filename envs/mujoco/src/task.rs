//! What one environment of the family says of itself; what all have in common is in [`MuJoCo`](crate::MuJoCo).

use crate::{Cursor, Simulation};
use hotloop_env::{EnvOptions, EnvRng, EnvSpec};

/// What a step was worth, and whether it ended the episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The reward.
    pub reward: f64,
    /// Whether the episode terminated.
    pub terminated: bool,
}

impl Judgement {
    /// A step of this reward after which the episode goes on.
    pub fn running(reward: f64) -> Self {
        Self {
            reward,
            terminated: false,
        }
    }
}

/// One environment of the family.
pub trait Task: Send + Sized + 'static {
    /// Gymnasium's id.
    const ID: &'static str;
    /// One line about it.
    const ABOUT: &'static str;
    /// The text of the model's file.
    const MODEL: &'static str;
    /// Steps of MuJoCo per step of the environment, if not set otherwise.
    const FRAME_SKIP: i64;
    /// Steps after which an episode is truncated.
    const TIME_LIMIT: u32 = 1000;
    /// Whether it reads the external forces on bodies.
    const FORCES: bool = false;

    /// Declares the options beside `frame_skip`, with Gymnasium's defaults.
    fn declare(spec: EnvSpec) -> EnvSpec;

    /// The task with these options.
    fn new(options: &EnvOptions, simulation: &Simulation) -> Self;

    /// Puts the simulation where an episode starts.
    fn start(&self, simulation: &mut Simulation, rng: &mut EnvRng);

    /// The place in the plane whose velocity counts.
    fn place(&self, simulation: &Simulation) -> [f64; 2] {
        let _ = simulation;
        [0.0; 2]
    }

    /// Judges what `action` led to; `velocity` is that of [`place`](Self::place) over the step.
    fn judge(&self, simulation: &Simulation, action: &[f32], velocity: [f64; 2]) -> Judgement;

    /// Writes the observation.
    fn observe(&self, simulation: &Simulation, out: &mut Cursor<'_>);
}
