//! The set-up that every command does first: instantaneous once it is done.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::cargo;
use crate::features::{self, Feature};
use crate::libtorch::{self, Wanted};
use crate::link::{self, Links};

/// Sets the workspace up with `added` features beside those of before, and returns what it is linked with. If they are
/// `kept`, they are built into hotloop from now on.
pub(crate) fn set_up(
    workspace: &Path,
    wanted: &Wanted,
    added: &[&'static Feature],
    kept: bool,
) -> Result<Links> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    require_compiler(&compiler, |program| find_in_path(program).is_some())?;
    let before = Links::of(workspace);
    let libtorch = libtorch::obtain(wanted, before.as_ref().map(|links| &*links.libtorch))?;
    let known: Vec<_> = before.iter().flat_map(|links| &links.features).collect();
    let features = features::ALL
        .iter()
        .filter(|feature| added.contains(feature) || known.iter().any(|(f, _)| f == *feature))
        .map(|feature| Ok((*feature, (feature.make)()?)))
        .collect::<Result<_>>()?;
    let before = before.map(|links| links.chosen).unwrap_or_default();
    let chosen = features::ALL.iter().copied();
    let chosen = chosen.filter(|f| before.contains(f) || kept && added.contains(f));
    let links = Links {
        chosen: chosen.collect(),
        libtorch,
        features,
    };
    if link::write(workspace, &links)? {
        eprintln!(
            "xtask: cargo is set up to use the libtorch in {}",
            links.libtorch.display()
        );
        for (feature, folder) in &links.features {
            eprintln!("xtask: and {} in {}", feature.name, folder.display());
        }
    }
    cargo::warn_of_flags(&links)?;
    Ok(links)
}

/// Fails before anything is downloaded if the C++ part of torch-sys could not be compiled afterwards.
fn require_compiler(wanted: &str, exists: impl Fn(&str) -> bool) -> Result<()> {
    // CXX may hold arguments, or a launcher such as ccache, before the compiler.
    let program = wanted.split_whitespace().next().unwrap_or("c++");
    if exists(program) {
        return Ok(());
    }
    if let Some(other) = ["g++", "clang++"].into_iter().find(|other| exists(other)) {
        bail!("the C++ compiler `{program}` is not on the PATH, but {other} is: set CXX={other}");
    }
    bail!(
        "no C++ compiler: `{program}` is not on the PATH. Install one (Debian, Ubuntu: apt install g++; Fedora: dnf \
         install gcc-c++; macOS: xcode-select --install), or set CXX to it"
    )
}

fn find_in_path(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_reported_with_the_one_to_use_or_to_install() {
        require_compiler("ccache g++", |program| program == "ccache").unwrap();
        let error = require_compiler("c++", |program| program == "clang++")
            .unwrap_err()
            .to_string();
        assert!(error.contains("set CXX=clang++"), "{error}");
        let error = require_compiler("c++", |_| false).unwrap_err().to_string();
        assert!(error.contains("apt install g++"), "{error}");
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        let shell = find_in_path("sh").unwrap();
        assert_eq!(find_in_path(shell.to_str().unwrap()), Some(shell));
        assert_eq!(find_in_path("no-such-program-anywhere"), None);
    }
}
