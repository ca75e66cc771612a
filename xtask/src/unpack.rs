//! Takes folders, libraries and licences out of wheels, as streams.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use zip::ZipArchive;

use crate::recipe::{Recipe, Wheel};

/// Unpacks what `wheel` gives into the folder `set`.
pub(crate) fn wheel(wheel: &Wheel, path: &Path, set: &Path) -> Result<()> {
    let reading = || format!("reading {}", path.display());
    let file = io::BufReader::new(File::open(path).with_context(reading)?);
    let mut archive = ZipArchive::new(file).with_context(reading)?;
    let mut libs_found = 0;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).with_context(reading)?;
        if entry.is_dir() {
            continue;
        }
        let Some(place) = place(wheel, entry.name()) else {
            continue;
        };
        libs_found += usize::from(place.starts_with("lib"));
        let target = set.join(place);
        let writing = || format!("writing {}", target.display());
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).with_context(writing)?;
        }
        let mut out = File::create(&target).with_context(writing)?;
        io::copy(&mut entry, &mut out).with_context(writing)?;
    }
    ensure!(
        libs_found == wheel.libs.len(),
        "{} holds {libs_found} of the {} libraries that are taken from it ({})",
        path.display(),
        wheel.libs.len(),
        wheel.libs.join(", "),
    );
    Ok(())
}

/// Where in the set the wheel's entry `name` belongs; none if it is not wanted.
fn place(wheel: &Wheel, name: &str) -> Option<PathBuf> {
    // A wheel is checked by hash, but nothing may ever be written outside the set.
    if !Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return None;
    }
    if let Some((prefix, folder)) = wheel.folder
        && let Some(file) = name.strip_prefix(prefix)
    {
        return Some(Path::new(folder).join(file));
    }
    if let Some(lib) = name.strip_prefix(wheel.lib_dir) {
        return wheel
            .libs
            .contains(&lib)
            .then(|| Path::new("lib").join(lib));
    }
    let (_, licence) = name.split_once(".dist-info/licenses/")?;
    Some(Path::new("licenses").join(wheel.package).join(licence))
}

/// Adds what no wheel holds: links and texts.
pub(crate) fn extras(recipe: &Recipe, set: &Path) -> Result<()> {
    let lib = set.join("lib");
    for (link, target) in recipe.links {
        std::os::unix::fs::symlink(target, lib.join(link))
            .with_context(|| format!("linking {link} in {}", lib.display()))?;
    }
    for (path, text) in recipe.texts {
        fs::write(set.join(path), text)
            .with_context(|| format!("writing {path} in {}", set.display()))?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};
    use std::io::{Cursor, Write as _};

    /// A wheel of a few bytes with everything that a real one has, and an entry that tries to escape.
    fn fake_bytes() -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let entries = [
            (
                "torch/include/torch/csrc/api/include/torch/torch.h",
                "// torch",
            ),
            ("torch/include/../../escaped.h", "// escaped"),
            ("torch/lib/libtorch_cpu.so", "cpu"),
            ("torch/lib/libc10.so", "c10"),
            ("torch/lib/libtorch_cuda.so", "cuda"),
            ("torch/lib/libshm/libshm.h", "// shm"),
            ("torch/nn/functional.py", "pass"),
            ("fake_torch-1.0.dist-info/licenses/LICENSE", "BSD"),
        ];
        for (name, text) in entries {
            // The default date is a constant, so the hash of the wheel is one too.
            zip.start_file(name, zip::write::FileOptions::default())
                .unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    /// Puts the fake wheel into `dir`, as a download would.
    pub(crate) fn fake_wheel(dir: &Path) -> Result<()> {
        fs::write(dir.join("fake_torch-1.0-py3-none-any.whl"), fake_bytes())?;
        Ok(())
    }

    /// A recipe whose set is made of the fake wheel.
    pub(crate) fn fake_recipe() -> &'static Recipe {
        let hash: String = Sha256::digest(fake_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let wheel = Wheel {
            package: "fake-torch",
            version: "1.0",
            sha256: hash.leak(),
            folder: Some(("torch/include/", "include")),
            lib_dir: "torch/lib/",
            libs: &["libtorch_cpu.so", "libc10.so"],
        };
        Box::leak(Box::new(Recipe {
            platform: "fake",
            what: "the fake torch",
            folder: "fake-torch-1.0",
            size: ["1 kB", "2 kB"],
            offline: "",
            tags: &[],
            wheels: vec![wheel].leak(),
            links: &[("libgomp.so", "libc10.so")],
            texts: &[
                ("lib/libtorch.so", "INPUT(libtorch_cpu.so)\n"),
                ("build-version", "1.0\n"),
            ],
        }))
    }

    /// The files under `dir`, as sorted relative paths.
    pub(crate) fn files(dir: &Path) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![dir.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    names.push(
                        path.strip_prefix(dir)
                            .unwrap()
                            .to_string_lossy()
                            .into_owned(),
                    );
                }
            }
        }
        names.sort();
        names
    }

    #[test]
    fn exactly_the_wanted_files_arrive() {
        let dir = tempfile::tempdir().unwrap();
        fake_wheel(dir.path()).unwrap();
        let recipe = fake_recipe();
        let set = dir.path().join("inner/set");
        wheel(
            &recipe.wheels[0],
            &dir.path().join("fake_torch-1.0-py3-none-any.whl"),
            &set,
        )
        .unwrap();
        extras(recipe, &set).unwrap();
        let names = files(&set);
        let expected = [
            "build-version",
            "include/torch/csrc/api/include/torch/torch.h",
            "lib/libc10.so",
            "lib/libgomp.so",
            "lib/libtorch.so",
            "lib/libtorch_cpu.so",
            "licenses/fake-torch/LICENSE",
        ];
        assert_eq!(names, expected);
        assert_eq!(
            fs::read_to_string(set.join("lib/libtorch_cpu.so")).unwrap(),
            "cpu"
        );
        assert_eq!(
            fs::read_to_string(set.join("lib/libgomp.so")).unwrap(),
            "c10"
        );
        assert_eq!(
            fs::read_to_string(set.join("build-version")).unwrap(),
            "1.0\n"
        );
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            2,
            "nothing escaped"
        );
    }

    #[test]
    fn a_wheel_without_an_expected_library_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fake_wheel(dir.path()).unwrap();
        let more = Wheel {
            package: "fake-torch",
            version: "1.0",
            sha256: "",
            folder: None,
            lib_dir: "torch/lib/",
            libs: &["libtorch_cpu.so", "libnew.so"],
        };
        let error = wheel(
            &more,
            &dir.path().join("fake_torch-1.0-py3-none-any.whl"),
            dir.path(),
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("1 of the 2 libraries"),
            "{error}"
        );
    }
}
