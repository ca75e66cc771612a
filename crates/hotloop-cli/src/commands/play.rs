//! `play`: shows episodes in the terminal.

use super::eval::{agent, choice};
use crate::args::PlayArgs;
use crate::exit::Failure;
use crate::screen::{self, Screen};
use crate::{output, signals};
use anyhow::anyhow;
use hotloop::prelude::Registry;
use hotloop::{EvalPlan, View};
use hotloop_telemetry::Console;
use std::io::{self, ErrorKind, IsTerminal};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

/// Columns and rows of a terminal that does not tell.
const USUAL: (usize, usize) = (80, 24);
/// For how long a state stands at most, whatever an environment tells.
const SLOWEST: Duration = Duration::from_secs(10);
/// States per second of an environment that does not tell.
const USUAL_FPS: f64 = 10.0;
/// Rows that are not of the picture: a line about the episode, and the cursor's.
const OTHER_ROWS: usize = 2;
/// For how long the last state of an episode stands.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn play(args: &PlayArgs, registry: &Registry, console: &Console) -> Result<(), Failure> {
    let terminal = io::stdout().is_terminal();
    let leave = match terminal {
        true => signals::leave(console, screen::restore),
        false => signals::leave(console, || ()),
    };
    leave.map_err(Failure::running)?;
    let mut agent = agent(&args.policy, registry)?;
    let episodes = args.episodes as usize;
    let plan = EvalPlan {
        episodes,
        seed: args.policy.seed,
        choice: choice(&args.policy),
    };
    let mut show = Show {
        env: agent.env().to_string(),
        fps: args.fps,
        screen: None,
        terminal,
        next: Instant::now(),
        ends: String::new(),
    };
    let mut outcome = Ok(());
    let report = agent.watch(plan, 1, episodes, &mut |view| match show.state(view) {
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => {
            outcome = Err(failure);
            ControlFlow::Break(())
        }
    });
    // The terminal is itself again before anything is said.
    show.screen = None;
    outcome?;
    report.map_err(Failure::running)?;
    match terminal {
        true => output::put(&show.ends),
        false => Ok(()),
    }
}

/// What is shown, and how.
struct Show {
    env: String,
    /// States per second, as asked for; then as the environment says.
    fps: Option<f64>,
    /// Taken at the first state that can be shown.
    screen: Option<Screen>,
    terminal: bool,
    /// When the next state is due.
    next: Instant,
    /// A line on each episode that is over.
    ends: String,
}

impl Show {
    fn state(&mut self, mut view: View<'_>) -> Result<(), Failure> {
        let picture = self.picture(&mut view)?;
        let about = format!(
            "{}, episode {}: return {:.2} after {} steps\n",
            self.env,
            view.episode(),
            view.episode_return(),
            view.steps()
        );
        if view.is_over() {
            self.ends.push_str(&about);
        }
        if !self.terminal {
            return output::put(&format!("{}{about}\n", screen::plain(&picture)));
        }
        if self.screen.is_none() {
            self.screen = Some(Screen::enter().map_err(Failure::running)?);
            self.next = Instant::now();
        }
        thread::sleep(self.next.saturating_duration_since(Instant::now()));
        if let Some(screen) = &mut self.screen {
            match screen.show(&(picture + &about)) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    return Err(Failure::running(error));
                }
                _ => {}
            }
        }
        self.next = Instant::now()
            + match (view.is_over(), self.fps) {
                (true, _) => PAUSE,
                (false, fps) => Duration::try_from_secs_f64(1.0 / fps.unwrap_or(USUAL_FPS))
                    .map_or(SLOWEST, |time| time.min(SLOWEST)),
            };
        Ok(())
    }

    /// The state as text: in the environment's own glyphs, or as a picture in half blocks, which need colours.
    fn picture(&mut self, view: &mut View<'_>) -> Result<String, Failure> {
        if let Some(glyphs) = view.glyphs() {
            if self.fps.is_none() {
                let frame = view.frame().map_err(Failure::running)?;
                self.fps = Some(frame.map_or(USUAL_FPS, |frame| frame.fps));
            }
            return Ok(glyphs);
        }
        let Some(frame) = view.frame().map_err(Failure::running)? else {
            return Err(Failure::Input(anyhow!(
                "{} can be shown neither as text nor as a picture: it implements neither `glyphs` nor `render`",
                self.env
            )));
        };
        if !self.terminal {
            return Err(Failure::Input(anyhow!(
                "{} is shown in colours, and standard output is not a terminal; `eval --render FILE.gif` makes a film",
                self.env
            )));
        }
        self.fps.get_or_insert(frame.fps);
        let (columns, rows) = match terminal_size::terminal_size() {
            Some((width, height)) => (width.0.into(), height.0.into()),
            None => USUAL,
        };
        let rows = usize::saturating_sub(rows, OTHER_ROWS).max(1);
        Ok(screen::half_blocks(frame, columns, rows))
    }
}
