//! Downloads wheels with pip, at fixed Python version, ABI and platform, and checks them by hash.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::python;
use crate::recipe::{Recipe, Wheel};

/// Downloads all wheels of `recipe` into the existing folder `dir`; pip shows its own progress.
pub(crate) fn download(recipe: &Recipe, dir: &Path) -> Result<()> {
    let requirements = dir.join("requirements.txt");
    fs::write(&requirements, requirements_text(recipe))
        .with_context(|| format!("writing {}", requirements.display()))?;
    let mut pip = python::pip()?;
    // pip unpacks its downloads in TMPDIR first, which is often a small memory disk.
    pip.env("TMPDIR", dir).args([
        "download",
        "--no-deps",
        "--no-cache-dir",
        "--no-input",
        "--only-binary=:all:",
    ]);
    // Wheels differ by Python version; which Python is installed here must not matter.
    pip.args([
        "--python-version",
        "3.12",
        "--implementation",
        "cp",
        "--abi",
        "cp312",
        "--abi",
        "none",
    ]);
    for tag in recipe.tags {
        pip.args(["--platform", tag]);
    }
    pip.arg("--dest")
        .arg(dir)
        .arg("--requirement")
        .arg(&requirements);
    // Standard output belongs to the command that the set-up is for.
    pip.stdout(std::io::stderr());
    let status = pip.status().with_context(|| format!("running {pip:?}"))?;
    ensure!(
        status.success(),
        "pip could not download {} ({status}; what it said is above). Usual causes: no network, or a proxy that \
         pip has to be told of (HTTPS_PROXY, `pip config`); a pip older than 20.3 (`python3 -m pip install --upgrade \
         pip`); no space left (about {} are needed in {} for a moment). Then run the command again. {}",
        recipe.what,
        recipe.size[1],
        dir.display(),
        recipe.offline,
    );
    Ok(())
}

/// pip's requirements file: with hashes, so that pip chooses exactly these files, whatever other indexes offer.
fn requirements_text(recipe: &Recipe) -> String {
    let line = |w: &Wheel| format!("{}=={} --hash=sha256:{}\n", w.package, w.version, w.sha256);
    recipe.wheels.iter().map(line).collect()
}

/// The file of `wheel` in `dir`, once its contents are known to be the expected ones.
pub(crate) fn verified(wheel: &Wheel, dir: &Path) -> Result<PathBuf> {
    let prefix = wheel.file_prefix();
    let mut found = None;
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(&prefix) && name.ends_with(".whl") {
            found = Some(path);
        }
    }
    let Some(path) = found else {
        bail!(
            "pip reported success, but {} holds no {prefix}*.whl; run the command again",
            dir.display()
        );
    };
    let actual = sha256(&path)?;
    ensure!(
        actual == wheel.sha256,
        "{} has the wrong contents: its SHA-256 is {actual}, expected {}. The download is damaged, or an index or proxy \
         on the way replaces files; it was thrown away. Run the command again, and look at `pip config list` if it \
         happens twice",
        path.display(),
        wheel.sha256,
    );
    Ok(path)
}

/// SHA-256 of a file's contents in lower-case hexadecimal.
pub(crate) fn sha256(path: &Path) -> Result<String> {
    let reading = || format!("reading {}", path.display());
    let mut file = fs::File::open(path).with_context(reading)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer).with_context(reading)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: Wheel = Wheel {
        package: "some-thing",
        version: "1.0",
        // FIPS 180-2, appendix B.1
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        folder: None,
        lib_dir: "lib/",
        libs: &[],
    };

    #[test]
    fn a_wheel_with_the_right_hash_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some_thing-1.0-py3-none-any.whl");
        fs::write(&path, "abc").unwrap();
        assert_eq!(verified(&ABC, dir.path()).unwrap(), path);
    }

    #[test]
    fn a_wheel_with_a_wrong_hash_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("some_thing-1.0-py3-none-any.whl"), "abd").unwrap();
        let error = verified(&ABC, dir.path()).unwrap_err().to_string();
        assert!(error.contains("some_thing-1.0-py3-none-any.whl"), "{error}");
        assert!(error.contains(ABC.sha256), "{error}");
    }

    #[test]
    fn a_missing_wheel_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("other-1.0-py3-none-any.whl"), "abc").unwrap();
        let error = verified(&ABC, dir.path()).unwrap_err().to_string();
        assert!(error.contains("some_thing-1.0-*.whl"), "{error}");
    }

    #[test]
    fn pip_is_given_the_hash_of_every_wheel() {
        for recipe in crate::platform::PLATFORMS {
            let text = requirements_text(recipe);
            assert_eq!(text.lines().count(), recipe.wheels.len());
            for (line, wheel) in text.lines().zip(recipe.wheels) {
                assert_eq!(
                    line,
                    format!(
                        "{}=={} --hash=sha256:{}",
                        wheel.package, wheel.version, wheel.sha256
                    )
                );
            }
        }
    }
}
