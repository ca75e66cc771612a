//! Makes a folder with the program and its libraries that runs on another machine without Rust.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo::{cargo, run};
use crate::check::target_directory;
use crate::libtorch;
use crate::link::Links;
use crate::platform::PLATFORMS;
use crate::recipe::{self, Recipe};

/// Builds in release mode and fills `out` with `bin/`, `lib/` and `licenses/`.
pub(crate) fn dist(workspace: &Path, links: &Links, out: &Path) -> Result<()> {
    let torch = recipe::current(PLATFORMS)?;
    let libtorch = &*links.libtorch;
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
    let mut sets = vec![(torch, libtorch)];
    for (feature, folder) in &links.features {
        let Some(recipes) = feature.recipes else {
            // It may be passed on under its own licence only, and needs files of this machine.
            ensure!(
                !links.chosen.contains(feature),
                "a program with `{}` cannot be passed on in this way (see the crate {}): take \"{0}\" out of \
                 HOTLOOP_FEATURES in .cargo/libtorch.toml and run the command again",
                feature.name,
                feature.package
            );
            continue;
        };
        if links.chosen.contains(feature) {
            sets.push((recipe::current(recipes)?, folder));
        }
    }
    let program = build(workspace, links)?;
    assemble(&sets, &program, workspace, out)?;
    println!("{}", out.join("bin/hotloop").display());
    Ok(())
}

/// Fills `out` with the program, the libraries that it needs and the licences of both.
fn assemble(sets: &[(&Recipe, &Path)], program: &Path, workspace: &Path, out: &Path) -> Result<()> {
    for part in ["bin", "lib", "licenses"] {
        let folder = out.join(part);
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("removing {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    copy(program, &out.join("bin/hotloop"))?;
    for (recipe, set) in sets {
        for lib in recipe.runtime_libs() {
            copy(&set.join("lib").join(lib), &out.join("lib").join(lib))?;
        }
        for wheel in recipe.wheels {
            let from = set.join("licenses").join(wheel.package);
            let to = out.join("licenses").join(wheel.package);
            fs::create_dir_all(&to).with_context(|| format!("creating {}", to.display()))?;
            for entry in
                fs::read_dir(&from).with_context(|| format!("reading {}", from.display()))?
            {
                let entry = entry?;
                copy(&entry.path(), &to.join(entry.file_name()))?;
            }
        }
    }
    let own = out.join("licenses/hotloop");
    fs::create_dir_all(&own).with_context(|| format!("creating {}", own.display()))?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        copy(&workspace.join(file), &own.join(file))?;
    }
    Ok(())
}

/// Builds the program so that it looks for its libraries in the `lib/` beside its own folder, and returns where it is.
fn build(workspace: &Path, links: &Links) -> Result<PathBuf> {
    let origin = if cfg!(target_os = "macos") {
        "@executable_path"
    } else {
        "$ORIGIN"
    };
    // `cargo rustc` gives the flag to the program alone: as a RUSTFLAG it would rebuild everything.
    let mut build = cargo("rustc", workspace, links)?;
    build.args(["--release", "--package", "hotloop-cli", "--bin", "hotloop"]);
    let features = links.built_in();
    build.args(["--features", &features, "--", "-C"]);
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
    use crate::unpack::tests::{fake_recipe, fake_wheel};

    #[test]
    fn the_folder_holds_the_program_what_it_loads_and_all_licences() {
        let dir = tempfile::tempdir().unwrap();
        let recipe = fake_recipe();
        let libtorch = cache::install(recipe, &dir.path().join("cache"), fake_wheel).unwrap();
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "program"] {
            fs::write(dir.path().join(file), file).unwrap();
        }
        let out = dir.path().join("out");
        let program = dir.path().join("program");
        let make = || assemble(&[(recipe, &libtorch)], &program, dir.path(), &out).unwrap();
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
