//! The set that the feature `atari` is built with: the source of the Arcade Learning Environment, and the ROMs beside it.
//!
//! Both are in the source distribution of `ale-py`. pip asks a package's build backend about it before it hands a source
//! distribution out, and this one's would have JAX installed to answer. So pip is given a backend that only answers.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use flate2::read::GzDecoder;

use crate::cache::{self, Place};
use crate::{python, wheels};

const FILE: &str = "ale_py-0.12.1.tar.gz";
const REQUIREMENT: &str = "ale-py==0.12.1 --hash=sha256:c503d574c5983e1063b451201ccb779d935919c0f6bf116fb0f4f8aa4c86d249\n";

const PLACE: &Place = &Place {
    folder: "ale-0.12.1",
    what: "the Arcade Learning Environment 0.12.1 with its ROMs",
    size: ["3 MB", "30 MB"],
};

/// What is taken from the archive, and what it is called in the set.
const TAKEN: [(&str, &str); 6] = [
    ("src/ale/common/", "src/ale/common"),
    ("src/ale/emucore/", "src/ale/emucore"),
    ("src/ale/environment/", "src/ale/environment"),
    ("src/ale/games/", "src/ale/games"),
    ("src/ale/python/roms/", "roms"),
    ("LICENSE.md", "LICENSE.md"),
];

