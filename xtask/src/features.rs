//! Optional parts of hotloop that need files from elsewhere: each has a cargo feature, is set up once by a command of
//! its own, and is built in from then on.

use std::path::PathBuf;

use anyhow::Result;

use crate::recipe::{self, Recipe};
use crate::{ale, cache, mujoco};

/// One part, and what cargo has to know of it.
#[derive(Debug)]
pub(crate) struct Feature {
    /// The cargo feature, of hotloop-cli and of `package`.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    /// The variable that names the folder of its files while it is built.
    pub(crate) variable: &'static str,
    /// Variables for folders inside, which other people's build scripts read.
    pub(crate) others: &'static [(&'static str, &'static str)],
    /// Makes the folder if it is not there.
    pub(crate) make: fn() -> Result<PathBuf>,
    /// What the folder is made of, if programs load libraries from its `lib/` when they run.
    pub(crate) recipes: Option<&'static [Recipe]>,
}

/// MuJoCo's environments.
pub(crate) const MUJOCO: &Feature = &Feature {
    name: "mujoco",
    package: "hotloop-mujoco",
    variable: "HOTLOOP_MUJOCO",
    others: &[("MUJOCO_DYNAMIC_LINK_DIR", "lib")],
    make: || cache::set(recipe::current(mujoco::PLATFORMS)?),
    recipes: Some(mujoco::PLATFORMS),
};

/// Atari games.
pub(crate) const ATARI: &Feature = &Feature {
    name: "atari",
    package: "hotloop-atari",
    variable: "HOTLOOP_ALE",
    others: &[],
    make: ale::set,
    recipes: None,
};

impl PartialEq for Feature {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All of them.
pub(crate) const ALL: &[&Feature] = &[ATARI, MUJOCO];
