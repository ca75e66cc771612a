//! A game as an environment.

use crate::console::{Console, Outcome};
use crate::resize::{SIDE, WIDTH};
use crate::rules::Rules;
use crate::screen::Screen;
use hotloop_env::{
    ActionView, End, Env, EnvError, EnvRng, Frame, ImageLayout, ObservationMut, ResetCtx, Space,
    StateReader, StateWriter, Transition,
};

/// Frames that the console shows in a second.
const CONSOLE_FPS: f64 = 60.0;
/// Two of the console's actions.
const NOOP: i32 = 0;
const FIRE: i32 = 1;

/// A game as an environment: see the crate's page.
pub struct Atari {
    console: Console,
    rules: Rules,
    /// The console's actions by the agent's.
    actions: Vec<i32>,
    screen: Screen,
    /// What the console got at the frame before.
    last: i32,
    lives: i32,
    /// Whether the episode ended with a life while the game goes on.
    goes_on: bool,
    /// What starting the game with FIRE earned, for the first step to tell.
    owed: f64,
}

impl Atari {
    /// The game `name`, as its ROM file is called, with the bytes of that file.
    ///
    /// # Errors
    /// If the rules or the ROM cannot be used.
    pub fn new(name: &str, rom: &[u8], rules: Rules) -> Result<Self, EnvError> {
        rules.check()?;
        let console = Console::open(name, rom, rules.max_frames as i32)?;
        let [height, width] = console.size();
        if width != WIDTH {
            return Err(EnvError::new(format!(
                "the screen is {width} pixels wide, expected {WIDTH}"
            )));
        }
        Ok(Self {
            actions: console.actions(rules.full_action_space),
            screen: Screen::new(height, *console.grey()),
            console,
            rules,
            last: NOOP,
            lives: 0,
            goes_on: false,
            owed: 0.0,
        })
    }

    /// The lives that are left, as the game counts them.
    pub fn lives(&self) -> i32 {
        self.lives
    }

    /// Starts a game.
    fn start(&mut self, rng: &mut EnvRng) -> Result<(), EnvError> {
        self.console.reset()?;
        self.last = NOOP;
        let noops = match self.rules.noop_max {
            0 => 0,
            most => 1 + rng.below(most as u64),
        };
        for _ in 0..noops {
            let outcome = self.console.act(NOOP)?;
            if outcome.game_over() || outcome.truncated() {
                self.console.reset()?;
            }
        }
        Ok(())
    }
}

impl Env for Atari {
    fn observation_space(&self) -> Space {
        Space::image([1, SIDE, SIDE], ImageLayout::Chw)
    }

    fn action_space(&self) -> Space {
        Space::discrete(self.actions.len())
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        if !self.goes_on {
            self.start(ctx.rng())?;
        }
        let fire = self.rules.fire_on_reset && self.actions.contains(&FIRE);
        self.owed = 0.0;
        if fire {
            self.owed = f64::from(self.console.act(FIRE)?.reward);
            self.last = FIRE;
        }
        if fire || !self.goes_on {
            self.lives = self.console.lives();
            self.screen.start(self.console.screen());
        }
        self.goes_on = false;
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let action = self.actions[action.discrete() as usize];
        let skip = self.rules.frame_skip;
        let sticky = self.rules.repeat_action_probability;
        let mut reward = std::mem::take(&mut self.owed);
        let (mut end, mut life_lost) = (End::Continue, false);
        for frame in 1..=skip {
            if sticky == 0.0 || rng.uniform() >= sticky {
                self.last = action;
            }
            let outcome: Outcome = self.console.act(self.last)?;
            reward += f64::from(outcome.reward);
            life_lost = self.rules.terminal_on_life_loss && outcome.lives < self.lives;
            self.lives = outcome.lives;
            end = End::from_flags(outcome.game_over(), outcome.truncated());
            if end.is_over() || life_lost {
                self.screen.end_early();
                break;
            }
            if frame == skip {
                self.screen.end(self.console.screen(), skip == 1);
            } else if frame == skip - 1 {
                self.screen.keep(self.console.screen());
            }
        }
        self.goes_on = life_lost && !end.is_over();
        let transition = Transition::new(reward, end);
        Ok(if life_lost {
            transition.terminate_for_learner()
        } else {
            transition
        })
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        self.screen.shrink(out.slice()?);
        Ok(())
    }

    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        let [height, width] = self.console.size();
        let rgb = frame.resize(width as u32, height as u32);
        for (pixel, &colour) in rgb.chunks_exact_mut(3).zip(self.console.screen()) {
            pixel.copy_from_slice(&self.console.rgb()[usize::from(colour)].to_be_bytes()[1..]);
        }
        frame.fps = CONSOLE_FPS / self.rules.frame_skip as f64;
        Ok(true)
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        let Ok(console) = self.console.save() else {
            return false;
        };
        out.bytes(&console);
        out.u32(self.last as u32);
        out.u32(self.lives as u32);
        out.u8(u8::from(self.goes_on));
        out.f64(self.owed);
        self.screen.save(out);
        true
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.console.load(state.bytes()?)?;
        self.last = state.u32()? as i32;
        if !self.console.actions(true).contains(&self.last) {
            return Err(EnvError::new(format!(
                "saved state: the last action is {}, expected 0 to 17",
                self.last
            )));
        }
        self.lives = state.u32()? as i32;
        self.goes_on = state.u8()? != 0;
        self.owed = state.f64()?;
        self.screen.load(state)
    }
}
