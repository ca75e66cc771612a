//! Time from a source that a test can hold in its hand.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// A source of time. Durations come from [`Clock::now`] alone and timestamps from [`Clock::wall`]
/// alone, so that a wall clock that is set, or steps, never reaches a rate or a timeout.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment of this process; for durations. Does not go backwards in practice;
    /// what is built on it must survive it if it does.
    fn now(&self) -> Duration;

    /// The time of day, for timestamps in logs. May jump either way.
    fn wall(&self) -> SystemTime;
}

/// The machine's clocks.
#[derive(Clone, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock that reads 0 now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that stands still until it is set; for tests.
#[derive(Debug)]
pub struct ManualClock {
    hands: Mutex<(Duration, SystemTime)>,
}

impl ManualClock {
    /// A clock that reads `now`, with the time of day at the Unix epoch plus `now`.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self {
            hands: Mutex::new((now, SystemTime::UNIX_EPOCH + now)),
        }
    }

    /// Sets the monotonic hand, backwards too.
    pub fn set(&self, now: Duration) {
        self.hands().0 = now;
    }

    /// Moves both hands forward.
    pub fn advance(&self, by: Duration) {
        let mut hands = self.hands();
        hands.0 += by;
        hands.1 += by;
    }

    /// Sets the time of day alone, as an administrator or NTP would.
    pub fn set_wall(&self, wall: SystemTime) {
        self.hands().1 = wall;
    }

    fn hands(&self) -> std::sync::MutexGuard<'_, (Duration, SystemTime)> {
        // Two plain values: nothing can be half-written behind a poisoned lock.
        self.hands
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        self.hands().0
    }

    fn wall(&self) -> SystemTime {
        self.hands().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_56_wall_clock_steps_do_not_touch_durations() {
        let clock = ManualClock::new(Duration::from_secs(5000));
        let (now, wall) = (clock.now(), clock.wall());
        clock.set_wall(wall - Duration::from_secs(3600));
        assert_eq!(clock.now(), now);
        clock.advance(Duration::from_secs(2));
        assert_eq!(clock.now() - now, Duration::from_secs(2));
        assert_eq!(clock.wall(), wall - Duration::from_secs(3598));
    }

    #[test]
    fn the_machines_clock_starts_near_zero_and_tells_the_time_of_day() {
        let clock = SystemClock::new();
        assert!(clock.now() <= clock.now());
        assert!(clock.wall() > SystemTime::UNIX_EPOCH);
    }
}
