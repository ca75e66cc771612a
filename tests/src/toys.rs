//! Toy environments, each for one kind of question.

use hotloop_env::{
    ActionView, Discrete, Env, EnvError, EnvRng, EnvSpec, ImageLayout, ObservationMut, ResetCtx,
    Rows, Space, Spaces, StateReader, StateWriter, Transition, Turn, VectorEnv,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Observes (its number, steps made), and is rewarded with the action that it received, one of `n` from
/// `start` on. It is numbered as it is built, and takes `latency` milliseconds times its number modulo 4
/// for a step.
struct Echo {
    id: usize,
    steps: u32,
    space: Discrete,
    latency: u64,
}

/// `Echo`, which never ends.
#[must_use]
pub fn echo(n: usize, start: i64, latency: u64) -> EnvSpec {
    let built = AtomicUsize::new(0);
    EnvSpec::new("Echo-v0", move |_| {
        Ok(Echo {
            id: built.fetch_add(1, Ordering::Relaxed),
            steps: 0,
            space: Discrete {
                n,
                start,
                masked: false,
            },
            latency,
        })
    })
}

impl Env for Echo {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[2])
    }

    fn action_space(&self) -> Space {
        Space::Discrete(self.space.clone())
    }

    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.steps = 0;
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        if self.latency > 0 {
            std::thread::sleep(Duration::from_millis(self.latency * (self.id as u64 % 4)));
        }
        self.steps += 1;
        Ok(Transition::running(action.discrete() as f64))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.id as f32, self.steps as f32])
    }
}

/// Shows a fixed sequence of 25 observations, and is rewarded with the action itself: the return of an
/// episode tells apart policies that differ in a single bit.
pub struct Mirror {
    step: u32,
}

/// `Mirror` under the id `Mirror-v0`.
#[must_use]
pub fn mirror() -> EnvSpec {
    EnvSpec::new("Mirror-v0", |_| Ok(Mirror { step: 0 }))
}

impl Env for Mirror {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[3])
    }

    fn action_space(&self) -> Space {
        Space::unbounded(&[1])
    }

    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.step = 0;
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        self.step += 1;
        let reward = f64::from(action.continuous()[0]);
        Ok(if self.step == 25 {
            Transition::truncated(reward)
        } else {
            Transition::running(reward)
        })
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        let t = self.step as f32;
        out.write(&[t, 1000.0 - 7.0 * t, (t * 0.7).sin()])
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        out.u32(self.step);
        true
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.step = state.u32()?;
        Ok(())
    }
}

/// Shows which of three actions is forbidden; it changes with every step and differs between lanes.
struct Masked {
    forbidden: usize,
}

/// `Masked`, which never ends.
#[must_use]
pub fn masked() -> EnvSpec {
    EnvSpec::new("Masked-v0", |_| Ok(Masked { forbidden: 0 }))
}

impl Env for Masked {
    fn observation_space(&self) -> Space {
        Space::unbounded(&[1])
    }

    fn action_space(&self) -> Space {
        Space::masked_discrete(3)
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.forbidden = ctx.rng().below(3) as usize;
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, rng: &mut EnvRng) -> Result<Transition, EnvError> {
        if action.discrete() == self.forbidden as i64 {
            return Err(EnvError::new(format!(
                "action {} is forbidden",
                self.forbidden
            )));
        }
        self.forbidden = rng.below(3) as usize;
        Ok(Transition::running(1.0))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.forbidden as f32])
    }

    fn action_mask(&mut self, mask: &mut [u8]) {
        mask.fill(1);
        mask[self.forbidden] = 0;
    }
}

/// A 2 × 2 image of three channels, channels last: 100 × row + 10 × column + channel.
struct Picture;

/// `Picture`, which never ends.
#[must_use]
pub fn picture() -> EnvSpec {
    EnvSpec::new("Picture-v0", |_| Ok(Picture))
}

impl Env for Picture {
    fn observation_space(&self) -> Space {
        Space::image([2, 2, 3], ImageLayout::Hwc)
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        Ok(())
    }

    fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        Ok(Transition::running(0.0))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[0u8, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112])
    }
}

/// Two kinds of episodes in one block: of length 1 and return 0 in even lanes, of length and return 9 in
/// odd ones.
pub struct Uneven {
    steps: Vec<u32>,
}

/// `Uneven` under the id `Uneven-v0`.
#[must_use]
pub fn uneven() -> EnvSpec {
    EnvSpec::vector(
        "Uneven-v0",
        |_, lanes| {
            Ok(Box::new(Uneven {
                steps: vec![0; lanes],
            }))
        },
        |_| Ok(Spaces::new(Space::unbounded(&[1]), Space::discrete(2))?),
    )
}

impl VectorEnv for Uneven {
    fn lanes(&self) -> usize {
        self.steps.len()
    }

    fn reset(&mut self, rows: &mut Rows<'_>) {
        self.step(rows);
    }

    fn step(&mut self, rows: &mut Rows<'_>) {
        for lane in 0..self.steps.len() {
            let reset = matches!(rows.turn(lane), Turn::Reset(_));
            let mut place = if reset {
                self.steps[lane] = 0;
                rows.begin(lane)
            } else {
                self.steps[lane] += 1;
                let odd = lane % 2 == 1;
                let (reward, length) = if odd { (1.0, 9) } else { (0.0, 1) };
                if self.steps[lane] == length {
                    self.steps[lane] = 0;
                    rows.proceed(lane, Transition::terminated(reward))
                } else {
                    rows.proceed(lane, Transition::running(reward))
                }
            };
            if let Err(error) = place.write(&[self.steps[lane] as f32]) {
                let phase = hotloop_env::FaultPhase::Step;
                rows.fail(lane, phase, hotloop_env::Cause::Error, error.to_string());
            }
        }
    }
}
