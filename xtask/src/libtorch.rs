//! Chooses the libtorch to build with, and tells whether a folder is one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::platform::{PLATFORMS, TORCH_CPU, VERSION};
use crate::{cache, python, recipe};

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// `LIBTORCH`, else what was chosen before, else the CPU set.
    Any,
    /// The CPU set, whatever was chosen before.
    Cpu,
    /// The PyTorch that this Python imports.
    Python(String),
}

/// Where libtorch is to come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// The user's `LIBTORCH`.
    Given(PathBuf),
    /// The folder that the last set-up chose; it may have vanished since.
    Before(PathBuf),
    Cpu,
    Python(String),
}

/// Finds or makes the libtorch that is `wanted`; `before` is what the last set-up chose.
pub(crate) fn obtain(wanted: &Wanted, before: Option<&Path>) -> Result<PathBuf> {
    refuse_overrides(|name| std::env::var_os(name).is_some())?;
    let given = std::env::var_os("LIBTORCH").map(PathBuf::from);
    match source(wanted, given.as_deref(), before)? {
        Source::Given(folder) => {
            let folder = std::path::absolute(&folder)
                .with_context(|| format!("LIBTORCH={}", folder.display()))?;
            check(&folder).with_context(|| {
                format!(
                    "LIBTORCH={} cannot be used; set it to another folder, or unset it",
                    folder.display()
                )
            })?;
            Ok(folder)
        }
        Source::Before(folder) => match check(&folder) {
            Ok(()) => Ok(folder),
            Err(error) => {
                eprintln!(
                    "xtask: the libtorch chosen before is gone ({error:#}); taking the CPU set"
                );
                cpu_set()
            }
        },
        Source::Cpu => cpu_set(),
        Source::Python(python) => {
            let folder = python::torch_folder(&python)?;
            check(&folder)
                .with_context(|| format!("the PyTorch of `{python}` cannot be built with"))?;
            Ok(folder)
        }
    }
}

fn cpu_set() -> Result<PathBuf> {
    cache::set(recipe::current(PLATFORMS)?)
}

/// cargo hands its own `[env] LIBTORCH` to `cargo xtask`, so a value equal to `before` says nothing of the user's.
fn source(wanted: &Wanted, given: Option<&Path>, before: Option<&Path>) -> Result<Source> {
    let given = given.filter(|folder| Some(*folder) != before && !folder.as_os_str().is_empty());
    match (wanted, given) {
        (Wanted::Any, Some(folder)) => Ok(Source::Given(folder.to_owned())),
        (Wanted::Any, None) => {
            Ok(before.map_or(Source::Cpu, |folder| Source::Before(folder.to_owned())))
        }
        (_, Some(folder)) => bail!(
            "LIBTORCH is set to {}, which the build would use whatever is set up here; unset it first",
            folder.display()
        ),
        (Wanted::Cpu, None) => Ok(Source::Cpu),
        (Wanted::Python(python), None) => Ok(Source::Python(python.clone())),
    }
}

/// Variables by which torch-sys would take its headers or libraries from elsewhere than `LIBTORCH`.
fn refuse_overrides(is_set: impl Fn(&str) -> bool) -> Result<()> {
    for name in [
        "LIBTORCH_USE_PYTORCH",
        "LIBTORCH_INCLUDE",
        "LIBTORCH_LIB",
        "LIBTORCH_STATIC",
    ] {
        ensure!(
            !is_set(name),
            "{name} is set; torch-sys would mix another libtorch into the build. Unset it, and set LIBTORCH or run \
             `cargo xtask setup --from-python` instead"
        );
    }
    Ok(())
}

/// Tells what keeps `folder` from being a libtorch that hotloop can be built with, if anything.
pub(crate) fn check(folder: &Path) -> Result<()> {
    for part in [
        "include/torch/csrc/api/include/torch/torch.h".into(),
        format!("lib/{TORCH_CPU}"),
    ] {
        let path = folder.join(part);
        ensure!(
            path.is_file(),
            "{} is missing; a libtorch folder has include/ and lib/",
            path.display()
        );
    }
    let Some((file, version)) = version(folder) else {
        bail!(
            "{} has neither build-version (libtorch) nor version.py (PyTorch) to tell its version",
            folder.display()
        );
    };
    ensure!(
        version.split('+').next() == Some(VERSION),
        "{} says {version:?}; hotloop is built against libtorch {VERSION}",
        folder.join(file).display(),
    );
    Ok(())
}

/// The version of a libtorch folder, and the file that says so.
fn version(folder: &Path) -> Option<(&'static str, String)> {
    if let Ok(text) = fs::read_to_string(folder.join("build-version")) {
        return Some(("build-version", text.trim().to_owned()));
    }
    let text = fs::read_to_string(folder.join("version.py")).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("__version__ = "))?;
    Some((
        "version.py",
        value.trim_matches(|c| c == '\'' || c == '"').to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(version_file: &str, text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in [
            "include/torch/csrc/api/include/torch/torch.h",
            &format!("lib/{TORCH_CPU}"),
        ] {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(dir.path().join(version_file), text).unwrap();
        dir
    }

    #[test]
    fn a_libtorch_and_a_pytorch_folder_of_the_right_version_pass() {
        check(folder_with("build-version", "2.11.0+cpu\n").path()).unwrap();
        check(
            folder_with(
                "version.py",
                "from typing import Optional\n__version__ = '2.11.0+cu130'\n",
            )
            .path(),
        )
        .unwrap();
    }

    #[test]
    fn another_version_none_and_a_missing_part_are_refused_by_name() {
        let error = check(folder_with("build-version", "2.10.0\n").path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("2.10.0") && error.contains(VERSION),
            "{error}"
        );
        let error = check(folder_with("other", "").path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("build-version"), "{error}");
        let dir = folder_with("build-version", "2.11.0");
        fs::remove_file(dir.path().join("lib").join(TORCH_CPU)).unwrap();
        assert!(
            check(dir.path())
                .unwrap_err()
                .to_string()
                .contains(TORCH_CPU)
        );
    }

    #[test]
    fn the_order_is_libtorch_then_the_last_choice_then_the_cpu_set() {
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        let any = |given, before| source(&Wanted::Any, given, before).unwrap();
        assert_eq!(any(Some(a), None), Source::Given(a.into()));
        assert_eq!(any(Some(a), Some(b)), Source::Given(a.into()));
        assert_eq!(
            any(Some(a), Some(a)),
            Source::Before(a.into()),
            "cargo's own value is not the user's"
        );
        assert_eq!(any(None, Some(b)), Source::Before(b.into()));
        assert_eq!(any(Some(Path::new("")), None), Source::Cpu);
        assert_eq!(any(None, None), Source::Cpu);
    }

    #[test]
    fn an_explicit_choice_replaces_the_last_one_but_contradicts_libtorch() {
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        let python = Wanted::Python("py".into());
        assert_eq!(source(&Wanted::Cpu, Some(b), Some(b)).unwrap(), Source::Cpu);
        assert_eq!(
            source(&python, None, Some(b)).unwrap(),
            Source::Python("py".into())
        );
        assert!(
            source(&Wanted::Cpu, Some(a), Some(b))
                .unwrap_err()
                .to_string()
                .contains("unset")
        );
        assert!(source(&python, Some(a), None).is_err());
    }

    #[test]
    fn variables_that_point_elsewhere_are_refused() {
        refuse_overrides(|_| false).unwrap();
        let error = refuse_overrides(|name| name == "LIBTORCH_LIB")
            .unwrap_err()
            .to_string();
        assert!(error.contains("LIBTORCH_LIB"), "{error}");
    }
}
