//! What a folder in the cache is made of on one platform: which wheels, by which hash, and which files of them.

use std::path::Path;

use anyhow::{Result, bail};

use crate::cache::Place;

/// A set of files that is made from wheels, on one platform.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// `os-arch` as Rust spells them.
    pub(crate) platform: &'static str,
    /// What it is, with its version, in the words of messages.
    pub(crate) what: &'static str,
    /// The folder in the cache; a new version must have a new name.
    pub(crate) folder: &'static str,
    /// About how much is kept, and how much it takes while it is made.
    pub(crate) size: [&'static str; 2],
    /// What to do where it cannot be downloaded.
    pub(crate) offline: &'static str,
    /// The platform tags (PEP 425) of the wheels below.
    pub(crate) tags: &'static [&'static str],
    pub(crate) wheels: &'static [Wheel],
    /// Symbolic links `(link, target)` inside `lib/`.
    pub(crate) links: &'static [(&'static str, &'static str)],
    /// Text files that no wheel holds: `(path in the set, text)`.
    pub(crate) texts: &'static [(&'static str, &'static str)],
}

/// One wheel and what is taken from it, beside its licences.
#[derive(Debug)]
pub(crate) struct Wheel {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// SHA-256 of the wheel's file, in lower-case hexadecimal.
    pub(crate) sha256: &'static str,
    /// A folder that is taken whole, with its closing slash, and what it is called in the set.
    pub(crate) folder: Option<(&'static str, &'static str)>,
    /// The folder that `libs` are in, with its closing slash.
    pub(crate) lib_dir: &'static str,
    /// What goes to `lib/`.
    pub(crate) libs: &'static [&'static str],
}

impl Wheel {
    /// How the wheel's file name begins (PEP 427 turns `-` into `_`).
    pub(crate) fn file_prefix(&self) -> String {
        format!("{}-{}-", self.package.replace('-', "_"), self.version)
    }
}

impl Recipe {
    pub(crate) fn place(&self) -> Place {
        Place {
            folder: self.folder,
            what: self.what,
            size: self.size,
        }
    }

    /// Whether everything that is known by name is in the folder `set`.
    pub(crate) fn is_whole(&self, set: &Path) -> bool {
        let libs = self.wheels.iter().flat_map(|wheel| wheel.libs);
        let links = self.links.iter().map(|(link, _)| link);
        let folders = self.wheels.iter().filter_map(|wheel| wheel.folder);
        libs.chain(links)
            .all(|file| set.join("lib").join(file).is_file())
            && self.texts.iter().all(|(path, _)| set.join(path).is_file())
            && folders
                .into_iter()
                .all(|(_, folder)| set.join(folder).is_dir())
    }

    /// The shared objects that a program needs to run (those that it is only linked with are left out).
    pub(crate) fn runtime_libs(&self) -> impl Iterator<Item = &'static str> {
        self.wheels
            .iter()
            .flat_map(|wheel| wheel.libs.iter().copied())
            .filter(|lib| !lib.starts_with("libshm."))
    }
}

/// The recipe for the platform that xtask itself was built for.
pub(crate) fn current(recipes: &'static [Recipe]) -> Result<&'static Recipe> {
    let name = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    match recipes.iter().find(|recipe| recipe.platform == name) {
        Some(recipe) => Ok(recipe),
        None => bail!(
            "there is no recipe for {} on {name} (only on {}). {}",
            recipes[0].what,
            recipes
                .iter()
                .map(|recipe| recipe.platform)
                .collect::<Vec<_>>()
                .join(", "),
            recipes[0].offline,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mujoco, platform};

    fn all() -> impl Iterator<Item = &'static Recipe> {
        platform::PLATFORMS.iter().chain(mujoco::PLATFORMS)
    }

    #[test]
    fn hashes_are_well_formed_and_given_once_unless_the_wheel_is_the_same() {
        let mut seen: Vec<&Wheel> = Vec::new();
        for wheel in all().flat_map(|recipe| recipe.wheels) {
            assert_eq!(wheel.sha256.len(), 64, "{wheel:?}");
            let hex = |b| matches!(b, b'0'..=b'9' | b'a'..=b'f');
            assert!(wheel.sha256.bytes().all(hex), "{wheel:?}");
            assert!(wheel.lib_dir.ends_with('/'), "{wheel:?}");
            for other in &seen {
                let same = (wheel.package, wheel.version) == (other.package, other.version);
                assert!(same || wheel.sha256 != other.sha256, "{wheel:?}");
            }
            seen.push(wheel);
        }
    }

    #[test]
    fn folders_in_the_cache_have_names_of_their_own() {
        let mut names: Vec<_> = all().map(|recipe| recipe.folder).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn wheel_files_are_named_with_underscores() {
        assert_eq!(
            platform::PLATFORMS[0].wheels[1].file_prefix(),
            "nvidia_cuda_runtime-13.0.96-"
        );
    }
}
