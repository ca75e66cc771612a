//! Freeway: a chicken crosses a road.

use crate::saved::{self, saved};
use crate::{Action, Canvas, Game, SIDE};
use hotloop_env::{End, EnvError, EnvRng, StateReader, StateWriter, Transition};

/// Rows 1 to 8 have one car each.
const LANES: usize = 8;
/// The chicken's column.
const PATH: i32 = 4;
const HOME: i32 = SIDE - 1;
/// Frames from one step of the chicken to the next.
const STRIDE: i32 = 3;
const FRAMES: i32 = 2500;

/// MinAtar's Freeway.
///
/// The chicken keeps to column 4. It steps up or down at most every third frame, the first time in frame 4. When it
/// reaches the top row it gets a reward of 1, starts again at the bottom, and all cars draw new speeds and directions
/// where they are.
///
/// There is one car in each of rows 1 to 8, with a pace of 1 to 5, each as likely, to the right or to the left,
/// each as likely. It waits for as many frames as its pace and moves in the next, and comes in again at the other side
/// when it leaves the board. A car that is or comes where the chicken is sends it back to the bottom.
///
/// All cars start in column 0. The episode terminates, whatever happens, with the 2,501st frame: the agent cannot see it
/// coming. Difficulty does not ramp.
///
/// Planes: chicken, cars, and where each car came from, in one of five planes by its pace. Actions: none, up, down.
#[derive(Clone, Debug, Default)]
pub struct Freeway {
    chicken: i32,
    cars: [Car; LANES],
    stride_timer: i32,
    frames_left: i32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Car {
    x: i32,
    timer: i32,
    pace: i32,
    /// Its direction: −1 or 1.
    dx: i32,
}

saved!(Car: x, timer, pace, dx);
saved!(Freeway: chicken, cars, stride_timer, frames_left);

impl Freeway {
    /// New paces and directions for all cars.
    fn draw_traffic(&mut self, rng: &mut EnvRng) {
        for car in &mut self.cars {
            car.pace = 1 + rng.below(5) as i32;
            car.timer = car.pace;
        }
        for car in &mut self.cars {
            car.dx = if rng.uniform() > 0.5 { 1 } else { -1 };
        }
    }
}

impl Game for Freeway {
    const CHANNELS: usize = 7;
    const ACTIONS: &'static [Action] = &[Action::Noop, Action::Up, Action::Down];
    const LOOK: &'static [(usize, char, [u8; 3])] = &[
        (2, '1', [120, 60, 66]),
        (3, '2', [104, 58, 66]),
        (4, '3', [88, 56, 64]),
        (5, '4', [74, 52, 60]),
        (6, '5', [60, 48, 56]),
        (1, 'o', [206, 70, 82]),
        (0, '@', [240, 236, 220]),
    ];

    fn reset(&mut self, rng: &mut EnvRng) {
        *self = Self {
            chicken: HOME,
            cars: [Car::default(); LANES],
            stride_timer: STRIDE,
            frames_left: FRAMES,
        };
        self.draw_traffic(rng);
    }

    fn act(&mut self, action: Action, _ramping: bool, rng: &mut EnvRng) -> Transition {
        if self.stride_timer == 0 {
            let dy = match action {
                Action::Up => -1,
                Action::Down => 1,
                _ => 0,
            };
            if dy != 0 {
                self.stride_timer = STRIDE;
                self.chicken = (self.chicken + dy).min(HOME);
            }
        }

        let mut reward = 0.0;
        if self.chicken == 0 {
            reward = 1.0;
            self.draw_traffic(rng);
            self.chicken = HOME;
        }

        for (row, car) in (1..).zip(&mut self.cars) {
            let hit = |car: &Car, chicken: i32| car.x == PATH && row == chicken;
            if hit(car, self.chicken) {
                self.chicken = HOME;
            }
            if car.timer == 0 {
                car.timer = car.pace;
                car.x = (car.x + car.dx).rem_euclid(SIDE);
                if hit(car, self.chicken) {
                    self.chicken = HOME;
                }
            } else {
                car.timer -= 1;
            }
        }

        self.stride_timer = (self.stride_timer - 1).max(0);
        self.frames_left -= 1;
        let end = if self.frames_left < 0 {
            End::Terminated
        } else {
            End::Continue
        };
        Transition::new(reward, end)
    }

    fn draw(&self, canvas: &mut Canvas<'_>) {
        canvas.set(0, PATH, self.chicken);
        for (row, car) in (1..).zip(&self.cars) {
            canvas.set(1, car.x, row);
            canvas.set(
                1 + car.pace as usize,
                (car.x - car.dx).rem_euclid(SIDE),
                row,
            );
        }
    }

    fn save(&self, out: &mut StateWriter) {
        saved::save(self, out);
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), EnvError> {
        saved::load(self, from)
    }
}
