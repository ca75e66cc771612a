//! What becomes of environments that fail while they are evaluated.

use crate::Error;
use hotloop_env::{Cause, EnvError, Fault};

/// Failures of environments in an evaluation. The block has rebuilt what failed and begun its episode
/// anew, with the random numbers that follow; only an episode that goes on failing ends the evaluation.
pub(super) struct Failures {
    env: String,
    pub(super) total: u64,
    /// How many of them were lost with another.
    pub(super) lost: u64,
    /// Those of the episode that each lane plays.
    of_episode: Vec<u32>,
}

/// So often may an episode fail before it is given up.
const MOST_FAILURES: u32 = 10;

impl Failures {
    pub(super) fn new(env: &str, lanes: usize) -> Self {
        Self {
            env: env.to_string(),
            total: 0,
            lost: 0,
            of_episode: vec![0; lanes],
        }
    }

    /// Lane `lane` begins another episode.
    pub(super) fn forget(&mut self, lane: usize) {
        self.of_episode[lane] = 0;
    }

    pub(super) fn take(&mut self, faults: &mut Vec<Fault>) -> Result<(), Error> {
        for fault in faults.drain(..) {
            let what = format!("{}, evaluation, {fault}", self.env);
            tracing::warn!("{what}");
            self.total += 1;
            // What a neighbour did says nothing of this episode.
            if fault.cause == Cause::Lost {
                self.lost += 1;
                continue;
            }
            let failures = &mut self.of_episode[fault.lane];
            *failures += 1;
            if *failures > MOST_FAILURES {
                let reason = format!("{what} (failure {failures} of one episode)");
                return Err(EnvError::new(reason).into());
            }
        }
        Ok(())
    }
}
