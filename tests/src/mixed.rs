//! A toy with every kind of space in it, and a known optimum.

use hotloop_env::{
    ActionView, Env, EnvError, EnvRng, EnvSpec, ImageLayout, ObservationMut, ResetCtx, Space,
    Transition,
};

/// Steps of an episode.
const STEPS: u32 = 10;

/// Shows an image whose left or right half is bright, a number, and a choice of two; asks for one of four choices and a
/// number. Choice `2 × (shown choice) + (1 if the right half is bright)` earns 1, and the number's square distance from the
/// one shown is taken from another 1: the best return of an episode is 20. One of the wrong choices is forbidden.
pub struct Mixed {
    step: u32,
    right: bool,
    number: f32,
    choice: i64,
    forbidden: usize,
}

/// `Mixed` under the id `Mixed-v0`.
#[must_use]
pub fn mixed() -> EnvSpec {
    EnvSpec::new("Mixed-v0", |_| {
        Ok(Mixed {
            step: 0,
            right: false,
            number: 0.0,
            choice: 0,
            forbidden: 1,
        })
    })
}

impl Mixed {
    fn best(&self) -> i64 {
        2 * self.choice + i64::from(self.right)
    }

    fn ask(&mut self, rng: &mut EnvRng) {
        self.right = rng.below(2) == 1;
        self.choice = rng.below(2) as i64;
        self.number = rng.range(-1.0, 1.0) as f32;
        self.forbidden = (self.best() as usize + 1 + rng.below(3) as usize) % 4;
    }
}

impl Env for Mixed {
    fn observation_space(&self) -> Space {
        Space::dict([
            ("image", Space::image([6, 6, 1], ImageLayout::Hwc)),
            ("number", Space::boxed(-1.0, 1.0, &[1])),
            ("choice", Space::discrete(2)),
        ])
    }

    fn action_space(&self) -> Space {
        Space::Tuple(vec![
            Space::masked_discrete(4),
            Space::boxed(-2.0, 2.0, &[1]),
        ])
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.step = 0;
        self.ask(ctx.rng());
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let (choice, number) = (action.key("0").discrete(), action.key("1").continuous()[0]);
        if choice == self.forbidden as i64 {
            return Err(EnvError::new(format!("choice {choice} is forbidden")));
        }
        let right = f64::from(u8::from(choice == self.best()));
        let reward = right + 1.0 - f64::from((number - self.number).powi(2));
        self.step += 1;
        self.ask(rng);
        Ok(if self.step == STEPS {
            Transition::terminated(reward)
        } else {
            Transition::running(reward)
        })
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        let image = out.key("image")?.into_slice::<u8>()?;
        for (i, pixel) in image.iter_mut().enumerate() {
            *pixel = if (i % 6 >= 3) == self.right { 255 } else { 0 };
        }
        out.key("number")?.write(&[self.number])?;
        out.key("choice")?.write_discrete(self.choice)
    }

    fn action_mask(&mut self, mask: &mut [u8]) {
        mask.fill(1);
        mask[self.forbidden] = 0;
    }
}
