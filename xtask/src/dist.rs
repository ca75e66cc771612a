//! Makes a folder with the program and libtorch that runs on another machine without Rust.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo::{cargo, run};
use crate::check::target_directory;
use crate::libtorch;
use crate::platform::Platform;

/// Builds in release mode and fills `out` with `bin/`, `lib/` and `licenses/`.
pub(crate) fn dist(workspace: &Path, libtorch: &Path, out: &Path) -> Result<()> {
    let platform = Platform::current()?;
    ensure!(
        libtorch.join("licenses").is_dir() && libtorch::check(libtorch).is_ok(),
        "{} is not the CPU set that xtask makes, and only that one is small and free enough to be passed on: run \
         `cargo xtask setup --cpu` first",
        libtorch.display(),
    );
    let foreign = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    if foreign && !out.join("bin/hotloop").is_file() {
        bail!(
            "{} exists and was not made by this command; choose another --out",
            out.display()
        );
    }
    let program = build(workspace, libtorch)?;
    assemble(platform, &program, libtorch, workspace, out)?;
    println!("{}", out.join("bin/hotloop").display());
    Ok(())
}

/// Fills `out` with the program, the libraries that it needs and the licences of both.
fn assemble(
    platform: &Platform,
    program: &Path,
    libtorch: &Path,
    workspace: &Path,
    out: &Path,
) -> Result<()> {
    for part in ["bin", "lib", "licenses"] {
        let folder = out.join(part);
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("removing {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    copy(program, &out.join("bin/hotloop"))?;
    for lib in platform.runtime_libs() {
        copy(&libtorch.join("lib").join(lib), &out.join("lib").join(lib))?;
    }
    for wheel in platform.wheels {
        let (from, to) = (
            libtorch.join("licenses").join(wheel.package),
            out.join("licenses").join(wheel.package),
        );
        fs::create_dir_all(&to).with_context(|| format!("creating {}", to.display()))?;
        for entry in fs::read_dir(&from).with_context(|| format!("reading {}", from.display()))? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    let own = out.join("licenses/hotloop");
    fs::create_dir_all(&own).with_context(|| format!("creating {}", own.display()))?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        copy(&workspace.join(file), &own.join(file))?;
    }
    Ok(())
}

/// Builds the program so that it looks for libtorch in the `lib/` beside its own folder, and returns where it is.
fn build(workspace: &Path, libtorch: &Path) -> Result<PathBuf> {
    let origin = if cfg!(target_os = "macos") {
        "@executable_path"
    } else {
        "$ORIGIN"
    };
    // `cargo rustc` gives the flag to the program alone: as a RUSTFLAG it would rebuild everything.
    let mut build = cargo("rustc", workspace, libtorch)?;
    build.args([
        "--release",
        "--package",
        "hotloop-cli",
        "--bin",
        "hotloop",
        "--",
        "-C",
    ]);
    build.arg(format!("link-arg=-Wl,-rpath,{origin}/../lib"));
    run(build)?;
    Ok(target_directory()?.join("release/hotloop"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache;
    use crate::unpack::tests::{fake_platform, fake_wheel};

    #[test]
    fn the_folder_holds_the_program_what_it_loads_and_all_licences() {
        let dir = tempfile::tempdir().unwrap();
        let platform = fake_platform();
        let libtorch = cache::install(platform, &dir.path().join("cache"), fake_wheel).unwrap();
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "program"] {
            fs::write(dir.path().join(file), file).unwrap();
        }
        let out = dir.path().join("out");
        let program = dir.path().join("program");
        let make = || assemble(platform, &program, &libtorch, dir.path(), &out).unwrap();
        make();
        fs::write(out.join("lib/libof_an_older_version.so"), "").unwrap();
        make();
        let expected = [
            "bin/hotloop",
            "lib/libc10.so",
            "lib/libtorch_cpu.so",
            "licenses/fake-torch/LICENSE",
            "licenses/hotloop/LICENSE-APACHE",
            "licenses/hotloop/LICENSE-MIT",
        ];
        assert_eq!(crate::unpack::tests::files(&out), expected);
        assert_eq!(
            fs::read_to_string(out.join("bin/hotloop")).unwrap(),
            "program"
        );
    }
}