/// The module that the package names as its build backend, cut down to what pip asks of it.
const BACKEND: [(&str, &str); 2] = [
    ("__init__.py", ""),
    (
        "build.py",
        "import os


def prepare_metadata_for_build_wheel(directory, settings=None):
    name = \"ale_py-0.12.1.dist-info\"
    os.mkdir(os.path.join(directory, name))
    with open(os.path.join(directory, name, \"METADATA\"), \"w\") as file:
        file.write(\"Metadata-Version: 2.1\\nName: ale-py\\nVersion: 0.12.1\\n\")
    return name


def build_wheel(directory, settings=None, metadata=None):
    raise NotImplementedError(\"nothing is built here\")
",
    ),
];

/// The set in the user's cache, downloaded first if it is not there.
pub(crate) fn set() -> Result<PathBuf> {
    cache::make(PLACE, &cache::folder()?, is_whole, |partial| {
        fs::create_dir_all(partial).with_context(|| format!("creating {}", partial.display()))?;
        let archive = download(partial)?;
        let set = partial.join("set");
        eprintln!("xtask: unpacking ale-py 0.12.1");
        unpack(&archive, &set)?;
        ensure!(
            is_whole(&set),
            "{FILE} holds other files than expected: no emulator or no ROMs"
        );
        Ok(set)
    })
}

fn is_whole(set: &Path) -> bool {
    TAKEN.iter().all(|(_, place)| set.join(place).exists())
}

/// Downloads the source distribution into `dir` and returns its path.
fn download(dir: &Path) -> Result<PathBuf> {
    let backend = dir.join("backend");
    let module = backend.join("scikit_build_core");
    let writing = || format!("writing to {}", dir.display());
    fs::create_dir_all(&module).with_context(writing)?;
    for (name, text) in BACKEND {
        fs::write(module.join(name), text).with_context(writing)?;
    }
    let requirements = dir.join("requirements.txt");
    fs::write(&requirements, REQUIREMENT).with_context(writing)?;
    let mut pip = python::pip()?;
    pip.env("TMPDIR", dir).env("PYTHONPATH", &backend).args([
        "download",
        "--no-deps",
        "--no-cache-dir",
        "--no-input",
        "--no-binary=:all:",
        "--no-build-isolation",
        // Which Python is installed here must not matter.
        "--python-version",
        "3.12",
    ]);
    pip.arg("--dest")
        .arg(dir)
        .arg("--requirement")
        .arg(&requirements);
    // Standard output belongs to the command that the set-up is for.
    pip.stdout(io::stderr());
    let status = pip.status().with_context(|| format!("running {pip:?}"))?;
    ensure!(
        status.success(),
        "pip could not download {} ({status}; what it said is above). Usual causes: no network, or a proxy that pip has to \
         be told of (HTTPS_PROXY, `pip config`); a pip older than 20.3. Then run the command again. On a machine without \
         network, copy the folder {} of another machine's cache",
        PLACE.what,
        PLACE.folder,
    );
    let archive = dir.join(FILE);
    let actual = wheels::sha256(&archive)?;
    ensure!(
        REQUIREMENT.trim_end().ends_with(&actual),
        "{} has the wrong contents (SHA-256 {actual}); it was thrown away. Run the command again, and look at `pip config \
         list` if it happens twice",
        archive.display(),
    );
    Ok(archive)
}

/// Unpacks what is wanted of the archive into the folder `set`.
fn unpack(archive: &Path, set: &Path) -> Result<()> {
    let reading = || format!("reading {}", archive.display());
    let file = io::BufReader::new(File::open(archive).with_context(reading)?);
    let mut entries = tar::Archive::new(GzDecoder::new(file));
    for entry in entries.entries().with_context(reading)? {
        let mut entry = entry.with_context(reading)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let Some(place) = place(&entry.path().with_context(reading)?) else {
            continue;
        };
        let target = set.join(place);
        let writing = || format!("writing {}", target.display());
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).with_context(writing)?;
        }
        let mut out = File::create(&target).with_context(writing)?;
        io::copy(&mut entry, &mut out).with_context(writing)?;
    }
    Ok(())
}

/// Where in the set the archive's file `path` belongs; none if it is not wanted.
fn place(path: &Path) -> Option<PathBuf> {
    // An archive is checked by hash, but nothing may ever be written outside the set.
    if !path
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return None;
    }
    // All lies in one folder, named after the version.
    let inside: PathBuf = path.components().skip(1).collect();
    TAKEN.iter().find_map(|(from, to)| {
        let rest = inside.strip_prefix(from).ok()?;
        Some(match rest.as_os_str().is_empty() {
            true => PathBuf::from(to),
            false => Path::new(to).join(rest),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulator_the_roms_and_the_licence_are_taken_and_nothing_else() {
        let of = |path: &str| place(Path::new(path)).map(|p| p.display().to_string());
        let is = |path: &str| Some(path.to_owned());
        assert_eq!(
            of("ale_py-0.12.1/src/ale/emucore/TIA.cxx"),
            is("src/ale/emucore/TIA.cxx")
        );
        assert_eq!(
            of("ale_py-0.12.1/src/ale/python/roms/pong.bin"),
            is("roms/pong.bin")
        );
        assert_eq!(of("ale_py-0.12.1/LICENSE.md"), is("LICENSE.md"));
        assert_eq!(of("ale_py-0.12.1/src/ale/python/env.py"), None);
        assert_eq!(of("ale_py-0.12.1/docs/LICENSE.md"), None);
        assert_eq!(of("ale_py-0.12.1/src/ale/emucore/../../../../x"), None);
        assert_eq!(of("/src/ale/emucore/x"), None);
    }

    #[test]
    fn an_archive_is_unpacked_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar.gz");
        let gzip = flate2::write::GzEncoder::new(
            File::create(&path).unwrap(),
            flate2::Compression::fast(),
        );
        let mut archive = tar::Builder::new(gzip);
        let files = [
            "a/LICENSE.md",
            "a/setup.py",
            "a/src/ale/common/x.cpp",
            "a/src/ale/emucore/x.cxx",
            "a/src/ale/environment/x.cpp",
            "a/src/ale/games/supported/x.cpp",
        ];
        for name in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(name.len() as u64);
            header.set_cksum();
            archive
                .append_data(&mut header, name, name.as_bytes())
                .unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap();
        let set = dir.path().join("set");
        unpack(&path, &set).unwrap();
        let text = fs::read_to_string(set.join("src/ale/games/supported/x.cpp")).unwrap();
        assert_eq!(text, "a/src/ale/games/supported/x.cpp");
        assert_eq!(fs::read_dir(&set).unwrap().count(), 2);
        assert!(!is_whole(&set), "there are no ROMs");
    }
}
