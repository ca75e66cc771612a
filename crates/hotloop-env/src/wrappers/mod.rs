//! Wrappers: environments around environments, each for one purpose. They nest; the outermost is
//! what the learner sees.
//!
//! ```
//! use hotloop_env::wrappers::{ClipReward, FrameStack};
//! # use hotloop_env::{ActionView, Env, EnvError, EnvRng, ObservationMut, ResetCtx, Space, Transition};
//! # struct Game;
//! # impl Env for Game {
//! #     fn observation_space(&self) -> Space { Space::boxed(0.0, 1.0, &[8]) }
//! #     fn action_space(&self) -> Space { Space::discrete(2) }
//! #     fn reset(&mut self, _: &mut ResetCtx<'_>) -> Result<(), EnvError> { Ok(()) }
//! #     fn step(&mut self, _: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> { Ok(Transition::running(5.0)) }
//! #     fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> { out.write(&[0.0f32; 8]) }
//! # }
//! let env = FrameStack::new(ClipReward::new(Game, -1.0, 1.0), 4)?;
//! assert_eq!(env.observation_space(), Space::boxed(0.0, 1.0, &[4, 8]));
//! # Ok::<(), hotloop_env::EnvError>(())
//! ```

/// Methods of [`Env`](crate::Env) that a wrapper hands on to `self.env` as they are, and those that draw, which no
/// wrapper changes.
macro_rules! delegate {
    ($($method:ident),* $(,)?) => {
        $(delegate!(@ $method);)*
        delegate!(@ render);
        delegate!(@ glyphs);
    };
    (@ observation_space) => {
        fn observation_space(&self) -> $crate::Space { self.env.observation_space() }
    };
    (@ action_space) => {
        fn action_space(&self) -> $crate::Space { self.env.action_space() }
    };
    (@ reset) => {
        #[inline]
        fn reset(&mut self, ctx: &mut $crate::ResetCtx<'_>) -> Result<(), $crate::EnvError> {
            self.env.reset(ctx)
        }
    };
    (@ step) => {
        #[inline]
        fn step(
            &mut self,
            action: $crate::ActionView<'_>,
            rng: &mut $crate::EnvRng,
        ) -> Result<$crate::Transition, $crate::EnvError> {
            self.env.step(action, rng)
        }
    };
    (@ observe) => {
        #[inline]
        fn observe(&mut self, out: &mut $crate::ObservationMut<'_>) -> Result<(), $crate::EnvError> {
            self.env.observe(out)
        }
    };
    (@ action_mask) => {
        fn action_mask(&mut self, mask: &mut [u8]) { self.env.action_mask(mask); }
    };
    (@ save) => {
        fn save(&self, out: &mut $crate::StateWriter) -> bool { self.env.save(out) }
    };
    (@ render) => {
        fn render(&mut self, frame: &mut $crate::Frame) -> Result<bool, $crate::EnvError> {
            self.env.render(frame)
        }
    };
    (@ glyphs) => {
        fn glyphs(&self) -> Option<String> { self.env.glyphs() }
    };
    (@ load) => {
        fn load(&mut self, state: &mut $crate::StateReader<'_>) -> Result<(), $crate::EnvError> {
            self.env.load(state)
        }
    };
}

mod cast_observation;
mod clip_action;
mod clip_reward;
mod episode_stats;
mod flatten_observation;
mod frame_stack;
mod hold_end;
mod map_action;
mod map_reward;
mod rescale_action;
mod sign_reward;
#[cfg(test)]
mod testing;
mod time_limit;

pub use cast_observation::CastObservation;
pub use clip_action::ClipAction;
pub use clip_reward::ClipReward;
pub use episode_stats::{EpisodeStats, FinishedEpisode};
pub use flatten_observation::FlattenObservation;
pub use frame_stack::FrameStack;
pub(crate) use hold_end::HoldEnd;
pub use map_reward::MapReward;
pub use rescale_action::RescaleAction;
pub use sign_reward::SignReward;
pub(crate) use sign_reward::sign;
pub use time_limit::TimeLimit;
