//! Adds the times to what the trainer reports and passes it on.

use crate::{Run, Sink, TelemetryError, Timing, Update};
use hotloop_math::{Clock, Rate};
use std::sync::Arc;
use std::time::Duration;

/// The trainer's end of the telemetry: one for each run. Dropping it ends every sink.
pub struct Reporter {
    clock: Arc<dyn Clock>,
    started: Duration,
    rate: Rate,
    before_s: f64,
    sinks: Vec<Box<dyn Sink>>,
    lost: u64,
}

/// What a run amounted to in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// Seconds of training in the whole run, earlier parts of a resumed one included.
    pub wall_s: f64,
    /// Env steps per second since this process began the run.
    pub steps_per_s: f64,
}

impl Reporter {
    /// Starts the clock and every sink.
    ///
    /// # Errors
    ///
    /// That of the first sink that cannot start.
    pub fn start(
        clock: Arc<dyn Clock>,
        run: &Run,
        mut sinks: Vec<Box<dyn Sink>>,
    ) -> Result<Self, TelemetryError> {
        for sink in &mut sinks {
            sink.start(run)?;
        }
        let started = clock.now();
        Ok(Self {
            rate: Rate::new(started, run.done_steps),
            clock,
            started,
            before_s: run.done_wall_s,
            sinks,
            lost: 0,
        })
    }

    /// Reports an update to every sink. A sink that fails costs a line of it, never the run.
    pub fn update(&mut self, update: &Update) {
        let now = self.clock.now();
        let steps_per_s = self.rate.tick(now, update.env_steps);
        let elapsed = now.saturating_sub(self.started);
        let timing = Timing {
            elapsed,
            wall_s: self.before_s + self.rate.elapsed().as_secs_f64(),
            steps_per_s,
        };
        for sink in &mut self.sinks {
            if let Err(error) = sink.update(update, &timing) {
                if self.lost == 0 {
                    tracing::warn!("{error}; training goes on without this record");
                }
                self.lost += 1;
            }
        }
    }

    /// The totals up to the last update.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            wall_s: self.before_s + self.rate.elapsed().as_secs_f64(),
            steps_per_s: self.rate.average(),
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        for sink in &mut self.sinks {
            sink.finish();
        }
        if self.lost > 0 {
            tracing::warn!("{} records of this run could not be written", self.lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop_math::ManualClock;
    use std::sync::Mutex;

    /// Keeps what it hears.
    #[derive(Clone, Default)]
    struct Ear(Arc<Mutex<Vec<(u64, Timing)>>>);
    impl Sink for Ear {
        fn update(&mut self, update: &Update, timing: &Timing) -> Result<(), TelemetryError> {
            self.0.lock().unwrap().push((update.env_steps, *timing));
            Ok(())
        }
    }

    struct Broken;
    impl Sink for Broken {
        fn update(&mut self, _: &Update, _: &Timing) -> Result<(), TelemetryError> {
            Err(TelemetryError::io(
                "write",
                "metrics.jsonl",
                std::io::ErrorKind::StorageFull.into(),
            ))
        }
    }

    fn run(done_steps: u64, done_wall_s: f64) -> Run {
        Run {
            dir: "runs/x".into(),
            env: "Still-v0".into(),
            algo: "ppo".into(),
            seed: 1,
            target_steps: 2_000_000,
            done_steps,
            done_wall_s,
        }
    }

    fn steps(env_steps: u64) -> Update {
        Update {
            env_steps,
            ..Update::default()
        }
    }

    #[test]
    fn br_56_a_resumed_run_is_credited_with_its_own_steps_and_keeps_its_time() {
        let clock = Arc::new(ManualClock::new(Duration::from_secs(50)));
        let ear = Ear::default();
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Broken), Box::new(ear.clone())];
        let mut reporter = Reporter::start(clock.clone(), &run(1_000_000, 60.0), sinks).unwrap();
        clock.advance(Duration::from_secs(2));
        reporter.update(&steps(1_000_500));
        let (env_steps, timing) = ear.0.lock().unwrap()[0];
        assert_eq!(env_steps, 1_000_500);
        assert_eq!(timing.steps_per_s, 250.0);
        assert_eq!(timing.wall_s, 62.0);
        assert_eq!(timing.elapsed, Duration::from_secs(2));
        assert_eq!(
            reporter.totals(),
            Totals {
                wall_s: 62.0,
                steps_per_s: 250.0
            }
        );
    }

    #[test]
    fn br_56_no_time_and_time_backwards_are_no_rate() {
        let clock = Arc::new(ManualClock::new(Duration::from_secs(5000)));
        let ear = Ear::default();
        let mut reporter =
            Reporter::start(clock.clone(), &run(0, 0.0), vec![Box::new(ear.clone())]).unwrap();
        reporter.update(&steps(64));
        clock.set(Duration::from_secs(1400));
        reporter.update(&steps(128));
        clock.advance(Duration::from_secs(1));
        reporter.update(&steps(192));
        let heard = ear.0.lock().unwrap();
        let rates: Vec<f64> = heard.iter().map(|(_, t)| t.steps_per_s).collect();
        assert_eq!(rates, [0.0, 0.0, 64.0]);
        assert!(heard.iter().all(|(_, t)| t.wall_s >= 0.0));
    }
}
