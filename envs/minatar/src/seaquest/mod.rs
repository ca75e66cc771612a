//! Seaquest: a submarine between fish, other submarines, divers and its oxygen.

mod mover;

use crate::saved::{self, saved};
use crate::{Action, Canvas, Game, SIDE};
use hotloop_env::{End, EnvError, EnvRng, StateReader, StateWriter, Transition};
use mover::{Mover, take_met};

const MAX_OXYGEN: i32 = 200;
const MAX_DIVERS: i32 = 6;
/// Frames from one shot of the player to the next.
const COOL_DOWN: i32 = 5;
const ENEMY_INTERVAL: i32 = 20;
const DIVER_INTERVAL: i32 = 30;
/// Frames that a thing waits before it moves; for enemies at the start of an episode.
const MOVE_WAIT: i32 = 5;
const LEAST_MOVE_WAIT: i32 = 2;
/// Frames that an enemy submarine waits before it fires.
const SHOT_WAIT: i32 = 10;
/// The row of the gauges.
const BOTTOM: i32 = SIDE - 1;
/// More than there can be at once of anything: a thing crosses the board in 60 frames, and one comes in each at most.
const CROWD: usize = 64;

/// MinAtar's Seaquest.
///
/// The player's submarine moves in rows 0 (the surface) to 8 and looks to where it last moved sideways, at first to the
/// left. Everything else moves sideways in one row, in the direction in which it came in, and is gone when it leaves
/// the board. A frame goes like this:
///
/// 1. Every 20 frames an enemy comes in, from the left with probability 1/2, a submarine with probability 1/3 and else
///    a fish, in one of rows 1 to 8, each as likely; it stays away if an enemy in that row goes the other way. Every 30
///    frames a diver comes in, drawn in the same way.
/// 2. The player fires, if it did not in the last four frames, or moves. Its bullet starts where the player is.
/// 3. The player's bullets move by one cell. An enemy met there is gone with the bullet, for a reward of 1; fish are
///    looked at before submarines, older ones first.
/// 4. Divers in the player's cell are picked up, before they move and after, if there are fewer than 6 aboard. They wait 5
///    frames and move in the next.
/// 5. Enemy submarines in the player's cell end the episode, before they move and after. They wait 5 frames and move in
///    the next; one that moves onto a bullet of the player is gone with it, for a reward of 1. They wait 10 frames and
///    fire in the next, a bullet that starts where they are, also in the frame in which they are gone.
/// 6. Enemy bullets in the player's cell end the episode, before they move by one cell and after.
/// 7. Fish do as enemy submarines do, but never fire.
/// 8. The episode terminates if no oxygen is left. Below the surface one of 200 units is used up. Where the player comes
///    up to the surface without a diver aboard, the episode terminates. Otherwise the oxygen is filled up and one
///    diver leaves; if there are 6, all leave, for a reward of one for every 20 units of oxygen that were left. With
///    difficulty ramping every surfacing shortens the interval at which enemies come in by one frame, down to 1, and every
///    second one their wait before they move, down to 2.
///
/// Of each kind later ones move first. After six divers were brought up the package counts one less than
/// none aboard, so that the next surfacing is free even if nobody was picked up; so it is here.
///
/// The player starts at the surface in column 5, with full oxygen, alone.
///
/// Planes: front of the player, its back, its bullets, where fish, enemy submarines and divers came from, enemy
/// bullets, fish, enemy submarines, oxygen gauge (bottom row), divers aboard (bottom row), divers. Actions: none,
/// left, up, right, down, fire.
#[derive(Clone, Debug)]
pub struct Seaquest {
    player: [i32; 2],
    /// Where the player looks: −1 or 1.
    facing: i32,
    at_surface: bool,
    oxygen: i32,
    /// Less than 0 after six were brought up.
    divers_aboard: i32,
    shot_timer: i32,
    bullets: Vec<Mover>,
    enemy_bullets: Vec<Mover>,
    fish: Vec<Mover>,
    subs: Vec<Mover>,
    divers: Vec<Mover>,
    enemy_interval: i32,
    enemy_timer: i32,
    diver_timer: i32,
    move_wait: i32,
    ramps: i32,
}

saved!(
    Seaquest: player, facing, at_surface, oxygen, divers_aboard, shot_timer, bullets, enemy_bullets, fish, subs,
    divers, enemy_interval, enemy_timer, diver_timer, move_wait, ramps
);

impl Seaquest {
    fn spawn_enemy(&mut self, rng: &mut EnvRng) {
        let enemy = Mover {
            move_timer: self.move_wait,
            shot_timer: SHOT_WAIT,
            ..Mover::entering(rng)
        };
        let is_sub = rng.uniform() < 1.0 / 3.0;
        let mut others = self.subs.iter().chain(&self.fish);
        if others.any(|other| other.y == enemy.y && other.dx != enemy.dx) {
            return;
        }
        if is_sub {
            self.subs.push(enemy);
        } else {
            self.fish.push(enemy);
        }
    }

