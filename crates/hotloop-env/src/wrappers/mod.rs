//! Wrappers: environments around environments, each for one purpose.

mod time_limit;

pub use time_limit::TimeLimit;
