//! What crosses the board: fish, submarines, divers and bullets.

use crate::SIDE;
use crate::saved::saved;
use hotloop_env::EnvRng;

/// Something that crosses the board.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mover {
    pub(super) x: i32,
    pub(super) y: i32,
    /// Its direction: −1 or 1.
    pub(super) dx: i32,
    pub(super) move_timer: i32,
    /// Submarines only.
    pub(super) shot_timer: i32,
}

saved!(Mover: x, y, dx, move_timer, shot_timer);

impl Mover {
    /// One that comes in at a random side and row.
    pub(super) fn entering(rng: &mut EnvRng) -> Self {
        let from_left = rng.uniform() < 0.5;
        let (x, dx) = if from_left { (0, 1) } else { (SIDE - 1, -1) };
        Self {
            x,
            y: 1 + rng.below(8) as i32,
            dx,
            ..Self::default()
        }
    }

    pub(super) fn at(&self, [x, y]: [i32; 2]) -> bool {
        self.x == x && self.y == y
    }

    fn meets(&self, other: &Self) -> bool {
        self.at([other.x, other.y])
    }

    /// One cell on. Returns whether it is still on the board.
    pub(super) fn advance(&mut self) -> bool {
        self.x += self.dx;
        (0..SIDE).contains(&self.x)
    }
}

/// Takes out the first that meets `mover`. Returns whether there was one.
pub(super) fn take_met(list: &mut Vec<Mover>, mover: &Mover) -> bool {
    let met = list.iter().position(|other| other.meets(mover));
    met.map(|i| list.remove(i)).is_some()
}
