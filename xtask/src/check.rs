//! The whole test set of the project, in one command.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cargo::{cargo, run};
use crate::link::Links;
use crate::venv;

/// Runs unit, integration and doc tests with all features that need a set-up, the model check of the slab's protocol, and the tests of the example crates.
pub(crate) fn test(workspace: &Path, links: &Links) -> Result<()> {
    venv::set_up(workspace)?;
    let mut tests = cargo("test", workspace, links)?;
    tests.arg("--workspace");
    tests.arg("--features").arg(links.all_features());
    run(tests)?;
    lint_features(workspace, links)?;

    let mut model = cargo("test", workspace, links)?;
    model.args([
        "--package",
        "hotloop-rollout",
        "--features",
        "loom",
        "--test",
        "model",
    ]);
    run(model)?;

    let target = target_directory()?;
    for example in example_crates(&workspace.join("examples"))? {
        // The same versions in the same target directory: what the workspace has built (torch-sys above all) is used.
        fs::copy(workspace.join("Cargo.lock"), example.join("Cargo.lock"))
            .with_context(|| format!("copying Cargo.lock to {}", example.display()))?;
        let mut tests = cargo("test", &example, links)?;
        tests.arg("--target-dir").arg(&target);
        run(tests)?;
    }
    Ok(())
}

/// Runs clippy on the crates that are empty without their features, so that a plain clippy sees nothing of them.
fn lint_features(workspace: &Path, links: &Links) -> Result<()> {
    let mut clippy = cargo("clippy", workspace, links)?;
    for (feature, _) in &links.features {
        clippy.args(["--package", feature.package]);
    }
    clippy.args(["--package", "hotloop-cli", "--all-targets", "--features"]);
    clippy.arg(links.all_features());
    clippy.args(["--", "-D", "warnings"]);
    run(clippy)
}

/// Where cargo puts what it builds for the workspace, however that is configured.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let xtask = std::env::current_exe().context("finding xtask's own file")?;
    let target = xtask
        .ancestors()
        .nth(2)
        .context("xtask does not lie in TARGET/PROFILE/xtask")?;
    Ok(target.to_owned())
}

/// The crates directly in `examples` (they are no members of the workspace), in the order of their names.
fn example_crates(examples: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("reading {}", examples.display());
    let mut crates = Vec::new();
    for entry in fs::read_dir(examples).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        if path.join("Cargo.toml").is_file() {
            crates.push(path);
        }
    }
    crates.sort();
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_with_a_manifest_are_example_crates() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a", "data"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        for name in ["b", "a"] {
            fs::write(dir.path().join(name).join("Cargo.toml"), "").unwrap();
        }
        fs::write(dir.path().join("quick.rs"), "").unwrap();
        assert_eq!(
            example_crates(dir.path()).unwrap(),
            [dir.path().join("a"), dir.path().join("b")]
        );
    }
}
