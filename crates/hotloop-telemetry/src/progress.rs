//! Progress for people: one live line on a terminal, a line every few seconds elsewhere.

use crate::format::{clock, count, percent};
use crate::{Console, Evaluation, Run, Shares, Sink, TelemetryError, Timing, Update};
use hotloop_math::Rate;
use std::fmt::Write;
use std::time::Duration;

/// Redraws of the live line are at least this far apart: the eye wants no more, and an update may take
/// a millisecond.
const LIVE: Duration = Duration::from_millis(100);
/// The same for lines in a log file.
const PLAIN: Duration = Duration::from_secs(5);

/// Shows a run's progress on a [`Console`].
pub struct Progress {
    console: Console,
    every: Duration,
    target: u64,
    /// Ticked only when a line is drawn, so that the rate shown is over what the eye has seen pass.
    rate: Rate,
    drawn: Option<Duration>,
    /// The last line that was not shown, so that the end of the run never is left out.
    held_back: Option<String>,
}

impl Progress {
    /// Progress on this console.
    #[must_use]
    pub fn new(console: Console) -> Self {
        let every = if console.is_terminal() { LIVE } else { PLAIN };
        Self {
            console,
            every,
            target: 0,
            rate: Rate::new(Duration::ZERO, 0),
            drawn: None,
            held_back: None,
        }
    }

    fn show(&mut self, line: &str) {
        if self.console.is_terminal() {
            self.console.live(line);
        } else {
            self.console.line(line);
        }
    }

    fn text(&self, update: &Update, steps_per_s: f64) -> String {
        let share = update.env_steps as f64 / self.target.max(1) as f64;
        let mean = update
            .return_mean_100
            .map_or("–".to_string(), |mean| format!("{mean:.2}"));
        let left = self.target.saturating_sub(update.env_steps) as f64 / self.rate.average();
        // A rate of 0 makes this infinite, which no Duration holds.
        let left = Duration::try_from_secs_f64(left).map_or("–".to_string(), clock);
        let Shares {
            env,
            inference,
            learner,
        } = update.shares;
        let flow = update.flow;
        let mut rest = String::new();
        // Writing to a String cannot fail.
        if flow.staleness_max > 0 {
            let (mean, most) = (flow.staleness_mean, flow.staleness_max);
            let _ = write!(rest, "  staleness {mean:.1} to {most}");
        }
        if flow.stale_rows > 0.0 {
            let _ = write!(rest, "  too old {}", percent(flow.stale_rows));
        }
        if update.faults > 0 {
            let _ = write!(rest, "  faults {}", update.faults);
        }
        if update.lost > 0 {
            let _ = write!(rest, " ({} lost)", update.lost);
        }
        if flow.quarantined > 0 {
            let _ = write!(rest, "  set aside {}", flow.quarantined);
        }
        format!(
            "{:>4}  {} of {} steps  {} steps/s  return {mean}  left {left}  \
             env {} inference {} learner {}{rest}",
            percent(share.min(1.0)),
            count(update.env_steps as f64),
            count(self.target as f64),
            count(steps_per_s),
            percent(env),
            percent(inference),
            percent(learner),
        )
    }
}

impl Sink for Progress {
    fn start(&mut self, run: &Run) -> Result<(), TelemetryError> {
        self.target = run.target_steps;
        self.rate = Rate::new(Duration::ZERO, run.done_steps);
        let verb = if run.done_steps > 0 {
            format!("goes on at {} steps", count(run.done_steps as f64))
        } else {
            "starts".to_string()
        };
        self.console.line(&format!(
            "{} with {}, seed {}: {verb}, in {}",
            run.env,
            run.algo,
            run.seed,
            run.dir.display()
        ));
        Ok(())
    }

    fn update(&mut self, update: &Update, timing: &Timing) -> Result<(), TelemetryError> {
        if let Some(Evaluation {
            episodes,
            return_mean,
            return_std,
            faults,
            lost,
            best,
        }) = update.evaluation
        {
            let failed = match (faults, lost) {
                (0, _) => String::new(),
                (n, 0) => format!(", {n} failures of environments"),
                (n, lost) => format!(", {n} failures of environments ({lost} lost)"),
            };
            let best = if best { ", the best so far" } else { "" };
            self.console.line(&format!(
                "evaluation after {} steps: return {return_mean:.2} ± {return_std:.2} \
                 over {episodes} episodes{failed}{best}",
                count(update.env_steps as f64)
            ));
        }
        let due = self
            .drawn
            .is_none_or(|drawn| timing.elapsed.saturating_sub(drawn) >= self.every);
        if due {
            let steps_per_s = self.rate.tick(timing.elapsed, update.env_steps);
            let line = self.text(update, steps_per_s);
            self.show(&line);
            self.drawn = Some(timing.elapsed);
            self.held_back = None;
        } else {
            // Over the whole run: this line is shown only if the run ends with it.
            let mut rate = self.rate.clone();
            rate.tick(timing.elapsed, update.env_steps);
            self.held_back = Some(self.text(update, rate.average()));
        }
        Ok(())
    }

