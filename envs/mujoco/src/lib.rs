//! Gymnasium's MuJoCo environments, version 5. Empty without the feature `mujoco`.
#![cfg(feature = "mujoco")]
