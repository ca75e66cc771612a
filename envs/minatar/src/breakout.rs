//! Breakout: a ball, a paddle and three rows of bricks.

use crate::saved::{self, saved};
use crate::{Action, Canvas, Game, Plane, SIDE};
use hotloop_env::{End, EnvError, EnvRng, StateReader, StateWriter, Transition};

/// Rows 1 to 3, all across.
const WALL: Plane = Plane::block(0, 1, SIDE, 3);
const BOTTOM: i32 = SIDE - 1;

/// MinAtar's Breakout.
///
/// The ball moves one cell along a diagonal at every frame, after the paddle, which keeps to the bottom row.
///
/// - At a side wall the ball's column stays at the edge, at the top wall its row does, and that part of its direction
///   is reversed. What follows looks at the cell so found.
/// - A brick there is broken for a reward of 1, and the ball turns back vertically without changing its row. The ball
///   breaks one brick at a time: until it has entered a cell without a brick it passes through bricks.
/// - At the bottom row, if no brick is left, a new wall is built first. Then, if the ball was above the paddle, it
///   turns back vertically; if it would come down on the paddle from the side, it turns back the way it came. Both times
///   its row stays. Otherwise the episode terminates.
///
/// The ball starts at row 3 at the left or the right edge, each with probability 1/2, and goes down towards the
/// middle; the paddle starts in column 4.
///
/// Planes: paddle, ball, where the ball was one frame ago, bricks. Actions: none, left, right.
#[derive(Clone, Debug, Default)]
pub struct Breakout {
    paddle: i32,
    /// Column and row of the ball, now and one frame ago.
    ball: [i32; 2],
    trail: [i32; 2],
    /// Direction of the ball: −1 or 1 along either axis.
    heading: [i32; 2],
    bricks: Plane,
    /// The ball broke a brick and has met nothing but bricks since.
    inside: bool,
}

saved!(Breakout: paddle, ball, trail, heading, bricks, inside);

impl Game for Breakout {
    const CHANNELS: usize = 4;
    const ACTIONS: &'static [Action] = &[Action::Noop, Action::Left, Action::Right];
    const LOOK: &'static [(usize, char, [u8; 3])] = &[
        (2, ',', [70, 74, 84]),
        (3, '#', [196, 92, 72]),
        (0, '=', [96, 156, 222]),
        (1, 'o', [240, 236, 220]),
    ];

    fn reset(&mut self, rng: &mut EnvRng) {
        let (x, dx) = [(0, 1), (SIDE - 1, -1)][rng.below(2) as usize];
        *self = Self {
            paddle: 4,
            ball: [x, 3],
            trail: [x, 3],
            heading: [dx, 1],
            bricks: WALL,
            inside: false,
        };
    }

    fn act(&mut self, action: Action, _ramping: bool, _rng: &mut EnvRng) -> Transition {
        match action {
            Action::Left => self.paddle = (self.paddle - 1).max(0),
            Action::Right => self.paddle = (self.paddle + 1).min(SIDE - 1),
            _ => {}
        }

        let [old_x, old_y] = self.ball;
        let [dx, dy] = &mut self.heading;
        let mut x = old_x + *dx;
        let mut y = old_y + *dy;
        if !(0..SIDE).contains(&x) {
            x = old_x;
            *dx = -*dx;
        }

        let (mut reward, mut end) = (0.0, End::Continue);
        let brick = y >= 0 && self.bricks.has(x, y);
        if y < 0 {
            y = 0;
            *dy = -*dy;
        } else if brick && !self.inside {
            self.bricks.remove(x, y);
            reward = 1.0;
            y = old_y;
            *dy = -*dy;
        } else if !brick && y == BOTTOM {
            if self.bricks.is_empty() {
                self.bricks = WALL;
            }
            if old_x == self.paddle {
                *dy = -*dy;
                y = old_y;
            } else if x == self.paddle {
                (*dx, *dy) = (-*dx, -*dy);
                y = old_y;
            } else {
                end = End::Terminated;
            }
        }
        self.inside = brick;
        self.trail = self.ball;
        self.ball = [x, y];
        Transition::new(reward, end)
    }

    fn draw(&self, canvas: &mut Canvas<'_>) {
        canvas.set(0, self.paddle, BOTTOM);
        canvas.set(1, self.ball[0], self.ball[1]);
        canvas.set(2, self.trail[0], self.trail[1]);
        canvas.set_all(3, self.bricks);
    }

    fn save(&self, out: &mut StateWriter) {
        saved::save(self, out);
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), EnvError> {
        saved::load(self, from)
    }
}
