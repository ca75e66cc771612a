//! An environment of your own: a grid, a goal, and walls at its edges.

use hotloop::prelude::*;

/// Walk from a random cell to the goal. Every step costs 0.01, reaching the goal gives 1.
pub struct GridWorld {
    size: i64,
    at: [i64; 2],
    goal: [i64; 2],
}

impl GridWorld {
    /// A grid of `size` × `size` cells, at least two of them.
    pub fn new(size: i64) -> Result<Self, EnvError> {
        if size < 2 {
            return Err(EnvError::new(format!(
                "size is {size}; it must be 2 or more"
            )));
        }
        let (at, goal) = ([0, 0], [0, 0]);
        Ok(Self { size, at, goal })
    }

    fn cell(&self, rng: &mut EnvRng) -> [i64; 2] {
        [0, 1].map(|_| rng.below(self.size as u64) as i64)
    }
}

impl Env for GridWorld {
    /// Where we are and where the goal is, each from 0 to 1.
    fn observation_space(&self) -> Space {
        Space::boxed(0.0, 1.0, &[4])
    }

    /// Right, left, down, up.
    fn action_space(&self) -> Space {
        Space::discrete(4)
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.goal = self.cell(ctx.rng());
        self.at = self.goal;
        while self.at == self.goal {
            self.at = self.cell(ctx.rng());
        }
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, _rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let [dx, dy] = [[1, 0], [-1, 0], [0, 1], [0, -1]][action.discrete() as usize];
        let [x, y] = self.at;
        self.at = [x + dx, y + dy].map(|coordinate| coordinate.clamp(0, self.size - 1));
        Ok(if self.at == self.goal {
            Transition::terminated(1.0)
        } else {
            Transition::running(-0.01)
        })
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        let scale = 1.0 / (self.size - 1) as f32;
        out.write(&[self.at[0], self.at[1], self.goal[0], self.goal[1]].map(|x| x as f32 * scale))
    }
}

/// The environments of this crate: what the command line and the trainer know by name.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(
        EnvSpec::new("GridWorld-v0", |options| {
            GridWorld::new(options.int("size"))
        })
        .about("walk to the goal on a grid")
        .option("size", 5, "cells along each side")
        .time_limit(100),
    );
    registry
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop::env::{ActionBuf, Spaces, Stream};

    #[test]
    fn walking_right_from_the_left_of_the_goal_ends_the_episode()
    -> Result<(), Box<dyn std::error::Error>> {
        let mut env = GridWorld::new(3)?;
        env.at = [0, 2];
        env.goal = [2, 2];
        let spaces = Spaces::new(env.observation_space(), env.action_space())?;
        let right = ActionBuf::new(&spaces.action).with_index(0);
        let mut rng = EnvRng::new(1, 0, Stream::Env);
        assert_eq!(
            env.step(right.view(), &mut rng)?,
            Transition::running(-0.01)
        );
        assert_eq!(
            env.step(right.view(), &mut rng)?,
            Transition::terminated(1.0)
        );
        Ok(())
    }

    #[test]
    fn too_small_a_grid_is_refused() {
        assert!(GridWorld::new(1).is_err());
    }
}
