//! What the tests of the whole share: toy environments whose every number can be worked out by hand, an
//! algorithm that looks at the rows it is given, and short runs.

mod mixed;
mod runs;
mod script;
mod spy;
mod toys;
mod watch;

pub use mixed::{Mixed, mixed};
pub use runs::{continued, trainer};
pub use script::{Moment, Phase, Script, Twist};
pub use spy::Spy;
pub use toys::{Mirror, Uneven, echo, masked, mirror, picture, uneven};
pub use watch::Watch;

use hotloop_env::Registry;

/// The toys that the `hotloop-toys` program knows.
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(mirror());
    registry.add(Script::new(&[5.0, -3.0, 0.0, 10.0]).spec());
    registry.add(uneven());
    hotloop_synthetic::register(&mut registry);
    registry
}
