//! The set-up that every command does first: instantaneous once it is done.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::libtorch::{self, Wanted};
use crate::{cargo, link};

/// Sets the workspace up and returns its libtorch.
pub(crate) fn set_up(workspace: &Path, wanted: &Wanted) -> Result<PathBuf> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    require_compiler(&compiler, |program| find_in_path(program).is_some())?;
    let before = link::linked(workspace);
    let libtorch = libtorch::obtain(wanted, before.as_deref())?;
    if link::write(workspace, &libtorch)? {
        eprintln!(
            "xtask: cargo is set up to use the libtorch in {}",
            libtorch.display()
        );
    }
    cargo::warn_of_flags(&libtorch)?;
    Ok(libtorch)
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
