//! Pure reinforcement-learning mathematics: return and advantage estimators, running statistics,
//! schedules, rates. No threads, no tensors, no dependencies.
//!
//! Everything here is a function of its arguments: one input, one result, to the last bit, whatever
//! the number of threads around it. Data is `f32`, as the slab holds it; sums are taken in `f64`.
//! Masks are bytes, zero for *no* and anything else for *yes*.
//!
//! A slice of the wrong length is a programming error and panics with both lengths; data that comes
//! from outside the program (a checkpoint) is checked and refused with an error.

mod advantages;
mod clock;
mod explained_variance;
mod gae;
mod masked;
mod moments;
mod n_step;
mod rate;
mod return_scaler;
mod rows;
mod schedule;
mod standardizer;
mod target_scale;
mod vtrace;
mod window;

pub use advantages::{Spread, normalize_advantages};
pub use clock::{Clock, ManualClock, SystemClock};
pub use explained_variance::explained_variance;
pub use gae::gae;
pub use moments::{MomentsError, RunningMoments};
pub use n_step::n_step;
pub use rate::Rate;
pub use return_scaler::ReturnScaler;
pub use rows::Rows;
pub use schedule::Schedule;
pub use standardizer::Standardizer;
pub use target_scale::TargetScale;
pub use vtrace::{VTrace, vtrace};
pub use window::Window;