    fn spawn_diver(&mut self, rng: &mut EnvRng) {
        self.divers.push(Mover {
            move_timer: MOVE_WAIT,
            ..Mover::entering(rng)
        });
    }

    fn take(&mut self, action: Action) {
        let [x, y] = &mut self.player;
        match action {
            Action::Fire if self.shot_timer == 0 => {
                self.bullets.push(Mover {
                    x: *x,
                    y: *y,
                    dx: self.facing,
                    ..Mover::default()
                });
                self.shot_timer = COOL_DOWN;
            }
            Action::Left => {
                *x = (*x - 1).max(0);
                self.facing = -1;
            }
            Action::Right => {
                *x = (*x + 1).min(SIDE - 1);
                self.facing = 1;
            }
            Action::Up => *y = (*y - 1).max(0),
            Action::Down => *y = (*y + 1).min(BOTTOM - 1),
            Action::Noop | Action::Fire => {}
        }
    }

    /// Returns the number of enemies that the player's bullets moved onto.
    fn move_bullets(&mut self) -> i32 {
        let mut hits = 0;
        for i in (0..self.bullets.len()).rev() {
            if !self.bullets[i].advance() {
                self.bullets.remove(i);
                continue;
            }
            let bullet = self.bullets[i];
            if take_met(&mut self.fish, &bullet) || take_met(&mut self.subs, &bullet) {
                self.bullets.remove(i);
                hits += 1;
            }
        }
        hits
    }

    fn move_divers(&mut self) {
        for i in (0..self.divers.len()).rev() {
            let room = self.divers_aboard < MAX_DIVERS;
            let diver = &mut self.divers[i];
            let mut picked_up = room && diver.at(self.player);
            let mut left = false;
            if !picked_up {
                if diver.move_timer == 0 {
                    diver.move_timer = MOVE_WAIT;
                    left = !diver.advance();
                    picked_up = room && diver.at(self.player);
                } else {
                    diver.move_timer -= 1;
                }
            }
            if picked_up || left {
                self.divers.remove(i);
            }
            self.divers_aboard += i32::from(picked_up);
        }
    }

    /// Moves enemies of one kind, and lets those fire that `fire` into a list. Returns the number of those that moved
    /// onto a bullet of the player, and whether one met the player.
    fn move_enemies(
        enemies: &mut Vec<Mover>,
        bullets: &mut Vec<Mover>,
        mut fire: Option<&mut Vec<Mover>>,
        player: [i32; 2],
        move_wait: i32,
    ) -> (i32, bool) {
        let (mut hits, mut caught) = (0, false);
        for i in (0..enemies.len()).rev() {
            let enemy = &mut enemies[i];
            caught |= enemy.at(player);
            let mut gone = false;
            if enemy.move_timer == 0 {
                enemy.move_timer = move_wait;
                gone = !enemy.advance();
                if enemy.at(player) {
                    caught = true;
                } else if !gone && take_met(bullets, enemy) {
                    gone = true;
                    hits += 1;
                }
            } else {
                enemy.move_timer -= 1;
            }
            if let Some(shots) = &mut fire {
                if enemy.shot_timer == 0 {
                    enemy.shot_timer = SHOT_WAIT;
                    shots.push(Mover {
                        move_timer: 0,
                        shot_timer: 0,
                        ..*enemy
                    });
                } else {
                    enemy.shot_timer -= 1;
                }
            }
            if gone {
                enemies.remove(i);
            }
        }
        (hits, caught)
    }

    /// Returns whether one met the player.
    fn move_enemy_bullets(&mut self) -> bool {
        let mut caught = false;
        let player = self.player;
        self.enemy_bullets.retain_mut(|bullet| {
            caught |= bullet.at(player);
            let visible = bullet.advance();
            caught |= bullet.at(player);
            visible
        });
        caught
    }

    /// Coming up with somebody, or less than nobody, aboard. Returns the reward.
    fn surface(&mut self, ramping: bool) -> i32 {
        let mut reward = 0;
        if self.divers_aboard == MAX_DIVERS {
            self.divers_aboard = 0;
            reward = self.oxygen * SIDE / MAX_OXYGEN;
        }
        self.divers_aboard -= 1;
        self.oxygen = MAX_OXYGEN;
        if ramping && (self.enemy_interval > 1 || self.move_wait > LEAST_MOVE_WAIT) {
            if self.ramps % 2 == 1 {
                self.move_wait = (self.move_wait - 1).max(LEAST_MOVE_WAIT);
            }
            self.enemy_interval = (self.enemy_interval - 1).max(1);
            self.ramps += 1;
        }
        reward
    }

