//! Finds pip, and a PyTorch that Python can import.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::platform::VERSION;

/// A command line that runs pip, from whichever Python has one.
pub(crate) fn pip() -> Result<Command> {
    let candidates: [&[&str]; 4] = [
        &["python3", "-m", "pip"],
        &["python", "-m", "pip"],
        &["pip3"],
        &["pip"],
    ];
    for candidate in candidates {
        let command = || {
            let mut command = Command::new(candidate[0]);
            command.args(&candidate[1..]).stdin(Stdio::null());
            command
        };
        let probe = command()
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if probe.is_ok_and(|status| status.success()) {
            return Ok(command());
        }
    }
    bail!(
        "no pip found (tried `python3 -m pip`, `python -m pip`, `pip3`, `pip`); it is needed once, to download libraries. \
         Install Python 3 with pip (Debian, Ubuntu: apt install python3-pip; Fedora: dnf install python3-pip; macOS: \
         brew install python), or set LIBTORCH to the folder of a libtorch {VERSION}"
    )
}

const PRINT_TORCH: &str = "import os, torch
print(torch.__version__)
print(os.path.dirname(torch.__file__))
print(torch._C._GLIBCXX_USE_CXX11_ABI)";

/// The folder of the PyTorch that `python` imports, which serves as a libtorch.
pub(crate) fn torch_folder(python: &str) -> Result<PathBuf> {
    let output = Command::new(python)
        .args(["-c", PRINT_TORCH])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| {
            format!(
                "`{python}` cannot be run; name another: cargo xtask setup --from-python PYTHON"
            )
        })?;
    ensure!(
        output.status.success(),
        "`{python}` cannot import torch (what it said is above). Install it (`{python} -m pip install torch=={VERSION}`) \
         or name a Python that has it: cargo xtask setup --from-python PYTHON"
    );
    parse_torch(python, &String::from_utf8_lossy(&output.stdout))
}

/// Reads what [`PRINT_TORCH`] printed; a `sitecustomize` may have printed lines before it.
fn parse_torch(python: &str, printed: &str) -> Result<PathBuf> {
    let lines: Vec<_> = printed.lines().collect();
    let [.., version, folder, abi] = lines[..] else {
        bail!(
            "`{python}` imported torch but printed {printed:?} instead of its version, folder and ABI"
        );
    };
    ensure!(
        version.split('+').next() == Some(VERSION),
        "`{python}` has PyTorch {version}, but hotloop is built against {VERSION}: `{python} -m pip install \
         torch=={VERSION}`, or name another Python"
    );
    ensure!(
        abi == "True" || cfg!(target_os = "macos"),
        "the PyTorch of `{python}` ({folder}) was built with the old C++ ABI; install the official wheel: \
         `{python} -m pip install torch=={VERSION}`"
    );
    Ok(PathBuf::from(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_last_but_one_line() {
        let folder = parse_torch("py", "a greeting\n2.11.0+cu130\n/venv/torch\nTrue\n").unwrap();
        assert_eq!(folder, PathBuf::from("/venv/torch"));
    }

    #[test]
    fn another_version_is_refused_with_both_versions_named() {
        let error = parse_torch("py", "2.10.0\n/venv/torch\nTrue\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("2.10.0") && error.contains(VERSION),
            "{error}"
        );
    }

    #[test]
    fn a_version_that_only_begins_alike_is_refused() {
        assert!(parse_torch("py", "2.11.0a0\n/venv/torch\nTrue\n").is_err());
    }

    #[test]
    fn too_little_output_is_refused() {
        assert!(parse_torch("py", "2.11.0\n").is_err());
    }
}
