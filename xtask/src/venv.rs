//! The `.venv` of the workspace: a Python with Gymnasium and what the tests compare with, at fixed versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// What is installed: Gymnasium, and the families of environments that tests step beside it.
const REQUIREMENTS: &str = "\
ale-py==0.12.1
Box2D==2.3.10
cloudpickle==3.1.3
Farama-Notifications==0.0.6
gymnasium==1.4.0
imageio==2.38.1
mujoco==3.17.0
numpy==2.4.6
opencv-python-headless==5.0.0.93
packaging==26.4
pygame-ce==2.5.8
typing_extensions==4.16.0
";

/// Written when everything is installed, with what was.
const MARK: &str = "hotloop-requirements.txt";

/// Makes the workspace's `.venv`, unless it is there with all of this, and returns its interpreter.
pub(crate) fn set_up(workspace: &Path) -> Result<PathBuf> {
    let folder = workspace.join(".venv");
    let python = folder.join("bin/python");
    let mark = folder.join(MARK);
    if python.is_file() && fs::read_to_string(&mark).is_ok_and(|text| text == REQUIREMENTS) {
        return Ok(python);
    }
    eprintln!(
        "xtask: installing Gymnasium and its environments into {} (about 450 MB)",
        folder.display()
    );
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(&folder);
    run(
        make,
        "Python 3.11 to 3.13 with its venv module is needed (Debian, Ubuntu: apt install python3-venv)",
    )?;
    let list = folder.join("requirements.txt");
    fs::write(&list, REQUIREMENTS).with_context(|| format!("writing {}", list.display()))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--no-input", "--quiet"])
        .args(["--disable-pip-version-check", "--requirement"])
        .arg(&list);
    run(
        pip,
        "usual causes: no network, a proxy that pip has to be told of, or a Python without wheels of these versions \
         (3.11 to 3.13 have them)",
    )?;
    fs::rename(&list, &mark).with_context(|| format!("writing {}", mark.display()))?;
    Ok(python)
}

fn run(mut command: Command, hint: &str) -> Result<()> {
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    let status = command
        .status()
        .with_context(|| format!("`{command:?}` cannot be run; {hint}"))?;
    ensure!(status.success(), "`{command:?}` failed ({status}); {hint}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_fixed() {
        for line in REQUIREMENTS.lines() {
            let (package, version) = line.split_once("==").unwrap();
            assert!(!package.is_empty() && version.contains('.'), "{line}");
        }
    }

    #[test]
    fn what_is_there_whole_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let python = dir.path().join(".venv/bin/python");
        fs::create_dir_all(python.parent().unwrap()).unwrap();
        fs::write(&python, "").unwrap();
        fs::write(dir.path().join(".venv").join(MARK), REQUIREMENTS).unwrap();
        assert_eq!(set_up(dir.path()).unwrap(), python);
    }
}