    fn finish(&mut self) {
        if let Some(line) = self.held_back.take() {
            self.show(&line);
        }
        self.console.end_live();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flow;
    use crate::console::tests::Paper;

    fn progress(terminal: bool, done_steps: u64) -> (Progress, Paper) {
        let paper = Paper::default();
        let mut progress = Progress::new(Console::new(Box::new(paper.clone()), terminal));
        let run = Run {
            dir: "runs/a".into(),
            env: "CartPole-v1".into(),
            algo: "ppo".into(),
            seed: 3,
            target_steps: 1_000_000,
            done_steps,
            done_wall_s: 0.0,
        };
        progress.start(&run).unwrap();
        (progress, paper)
    }

    fn tell(progress: &mut Progress, env_steps: u64, millis: u64) {
        let update = Update {
            env_steps,
            return_mean_100: Some(187.26),
            shares: Shares {
                env: 0.21,
                inference: 0.34,
                learner: 0.45,
            },
            ..Update::default()
        };
        let timing = Timing {
            elapsed: Duration::from_millis(millis),
            ..Timing::default()
        };
        progress.update(&update, &timing).unwrap();
    }

    #[test]
    fn a_log_file_gets_a_line_every_few_seconds_and_the_last_one() {
        let (mut progress, paper) = progress(false, 0);
        for (env_steps, millis) in [(100_000, 1000), (200_000, 2000), (600_000, 6000)] {
            tell(&mut progress, env_steps, millis);
        }
        tell(&mut progress, 1_000_000, 8000);
        progress.finish();
        let text = paper.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "CartPole-v1 with ppo, seed 3: starts, in runs/a",
                " 10%  100k of 1.00M steps  100k steps/s  return 187.26  left 0:09  env 21% inference 34% learner 45%",
                " 60%  600k of 1.00M steps  100k steps/s  return 187.26  left 0:04  env 21% inference 34% learner 45%",
                "100%  1.00M of 1.00M steps  125k steps/s  return 187.26  left 0:00  env 21% inference 34% learner 45%",
            ]
        );
    }

    #[test]
    fn what_is_not_as_it_should_be_is_shown() {
        let (mut progress, paper) = progress(false, 0);
        let update = Update {
            faults: 3,
            lost: 2,
            evaluation: Some(Evaluation {
                episodes: 4,
                return_mean: 1.0,
                return_std: 0.0,
                faults: 5,
                lost: 1,
                best: false,
            }),
            flow: Flow {
                staleness_mean: 0.75,
                staleness_max: 2,
                stale_rows: 0.01,
                quarantined: 1,
                ..Flow::default()
            },
            ..Update::default()
        };
        progress.update(&update, &Timing::default()).unwrap();
        let end = "  staleness 0.8 to 2  too old 1%  faults 3 (2 lost)  set aside 1\n";
        assert!(paper.text().ends_with(end), "{}", paper.text());
        let evaluated = "over 4 episodes, 5 failures of environments (1 lost)\n";
        assert!(paper.text().contains(evaluated), "{}", paper.text());
    }

    #[test]
    fn a_terminal_gets_one_line_redrawn_ten_times_a_second() {
        let (mut progress, paper) = progress(true, 0);
        for i in 1..=100 {
            tell(&mut progress, i * 10_000, i * 10);
        }
        progress.finish();
        let text = paper.text();
        assert_eq!(text.matches('\r').count(), 11, "{text:?}");
        assert!(text.ends_with('\n'));
        assert!(text.contains("100%  1.00M of"));
    }

    #[test]
    fn br_56_a_resumed_run_shows_its_own_rate() {
        let (mut progress, paper) = progress(false, 500_000);
        tell(&mut progress, 501_000, 1000);
        assert!(paper.text().contains("goes on at 500k steps"));
        assert!(paper.text().contains("  1.00k steps/s"));
    }

    #[test]
    fn br_56_no_time_passed_is_no_time_left() {
        let (mut progress, paper) = progress(false, 0);
        tell(&mut progress, 1000, 0);
        assert!(paper.text().contains("  0 steps/s"));
        assert!(paper.text().contains("left –"));
    }
}
