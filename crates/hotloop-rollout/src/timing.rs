//! How long an actor waits for each of its lanes, and how long it rests when one keeps failing. The clock
//! is tokio's, which a test can pause.

use crate::{RolloutConfig, Schedule, Scheduler};
use hotloop_env::FaultPhase;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The longest rest.
const LONGEST: Duration = Duration::from_secs(30);

/// So many times within a limit it is looked who is at work: one that comes to be while nobody is woken, as in a
/// process that steps several environments one after the other, is timed from the next look on.
pub(crate) const LOOKS: u32 = 8;

/// The limits of one actor's waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    step: Option<Duration>,
    reset: Option<Duration>,
    /// The rest before a lane's turn after its second failure in a row.
    rest: Duration,
}

impl Limits {
    /// Those of a rollout with these settings.
    #[must_use]
    pub fn of(config: &RolloutConfig) -> Self {
        if let Schedule::Replay(_) = config.schedule {
            // Lanes are given up where they were, whatever the time.
            return Self::default();
        }
        Self {
            step: config.step_deadline,
            reset: config.reset_deadline,
            rest: match config.scheduler {
                // A whole group would rest with it.
                Scheduler::Lockstep => Duration::ZERO,
                Scheduler::FirstReady { .. } => config.backoff,
            },
        }
    }

    fn of_call(&self, phase: FaultPhase) -> Option<Duration> {
        match phase {
            FaultPhase::Step => self.step,
            FaultPhase::Build | FaultPhase::Reset => self.reset,
        }
    }

    /// The rest after so many failures in a row. The first may be chance, and costs nothing.
    pub(crate) fn rest(&self, failures: u32) -> Duration {
        match failures.checked_sub(2) {
            None => Duration::ZERO,
            Some(doublings) => (self.rest * (1 << doublings.min(20))).min(LONGEST),
        }
    }
}

/// How long each lane of a block that waits has been waiting: the clock of one actor, or of an evaluation.
pub struct Timing {
    limits: Limits,
    /// What each lane was seen waiting for, and since when.
    seen: Vec<Option<(FaultPhase, Instant)>>,
    /// Made when it is first needed, and set anew each time.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Timing {
    /// For a block of so many lanes.
    #[must_use]
    pub fn new(limits: Limits, lanes: usize) -> Self {
        let limited = limits.step.is_some() || limits.reset.is_some();
        Self {
            limits,
            seen: vec![None; if limited { lanes } else { 0 }],
            timer: None,
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A turn begins.
    pub fn begin(&mut self) {
        self.seen.fill(None);
    }

    /// Looks at what each lane is waiting for, after the block was polled: ready with a lane whose time
    /// is over, and why; otherwise the task is woken when the next one's is, or to look again. `busy` is
    /// [`AsyncVectorEnv::busy`](hotloop_env::AsyncVectorEnv::busy).
    pub fn poll_overdue(
        &mut self,
        cx: &mut Context<'_>,
        busy: impl Fn(usize) -> Option<FaultPhase>,
    ) -> Poll<(usize, String)> {
        let Some(shortest) = self.limits.step.into_iter().chain(self.limits.reset).min() else {
            return Poll::Pending;
        };
        let now = Instant::now();
        let look = now + shortest / LOOKS;
        let mut next: Option<Instant> = None;
        for (i, seen) in self.seen.iter_mut().enumerate() {
            let Some(phase) = busy(i) else {
                continue;
            };
            let since = match *seen {
                Some((before, since)) if before == phase => since,
                _ => {
                    *seen = Some((phase, now));
                    now
                }
            };
            let due = match self.limits.of_call(phase) {
                Some(limit) if since + limit <= now => {
                    *seen = None;
                    return Poll::Ready((i, format!("no answer within {} s", limit.as_secs_f64())));
                }
                // What follows may have a limit, and nobody need wake the task when it begins.
                Some(limit) => look.min(since + limit),
                None => look,
            };
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        match next {
            // The time may have come while it was set: then all is looked at once more.
            Some(due) if self.poll_until(due, cx).is_ready() => self.poll_overdue(cx, busy),
            _ => Poll::Pending,
        }
    }

    /// Ready at `due`.
    pub(crate) fn poll_until(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        timer.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs on a clock that stands still while there is anything to do.
    fn timed<T>(test: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(test)
    }

    #[test]
    fn a_reset_is_timed_that_follows_a_step_without_a_limit_in_the_same_turn() {
        timed(async {
            let config = RolloutConfig {
                reset_deadline: Some(Duration::from_secs(1)),
                ..Default::default()
            };
            let mut timing = Timing::new(Limits::of(&config), 1);
            let begun = Instant::now();
            // Nobody wakes the task when the step is over and the reset hangs.
            let busy = |_| match begun.elapsed() < Duration::from_millis(3500) {
                true => Some(FaultPhase::Step),
                false => Some(FaultPhase::Reset),
            };
            let overdue = std::future::poll_fn(|cx| timing.poll_overdue(cx, busy));
            assert_eq!(overdue.await, (0, "no answer within 1 s".to_string()));
            assert!(begun.elapsed() >= Duration::from_millis(4500));
            assert!(begun.elapsed() <= Duration::from_millis(4650));
        });
    }

    #[test]
    fn br_46_one_of_several_that_take_turns_has_its_limit_and_an_eighth() {
        timed(async {
            let config = RolloutConfig {
                step_deadline: Some(Duration::from_secs(8)),
                ..Default::default()
            };
            let mut timing = Timing::new(Limits::of(&config), 3);
            let begun = Instant::now();
            // The first two answer after 3.5 seconds each, the third never; nobody wakes the task.
            let busy = |lane| {
                let at = (begun.elapsed().as_millis() / 3500).min(2) as usize;
                (lane == at).then_some(FaultPhase::Step)
            };
            let overdue = std::future::poll_fn(|cx| timing.poll_overdue(cx, busy));
            assert_eq!(overdue.await, (2, "no answer within 8 s".to_string()));
            assert!(begun.elapsed() >= Duration::from_secs(15));
            assert!(begun.elapsed() <= Duration::from_millis(16_100));
        });
    }

    #[test]
    fn a_rest_doubles_from_the_second_failure_on_and_has_an_end() {
        let config = RolloutConfig {
            scheduler: Scheduler::FirstReady { max_batch: 1 },
            backoff: Duration::from_millis(100),
            ..Default::default()
        };
        let limits = Limits::of(&config);
        let rests = [0, 1, 2, 3, 4, 10, 11, 12, u32::MAX].map(|n| limits.rest(n).as_millis());
        assert_eq!(rests, [0, 0, 100, 200, 400, 25_600, 30_000, 30_000, 30_000]);
        let lockstep = RolloutConfig {
            scheduler: Scheduler::Lockstep,
            ..config
        };
        assert!(Limits::of(&lockstep).rest(9).is_zero());
    }
}
