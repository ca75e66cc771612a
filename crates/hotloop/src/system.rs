//! What this build runs on: libtorch, kernels, GPUs.

use hotloop_learn::{device, kernels};
use std::path::{Path, PathBuf};

/// The libtorch that this process has loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Libtorch {
    /// Its version; that which hotloop is built for, if the folder does not say.
    pub version: String,
    /// The folder of its libraries, where the system tells.
    pub folder: Option<PathBuf>,
}

/// The version that this hotloop is built for; torch-sys refuses to build with another.
const BUILT_FOR: &str = "2.11";

/// Finds the libtorch of this process.
#[must_use]
pub fn libtorch() -> Libtorch {
    let folder = device::loaded_from("libtorch_cpu.so");
    let version = folder
        .as_deref()
        .and_then(Path::parent)
        .and_then(|root| std::fs::read_to_string(root.join("build-version")).ok())
        .map_or(BUILT_FOR.to_string(), |text| text.trim().to_string());
    Libtorch { version, folder }
}

/// The vector instructions that hotloop's own kernels use here.
#[must_use]
pub fn instruction_set() -> &'static str {
    kernels::instruction_set()
}

/// The GPUs that can be used, by the names that `device` takes.
///
/// # Errors
///
/// Why there is none.
pub fn gpus() -> Result<Vec<String>, String> {
    device::open("cuda").map_err(|error| error.to_string())?;
    let names = (0..).map(|index| format!("cuda:{index}"));
    Ok(names
        .take_while(|name| device::open(name).is_ok())
        .collect())
}

/// The bytes of memory that this process has in use, where the system tells.
pub(crate) fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaded_libtorch_is_found() {
        // Nothing here calls libtorch, which the linker might otherwise leave out.
        assert!(device::open("cpu").is_ok());
        let libtorch = libtorch();
        assert!(libtorch.version.starts_with(BUILT_FOR), "{libtorch:?}");
        assert_eq!(device::loaded_from("libnothing.so"), None);
    }

    #[test]
    fn gpus_are_listed_or_their_absence_is_explained() {
        match gpus() {
            Ok(names) => assert_eq!(names[0], "cuda:0"),
            Err(reason) => assert!(reason.len() > 10, "{reason}"),
        }
    }
}