    /// The start of an episode, with the memory of these lists.
    fn new(mut lists: [Vec<Mover>; 5]) -> Self {
        lists.iter_mut().for_each(Vec::clear);
        let [bullets, enemy_bullets, fish, subs, divers] = lists;
        Self {
            player: [5, 0],
            facing: -1,
            at_surface: true,
            oxygen: MAX_OXYGEN,
            divers_aboard: 0,
            shot_timer: 0,
            bullets,
            enemy_bullets,
            fish,
            subs,
            divers,
            enemy_interval: ENEMY_INTERVAL,
            enemy_timer: ENEMY_INTERVAL,
            diver_timer: DIVER_INTERVAL,
            move_wait: MOVE_WAIT,
            ramps: 0,
        }
    }
}

impl Default for Seaquest {
    fn default() -> Self {
        Self::new(std::array::from_fn(|_| Vec::with_capacity(CROWD)))
    }
}

impl Game for Seaquest {
    const CHANNELS: usize = 10;
    const ACTIONS: &'static [Action] = &[
        Action::Noop,
        Action::Left,
        Action::Up,
        Action::Right,
        Action::Down,
        Action::Fire,
    ];
    const LOOK: &'static [(usize, char, [u8; 3])] = &[
        (3, ',', [52, 66, 90]),
        (7, '=', [232, 190, 72]),
        (8, '+', [240, 236, 220]),
        (9, '+', [240, 236, 220]),
        (5, 'f', [118, 190, 104]),
        (6, 's', [206, 70, 82]),
        (4, '!', [222, 120, 96]),
        (2, '-', [250, 250, 250]),
        (1, '<', [66, 112, 170]),
        (0, '@', [96, 156, 222]),
    ];

    fn reset(&mut self, _rng: &mut EnvRng) {
        *self = Self::new(
            [
                &mut self.bullets,
                &mut self.enemy_bullets,
                &mut self.fish,
                &mut self.subs,
                &mut self.divers,
            ]
            .map(std::mem::take),
        );
    }

    fn act(&mut self, action: Action, ramping: bool, rng: &mut EnvRng) -> Transition {
        if self.enemy_timer == 0 {
            self.spawn_enemy(rng);
            self.enemy_timer = self.enemy_interval;
        }
        if self.diver_timer == 0 {
            self.spawn_diver(rng);
            self.diver_timer = DIVER_INTERVAL;
        }
        self.take(action);

        let mut reward = self.move_bullets();
        self.move_divers();
        let shots = Some(&mut self.enemy_bullets);
        let (player, wait) = (self.player, self.move_wait);
        let (hits, mut lost) =
            Self::move_enemies(&mut self.subs, &mut self.bullets, shots, player, wait);
        reward += hits;
        lost |= self.move_enemy_bullets();
        let (hits, caught) =
            Self::move_enemies(&mut self.fish, &mut self.bullets, None, player, wait);
        reward += hits;
        lost |= caught;

        self.enemy_timer -= 1;
        self.diver_timer -= 1;
        self.shot_timer = (self.shot_timer - 1).max(0);
        lost |= self.oxygen == 0;
        if player[1] > 0 {
            self.oxygen -= 1;
            self.at_surface = false;
        } else if !self.at_surface {
            if self.divers_aboard == 0 {
                lost = true;
            } else {
                self.at_surface = true;
                reward += self.surface(ramping);
            }
        }
        let end = if lost { End::Terminated } else { End::Continue };
        Transition::new(f64::from(reward), end)
    }

    fn draw(&self, canvas: &mut Canvas<'_>) {
        let [x, y] = self.player;
        canvas.set(0, x, y);
        canvas.set(1, x - self.facing, y);
        for (channel, list) in [
            (2, &self.bullets),
            (4, &self.enemy_bullets),
            (5, &self.fish),
            (6, &self.subs),
            (9, &self.divers),
        ] {
            for mover in list {
                canvas.set(channel, mover.x, mover.y);
            }
        }
        for mover in self.fish.iter().chain(&self.subs).chain(&self.divers) {
            canvas.set_if_visible(3, mover.x - mover.dx, mover.y);
        }
        for x in 0..self.oxygen.max(0) * SIDE / MAX_OXYGEN {
            canvas.set(7, x, BOTTOM);
        }
        for x in BOTTOM - self.divers_aboard..BOTTOM {
            canvas.set(8, x, BOTTOM);
        }
    }

    fn save(&self, out: &mut StateWriter) {
        saved::save(self, out);
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), EnvError> {
        saved::load(self, from)
    }
}
