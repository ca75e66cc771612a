//! What a run counts and remembers of its episodes.

use hotloop_env::end_flags;
use hotloop_math::Window;
use hotloop_rollout::Segment;

/// How far a run has come: what is counted and remembered of its episodes.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) env_steps: u64,
    pub(crate) episodes: u64,
    pub(crate) faults: u64,
    /// How many of them were lost with a neighbour.
    pub(crate) lost: u64,
    pub(crate) best_return: Option<f64>,
    pub(crate) returns: Window,
    pub(crate) lengths: Window,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            env_steps: 0,
            episodes: 0,
            faults: 0,
            lost: 0,
            best_return: None,
            returns: Window::new(100),
            lengths: Window::new(100),
        }
    }
}

impl Progress {
    /// Takes in the episodes that ended in a batch, in the order of segments, rows and lanes.
    pub(super) fn take_episodes(&mut self, segments: &[Segment]) {
        for segment in segments {
            for (i, flags) in segment.ends().iter().enumerate() {
                if flags & end_flags::EPISODE != 0 {
                    self.episodes += 1;
                    self.returns.push(f64::from(segment.episode_returns()[i]));
                    self.lengths.push(f64::from(segment.episode_lengths()[i]));
                }
            }
        }
    }
}
