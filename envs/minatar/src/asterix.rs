//! Asterix: treasure to collect and enemies to avoid.

use crate::saved::{self, saved};
use crate::{Action, Canvas, Game, SIDE};
use hotloop_env::{End, EnvError, EnvRng, StateReader, StateWriter, Transition};

/// Rows 1 to 8 hold one thing each.
const ROWS: usize = 8;
const SPAWN_INTERVAL: i32 = 10;
const MOVE_INTERVAL: i32 = 5;
const RAMP_INTERVAL: i32 = 100;

/// MinAtar's Asterix.
///
/// The player moves freely in rows 1 to 8. Each of these rows holds one thing at most, an enemy or treasure, which
/// crosses it from one side to the other. A frame goes like this:
///
/// 1. Every 10 frames something appears at the edge: at the left with probability 1/2, treasure with probability 1/3, in
///    one of the rows that hold nothing, each as likely; nothing if all are taken.
/// 2. The player moves.
/// 3. A thing in the player's cell is met: treasure is worth 1 and is gone, an enemy terminates the episode.
/// 4. Every 5 frames all things move by one cell, are gone if they leave the board, and are met as before.
/// 5. With difficulty ramping both intervals shrink down to 1: every 102 frames that of appearing by one, and that of
///    moving by one every second time.
///
/// The player starts in column 5 of row 5 on an empty board.
///
/// Planes: player, enemies, where things came from, treasure. Actions: none, left, up, right, down.
#[derive(Clone, Debug, Default)]
pub struct Asterix {
    player: [i32; 2],
    /// What is in rows 1 to 8.
    things: [Option<Thing>; ROWS],
    spawn_interval: i32,
    spawn_timer: i32,
    move_interval: i32,
    move_timer: i32,
    ramp_timer: i32,
    ramps: i32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thing {
    x: i32,
    /// Its direction: −1 or 1.
    dx: i32,
    treasure: bool,
}

saved!(Thing: x, dx, treasure);
saved!(Asterix: player, things, spawn_interval, spawn_timer, move_interval, move_timer, ramp_timer, ramps);

impl Asterix {
    fn spawn(&mut self, rng: &mut EnvRng) {
        let from_left = rng.uniform() < 0.5;
        let treasure = rng.uniform() < 1.0 / 3.0;
        let free = self.things.iter().filter(|thing| thing.is_none()).count();
        if free == 0 {
            return;
        }
        let chosen = rng.below(free as u64) as usize;
        let place = self.things.iter_mut().filter(|thing| thing.is_none());
        if let Some(place) = { place }.nth(chosen) {
            let (x, dx) = if from_left { (0, 1) } else { (SIDE - 1, -1) };
            *place = Some(Thing { x, dx, treasure });
        }
    }

    /// Lets the player meet what is in its cell. Returns the treasure found, or none and the enemy's end.
    fn meet(&mut self) -> (f64, bool) {
        let [x, y] = self.player;
        let place = &mut self.things[y as usize - 1];
        match place {
            Some(thing) if thing.x == x && thing.treasure => {
                *place = None;
                (1.0, false)
            }
            Some(thing) => (0.0, thing.x == x),
            None => (0.0, false),
        }
    }

    fn advance(&mut self) {
        for place in &mut self.things {
            if let Some(thing) = place {
                thing.x += thing.dx;
                if !(0..SIDE).contains(&thing.x) {
                    *place = None;
                }
            }
        }
    }

    fn ramp(&mut self) {
        if self.spawn_interval == 1 && self.move_interval == 1 {
            return;
        }
        if self.ramp_timer >= 0 {
            self.ramp_timer -= 1;
            return;
        }
        if self.ramps % 2 == 1 {
            self.move_interval = (self.move_interval - 1).max(1);
        }
        self.spawn_interval = (self.spawn_interval - 1).max(1);
        self.ramps += 1;
        self.ramp_timer = RAMP_INTERVAL;
    }
}

impl Game for Asterix {
    const CHANNELS: usize = 4;
    const ACTIONS: &'static [Action] = &[
        Action::Noop,
        Action::Left,
        Action::Up,
        Action::Right,
        Action::Down,
    ];
    const LOOK: &'static [(usize, char, [u8; 3])] = &[
        (2, ',', [70, 74, 84]),
        (3, '$', [232, 190, 72]),
        (1, 'x', [206, 70, 82]),
        (0, '@', [96, 156, 222]),
    ];

    fn reset(&mut self, _rng: &mut EnvRng) {
        *self = Self {
            player: [5, 5],
            things: [None; ROWS],
            spawn_interval: SPAWN_INTERVAL,
            spawn_timer: SPAWN_INTERVAL,
            move_interval: MOVE_INTERVAL,
            move_timer: MOVE_INTERVAL,
            ramp_timer: RAMP_INTERVAL,
            ramps: 0,
        };
    }

    fn act(&mut self, action: Action, ramping: bool, rng: &mut EnvRng) -> Transition {
        if self.spawn_timer == 0 {
            self.spawn(rng);
            self.spawn_timer = self.spawn_interval;
        }

        let [x, y] = &mut self.player;
        match action {
            Action::Left => *x = (*x - 1).max(0),
            Action::Right => *x = (*x + 1).min(SIDE - 1),
            Action::Up => *y = (*y - 1).max(1),
            Action::Down => *y = (*y + 1).min(ROWS as i32),
            Action::Noop | Action::Fire => {}
        }

        let (mut reward, mut caught) = self.meet();
        if self.move_timer == 0 {
            self.move_timer = self.move_interval;
            self.advance();
            let (found, met) = self.meet();
            reward += found;
            caught |= met;
        }

        self.spawn_timer -= 1;
        self.move_timer -= 1;
        if ramping {
            self.ramp();
        }
        let end = if caught {
            End::Terminated
        } else {
            End::Continue
        };
        Transition::new(reward, end)
    }

    fn draw(&self, canvas: &mut Canvas<'_>) {
        let [x, y] = self.player;
        canvas.set(0, x, y);
        for (row, place) in self.things.iter().enumerate() {
            let y = row as i32 + 1;
            if let Some(thing) = place {
                canvas.set(if thing.treasure { 3 } else { 1 }, thing.x, y);
                canvas.set_if_visible(2, thing.x - thing.dx, y);
            }
        }
    }

    fn save(&self, out: &mut StateWriter) {
        saved::save(self, out);
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), EnvError> {
        saved::load(self, from)
    }
}
