//! Space Invaders: a cannon against marching aliens.

use crate::saved::{self, saved};
use crate::{Action, Canvas, Game, Plane, SIDE};
use hotloop_env::{End, EnvError, EnvRng, StateReader, StateWriter, Transition};

/// Four rows of six.
const WAVE: Plane = Plane::block(2, 0, 6, 4);
const BOTTOM: i32 = SIDE - 1;
/// Frames from one shot of the cannon to the next.
const COOL_DOWN: i32 = 5;
const MOVE_INTERVAL: i32 = 12;
const SHOT_INTERVAL: i32 = 10;
/// The move interval does not shrink below this.
const LEAST_MOVE_INTERVAL: i32 = 6;

/// MinAtar's Space Invaders.
///
/// The cannon moves along the bottom row. A frame goes like this:
///
/// 1. The cannon fires, if it did not in the last four frames, or moves.
/// 2. Its bullets rise by one row; those of the aliens fall by one. One that falls on the cannon terminates the episode.
/// 3. An alien in the cannon's cell terminates it, before the aliens move and after.
/// 4. The aliens move every so many frames: as many as the move interval says, which is 12 at first, but no more than
///    there are aliens. They move to the side in step; when one is at the edge ahead they turn round and come down by
///    one row instead, which terminates the episode if one is in the bottom row already.
/// 5. Every 10 frames the lowest alien of the column nearest to the cannon that has any (the left one of two) fires:
///    a bullet appears in its cell.
/// 6. An alien and a bullet of the cannon in the same cell are both gone, for a reward of 1.
/// 7. If no alien is left the next wave arrives; with difficulty ramping the move interval is one shorter from then
///    on, down to 6.
///
/// Everything else stays as it is when a wave arrives: bullets, timers and the direction, which is left at first. The
/// cannon starts in column 5. Nothing is drawn at random.
///
/// Planes: cannon, aliens, aliens that move left, aliens that move right, bullets of the cannon, bullets of the aliens.
/// Actions: none, left, right, fire.
#[derive(Clone, Debug, Default)]
pub struct SpaceInvaders {
    cannon: i32,
    aliens: Plane,
    /// The direction of the aliens: −1 or 1.
    dx: i32,
    bullets: Plane,
    alien_bullets: Plane,
    move_interval: i32,
    move_timer: i32,
    alien_shot_timer: i32,
    shot_timer: i32,
}

saved!(
    SpaceInvaders: cannon, aliens, dx, bullets, alien_bullets, move_interval, move_timer, alien_shot_timer,
    shot_timer
);

impl SpaceInvaders {
    /// Moves the aliens. Returns whether they came past the bottom.
    fn march(&mut self) -> bool {
        let ahead = Plane::column(if self.dx < 0 { 0 } else { SIDE - 1 });
        if self.aliens.and(ahead).is_empty() {
            self.aliens = self.aliens.sideways(self.dx);
            return false;
        }
        self.dx = -self.dx;
        let landed = self.aliens.lowest_row() == BOTTOM;
        self.aliens = self.aliens.rolled_down();
        landed
    }

    /// The alien that fires: column and row.
    fn shooter(&self) -> Option<(i32, i32)> {
        (0..SIDE)
            .flat_map(|distance| [self.cannon - distance, self.cannon + distance])
            .filter(|x| (0..SIDE).contains(x))
            .map(|x| (x, self.aliens.and(Plane::column(x))))
            .find(|(_, column)| !column.is_empty())
            .map(|(x, column)| (x, column.lowest_row()))
    }
}

impl Game for SpaceInvaders {
    const CHANNELS: usize = 6;
    const ACTIONS: &'static [Action] = &[Action::Noop, Action::Left, Action::Right, Action::Fire];
    const LOOK: &'static [(usize, char, [u8; 3])] = &[
        (1, 'm', [118, 190, 104]),
        (2, 'm', [118, 190, 104]),
        (3, 'm', [88, 172, 150]),
        (5, '!', [206, 70, 82]),
        (4, '|', [240, 236, 220]),
        (0, '^', [96, 156, 222]),
    ];

    fn reset(&mut self, _rng: &mut EnvRng) {
        *self = Self {
            cannon: 5,
            aliens: WAVE,
            dx: -1,
            bullets: Plane::default(),
            alien_bullets: Plane::default(),
            move_interval: MOVE_INTERVAL,
            move_timer: MOVE_INTERVAL,
            alien_shot_timer: SHOT_INTERVAL,
            shot_timer: 0,
        };
    }

    fn act(&mut self, action: Action, ramping: bool, _rng: &mut EnvRng) -> Transition {
        match action {
            Action::Fire if self.shot_timer == 0 => {
                self.bullets.insert(self.cannon, BOTTOM);
                self.shot_timer = COOL_DOWN;
            }
            Action::Left => self.cannon = (self.cannon - 1).max(0),
            Action::Right => self.cannon = (self.cannon + 1).min(SIDE - 1),
            _ => {}
        }

        self.bullets = self.bullets.up();
        self.alien_bullets = self.alien_bullets.down();
        let mut lost = self.alien_bullets.has(self.cannon, BOTTOM);

        lost |= self.aliens.has(self.cannon, BOTTOM);
        if self.move_timer == 0 {
            self.move_timer = self.move_interval.min(self.aliens.count());
            lost |= self.march();
            lost |= self.aliens.has(self.cannon, BOTTOM);
        }
        if self.alien_shot_timer == 0 {
            self.alien_shot_timer = SHOT_INTERVAL;
            if let Some((x, y)) = self.shooter() {
                self.alien_bullets.insert(x, y);
            }
        }

        let killed = self.aliens.and(self.bullets);
        self.aliens = self.aliens.without(killed);
        self.bullets = self.bullets.without(killed);

        self.shot_timer = (self.shot_timer - 1).max(0);
        self.move_timer -= 1;
        self.alien_shot_timer -= 1;
        if self.aliens.is_empty() {
            if ramping && self.move_interval > LEAST_MOVE_INTERVAL {
                self.move_interval -= 1;
            }
            self.aliens = WAVE;
        }
        let end = if lost { End::Terminated } else { End::Continue };
        Transition::new(f64::from(killed.count()), end)
    }

    fn draw(&self, canvas: &mut Canvas<'_>) {
        canvas.set(0, self.cannon, BOTTOM);
        canvas.set_all(1, self.aliens);
        canvas.set_all(if self.dx < 0 { 2 } else { 3 }, self.aliens);
        canvas.set_all(4, self.bullets);
        canvas.set_all(5, self.alien_bullets);
    }

    fn save(&self, out: &mut StateWriter) {
        saved::save(self, out);
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), EnvError> {
        saved::load(self, from)
    }
}
