//! Settings that are known to work, by name, and ready to run. Each is a TOML file in this folder, which holds only what
//! differs from the preset that its key `preset` names.

/// A preset's name and its text.
const PRESETS: &[(&str, &str)] = &[
    ("acrobot", include_str!("acrobot.toml")),
    ("atari", include_str!("atari.toml")),
    ("bench", include_str!("bench.toml")),
    ("cartpole", include_str!("cartpole.toml")),
    ("cartpole-hidden", include_str!("cartpole-hidden.toml")),
    ("halfcheetah", include_str!("halfcheetah.toml")),
    ("hopper", include_str!("hopper.toml")),
    (
        "inverted-double-pendulum",
        include_str!("inverted-double-pendulum.toml"),
    ),
    ("lunar-lander", include_str!("lunar-lander.toml")),
    ("minatar-asterix", include_str!("minatar-asterix.toml")),
    ("minatar-breakout", include_str!("minatar-breakout.toml")),
    ("minatar-freeway", include_str!("minatar-freeway.toml")),
    ("minatar-seaquest", include_str!("minatar-seaquest.toml")),
    (
        "minatar-space-invaders",
        include_str!("minatar-space-invaders.toml"),
    ),
    ("mountain-car", include_str!("mountain-car.toml")),
    (
        "mountain-car-continuous",
        include_str!("mountain-car-continuous.toml"),
    ),
    ("pendulum", include_str!("pendulum.toml")),
    ("pong", include_str!("pong.toml")),
    ("t-maze", include_str!("t-maze.toml")),
    ("walker2d", include_str!("walker2d.toml")),
];

/// The names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The text of a preset, in TOML; none if there is no such preset.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    PRESETS
        .iter()
        .find(|(preset, _)| *preset == name)
        .map(|(_, text)| *text)
}
