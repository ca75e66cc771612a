//! Throughput from a growing count and a clock.

use std::time::Duration;

/// Events per second since the last look and since the start.
///
/// Count and time are handed in, so a resumed run starts at its restored count and is not credited
/// with work it did before. An interval of no length gives the rate 0 and is added to the next one; a
/// clock that steps back loses that interval and nothing else. Rates are always finite and never
/// negative.
#[derive(Clone, Debug)]
pub struct Rate {
    last: Duration,
    last_count: u64,
    elapsed: Duration,
    counted: u64,
}

impl Rate {
    /// Starts measuring at the time `now` with `count` events already counted (0 for a fresh run, the
    /// restored count for a resumed one).
    #[must_use]
    pub fn new(now: Duration, count: u64) -> Self {
        Self {
            last: now,
            last_count: count,
            elapsed: Duration::ZERO,
            counted: 0,
        }
    }

    /// Takes note of the total `count` at the time `now`, and returns the rate since the last call in
    /// events per second.
    pub fn tick(&mut self, now: Duration, count: u64) -> f64 {
        if now == self.last {
            return 0.0;
        }
        let interval = now.saturating_sub(self.last);
        let events = count.saturating_sub(self.last_count);
        self.last = now;
        self.last_count = count;
        if interval.is_zero() {
            return 0.0;
        }
        self.elapsed += interval;
        self.counted += events;
        per_second(events, interval)
    }

    /// The rate from the start to the last [`Rate::tick`], in events per second.
    #[must_use]
    pub fn average(&self) -> f64 {
        per_second(self.counted, self.elapsed)
    }

    /// The time measured from the start to the last [`Rate::tick`]; steps back are left out.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

/// 0 if no time has passed.
fn per_second(events: u64, interval: Duration) -> f64 {
    if interval.is_zero() {
        0.0
    } else {
        events as f64 / interval.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, ManualClock};

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn br_56_no_time_passed_is_rate_zero_and_nothing_is_lost() {
        let clock = ManualClock::new(HOUR);
        let mut rate = Rate::new(clock.now(), 0);
        assert_eq!(rate.tick(clock.now(), 500), 0.0);
        assert_eq!(rate.average(), 0.0);
        clock.advance(Duration::from_secs(2));
        assert_eq!(rate.tick(clock.now(), 1000), 500.0);
    }

    #[test]
    fn br_56_a_resumed_count_is_not_credited_to_this_process() {
        // Total steps over the time since the restart would be 500,250.
        let clock = ManualClock::new(Duration::ZERO);
        let mut rate = Rate::new(clock.now(), 1_000_000);
        clock.advance(Duration::from_secs(2));
        assert_eq!(rate.tick(clock.now(), 1_000_500), 250.0);
        assert_eq!(rate.average(), 250.0);
    }

    #[test]
    fn br_56_a_step_back_loses_one_interval_only() {
        let clock = ManualClock::new(HOUR);
        let mut rate = Rate::new(clock.now(), 0);
        clock.advance(Duration::from_secs(1));
        assert_eq!(rate.tick(clock.now(), 100), 100.0);
        clock.set(Duration::ZERO);
        assert_eq!(rate.tick(clock.now(), 200), 0.0);
        clock.advance(Duration::from_secs(1));
        assert_eq!(rate.tick(clock.now(), 300), 100.0);
        assert_eq!(rate.elapsed(), Duration::from_secs(2));
        assert_eq!(rate.average(), 100.0);
    }

    #[test]
    fn br_56_a_step_forward_stays_finite() {
        let clock = ManualClock::new(HOUR);
        let mut rate = Rate::new(clock.now(), 0);
        clock.advance(HOUR);
        assert_eq!(rate.tick(clock.now(), 3600), 1.0);
    }

    #[test]
    fn a_count_that_falls_is_no_negative_rate() {
        let mut rate = Rate::new(Duration::ZERO, 10);
        assert_eq!(rate.tick(Duration::from_secs(1), 5), 0.0);
        assert_eq!(rate.average(), 0.0);
    }
}
