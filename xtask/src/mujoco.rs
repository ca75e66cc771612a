//! The set that the feature `mujoco` is built with: libmujoco, and Gymnasium's models.

use crate::recipe::{Recipe, Wheel};

/// The models; the wheel is the same on every platform.
const MODELS: Wheel = Wheel {
    package: "gymnasium",
    version: "1.4.0",
    sha256: "1cb947c59e7c72d8eabb2c2274c00cd20948e69f8452a9ef4092223be24fdf0e",
    folder: Some(("gymnasium/envs/mujoco/assets/", "models")),
    lib_dir: "gymnasium/",
    libs: &[],
};

/// mujoco-rs 7.0 is written for MuJoCo 3.17.0; the two move together.
const VERSION: &str = "3.17.0";
const WHAT: &str = "MuJoCo 3.17.0 with Gymnasium's models";
const SIZE: [&str; 2] = ["8 MB", "40 MB"];
const OFFLINE: &str =
    "On a machine without network, copy the folder mujoco-3.17.0-… of another machine's cache";
const LINUX_LIBS: &[&str] = &["libmujoco.so.3.17.0"];
const LINUX_LINKS: &[(&str, &str)] = &[("libmujoco.so", "libmujoco.so.3.17.0")];

/// All platforms with a recipe.
pub(crate) const PLATFORMS: &[Recipe] = &[
    Recipe {
        platform: "linux-x86_64",
        what: WHAT,
        folder: "mujoco-3.17.0-linux-x86_64",
        size: SIZE,
        offline: OFFLINE,
        tags: &["manylinux_2_28_x86_64", "manylinux_2_27_x86_64"],
        wheels: &[
            Wheel {
                package: "mujoco",
                version: VERSION,
                sha256: "42371356efe53a5f5f73ed03fcb967bdf04048017f80e2fca01e71a360e42da2",
                folder: None,
                lib_dir: "mujoco/",
                libs: LINUX_LIBS,
            },
            MODELS,
        ],
        links: LINUX_LINKS,
        texts: &[],
    },
    Recipe {
        platform: "linux-aarch64",
        what: WHAT,
        folder: "mujoco-3.17.0-linux-aarch64",
        size: SIZE,
        offline: OFFLINE,
        tags: &["manylinux_2_28_aarch64", "manylinux_2_27_aarch64"],
        wheels: &[
            Wheel {
                package: "mujoco",
                version: VERSION,
                sha256: "525e09a00ecd964f06582773d9eeb03bb0e5a1675edf296a6868024759b3b235",
                folder: None,
                lib_dir: "mujoco/",
                libs: LINUX_LIBS,
            },
            MODELS,
        ],
        links: LINUX_LINKS,
        texts: &[],
    },
    Recipe {
        platform: "macos-aarch64",
        what: WHAT,
        folder: "mujoco-3.17.0-macos-aarch64",
        size: SIZE,
        offline: OFFLINE,
        tags: &["macosx_11_0_arm64"],
        wheels: &[
            Wheel {
                package: "mujoco",
                version: VERSION,
                sha256: "c677ab789299db70ca3fffe96b44a424bdad516cc87cc2a83898140923c2e91e",
                folder: None,
                lib_dir: "mujoco/",
                libs: &["libmujoco.3.17.0.dylib"],
            },
            MODELS,
        ],
        links: &[("libmujoco.dylib", "libmujoco.3.17.0.dylib")],
        texts: &[],
    },
];
