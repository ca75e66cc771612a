//! Cargo configuration by which a crate finds libtorch, and what its features need, when it is built and when it runs.
//!
//! `.cargo/libtorch.toml` holds this machine's paths and is not committed; `.cargo/config.toml` includes it. An rpath
//! in `rustflags` serves binaries, tests, examples and benches from any target directory, the one in `rustdocflags`
//! serves doctests.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use toml::{Table, Value};

use crate::features::{self, Feature};

/// The file with the paths, beside cargo's `config.toml`.
const FILE: &str = "libtorch.toml";
/// The variable that remembers which features are built into hotloop.
const CHOSEN: &str = "HOTLOOP_FEATURES";
const INCLUDE: &str = "include = [{ path = \"libtorch.toml\", optional = true }]\n";

/// Everything outside the workspace that it is built with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Links {
    pub(crate) libtorch: PathBuf,
    /// The optional parts that are set up, each with the folder of its files.
    pub(crate) features: Vec<(&'static Feature, PathBuf)>,
    /// Those of them that were asked for, and so are built into hotloop; tests set up all.
    pub(crate) chosen: Vec<&'static Feature>,
}

impl Links {
    /// What the workspace or crate in `dir` is linked with, if it has been set up.
    pub(crate) fn of(dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(dir.join(".cargo").join(FILE)).ok()?;
        let table: Table = text.parse().ok()?;
        let folder = |variable| Some(PathBuf::from(table.get("env")?.get(variable)?.as_str()?));
        Some(Self {
            libtorch: folder("LIBTORCH")?,
            chosen: features::ALL
                .iter()
                .copied()
                .filter(|feature| {
                    let names = folder(CHOSEN).unwrap_or_default();
                    names
                        .to_string_lossy()
                        .split(',')
                        .any(|name| name == feature.name)
                })
                .collect(),
            features: features::ALL
                .iter()
                .filter_map(|feature| Some((*feature, folder(feature.variable)?)))
                .collect(),
        })
    }

    /// The variables that builds read, with their values.
    pub(crate) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let mut all = vec![("LIBTORCH", self.libtorch.clone())];
        for (feature, folder) in &self.features {
            all.push((feature.variable, folder.clone()));
            let others = feature.others.iter();
            all.extend(others.map(|(variable, inside)| (*variable, folder.join(inside))));
        }
        all
    }

    /// The compiler flags that make a program look for its libraries where they are.
    pub(crate) fn rpath_flags(&self) -> Result<Vec<String>> {
        let loaded = self.features.iter().filter(|(f, _)| f.recipes.is_some());
        let folders = std::iter::once(&self.libtorch).chain(loaded.map(|(_, folder)| folder));
        let mut flags = Vec::new();
        for folder in folders {
            flags.push("-C".into());
            flags.push(format!("link-arg=-Wl,-rpath,{}/lib", utf8(folder)?));
        }
        Ok(flags)
    }

    /// The cargo features that hotloop is built with.
    pub(crate) fn built_in(&self) -> String {
        let names = self
            .chosen
            .iter()
            .map(|f| format!("hotloop-cli/{}", f.name));
        names.collect::<Vec<_>>().join(",")
    }

    /// The cargo features of all packages, for tests.
    pub(crate) fn all_features(&self) -> String {
        let names = self.features.iter().map(|(feature, _)| feature);
        names
            .flat_map(|f| ["hotloop-cli", f.package].map(|p| format!("{p}/{}", f.name)))
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// Writes `dir`'s `.cargo/libtorch.toml`; true if it changed. An unchanged file is left alone, as cargo would rebuild.
pub(crate) fn write(dir: &Path, links: &Links) -> Result<bool> {
    let text = file_text(links, &user_config())?;
    let folder = dir.join(".cargo");
    let path = folder.join(FILE);
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    let writing = || format!("writing {}", path.display());
    fs::create_dir_all(&folder).with_context(writing)?;
    // Cargo may be reading it; a rename shows it the old file or the new one.
    let new = folder.join(format!("{FILE}.{}", std::process::id()));
    fs::write(&new, text).with_context(writing)?;
    fs::rename(&new, &path).with_context(writing)?;
    Ok(true)
}

/// Links the crate in `dir`, which may lie outside the workspace: both files, an existing configuration kept.
pub(crate) fn link_crate(dir: &Path, links: &Links) -> Result<()> {
    ensure!(
        dir.join("Cargo.toml").is_file(),
        "{} has no Cargo.toml; name the folder of a crate or workspace",
        dir.display()
    );
    write(dir, links)?;
    let path = dir.join(".cargo/config.toml");
    let old = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    if let Some(new) = with_include(&old).with_context(|| format!("in {}", path.display()))? {
        fs::write(&path, new).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// `config` with the include added in front (a top-level key must come before every table); none if it has it.
fn with_include(config: &str) -> Result<Option<String>> {
    let table: Table = config
        .parse()
        .context("the file is not TOML; mend it first")?;
    let Some(include) = table.get("include") else {
        return Ok(Some(format!("{INCLUDE}{config}")));
    };
    let names_it =
        |value: &Value| value.as_str().or_else(|| value.get("path")?.as_str()) == Some(FILE);
    if names_it(include)
        || include
            .as_array()
            .is_some_and(|list| list.iter().any(names_it))
    {
        return Ok(None);
    }
    bail!("there is an `include` already; add {{ path = \"{FILE}\", optional = true }} to it")
}

/// Cargo's configuration in the user's home, as far as it can be read.
fn user_config() -> Table {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
        .unwrap_or_default();
    let text = ["config.toml", "config"]
        .iter()
        .find_map(|name| fs::read_to_string(home.join(name)).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn file_text(links: &Links, user: &Table) -> Result<String> {
    let flags = links.rpath_flags()?.into_iter().map(Value::String);
    let flags = Value::Array(flags.collect());
    let mut text = String::from(
        "# Written by `cargo xtask` for this machine: where libraries are. Not to be committed.\n",
    );
    for (variable, folder) in links.variables() {
        text += &format!(
            "env.{variable} = {}\n",
            Value::String(utf8(&folder)?.into())
        );
    }
    if !links.chosen.is_empty() {
        let names: Vec<_> = links.chosen.iter().map(|feature| feature.name).collect();
        text += &format!("env.{CHOSEN} = \"{}\"\n", names.join(","));
    }
    for key in ["rustflags", "rustdocflags"] {
        // Cargo takes these from one section only: a `target` section anywhere silences every `build` section.
        let targets = user.get("target").and_then(Value::as_table);
        let section =
            match targets.is_some_and(|all| all.values().any(|target| target.get(key).is_some())) {
                true => "target.'cfg(all())'",
                false => "build",
            };
        text += &format!("{section}.{key} = {flags}\n");
    }
    Ok(text)
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| {
        format!(
            "the path {} is not UTF-8, so cargo's configuration cannot name it; move it elsewhere",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(libtorch: &str) -> Links {
        Links {
            libtorch: libtorch.into(),
            features: Vec::new(),
            chosen: Vec::new(),
        }
    }

    fn flags(table: &Table, section: &[&str], key: &str) -> Option<Vec<String>> {
        let mut value = table.get(section[0])?;
        for part in &section[1..] {
            value = value.get(part)?;
        }
        Some(
            value
                .get(key)?
                .as_array()?
                .iter()
                .map(|flag| flag.as_str().unwrap().to_owned())
                .collect(),
        )
    }

    #[test]
    fn the_file_names_libtorch_for_the_build_and_the_rpath_for_programs_and_doctests() {
        let table: Table = file_text(&only("/a \"b\"/lt"), &Table::new())
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(table["env"]["LIBTORCH"].as_str(), Some("/a \"b\"/lt"));
        let expected = Some(vec![
            "-C".to_owned(),
            "link-arg=-Wl,-rpath,/a \"b\"/lt/lib".to_owned(),
        ]);
        assert_eq!(flags(&table, &["build"], "rustflags"), expected);
        assert_eq!(flags(&table, &["build"], "rustdocflags"), expected);
    }

    #[test]
    fn a_feature_adds_its_variables_and_the_rpath_of_what_it_loads() {
        let links = Links {
            features: vec![(features::MUJOCO, "/mj".into())],
            ..only("/lt")
        };
        let table: Table = file_text(&links, &Table::new()).unwrap().parse().unwrap();
        assert_eq!(table["env"]["HOTLOOP_MUJOCO"].as_str(), Some("/mj"));
        let link_dir = table["env"]["MUJOCO_DYNAMIC_LINK_DIR"].as_str();
        assert_eq!(link_dir, Some("/mj/lib"));
        let flags = flags(&table, &["build"], "rustflags").unwrap();
        assert_eq!(flags[1], "link-arg=-Wl,-rpath,/lt/lib");
        assert_eq!(flags[3], "link-arg=-Wl,-rpath,/mj/lib");
        let all = "hotloop-cli/mujoco,hotloop-mujoco/mujoco";
        assert_eq!(links.all_features(), all);
        // What only tests wanted is not built into hotloop.
        assert_eq!(links.built_in(), "");
        assert!(table["env"].get(CHOSEN).is_none());
        let links = Links {
            chosen: vec![features::MUJOCO],
            ..links
        };
        assert_eq!(links.built_in(), "hotloop-cli/mujoco");
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &links).unwrap();
        assert_eq!(Links::of(dir.path()), Some(links));
    }

    #[test]
    fn flags_of_the_users_own_for_a_target_move_ours_to_where_cargo_joins_them() {
        let user = "target.x86_64-unknown-linux-gnu.rustflags = ['-C', 'link-arg=-fuse-ld=mold']"
            .parse()
            .unwrap();
        let table: Table = file_text(&only("/lt"), &user).unwrap().parse().unwrap();
        assert!(flags(&table, &["target", "cfg(all())"], "rustflags").is_some());
        assert!(flags(&table, &["build"], "rustflags").is_none());
        assert!(flags(&table, &["build"], "rustdocflags").is_some());
    }

    #[test]
    fn what_was_written_is_read_back_and_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Links::of(dir.path()), None);
        assert!(write(dir.path(), &only("/lt")).unwrap());
        assert_eq!(Links::of(dir.path()), Some(only("/lt")));
        assert!(!write(dir.path(), &only("/lt")).unwrap());
        let more = Links {
            features: vec![(features::MUJOCO, "/mj".into())],
            ..only("/lt")
        };
        assert!(write(dir.path(), &more).unwrap());
        assert_eq!(Links::of(dir.path()), Some(more));
        assert_eq!(fs::read_dir(dir.path().join(".cargo")).unwrap().count(), 1);
    }

    #[test]
    fn linking_a_crate_keeps_its_configuration_and_is_done_once() {
        let dir = tempfile::tempdir().unwrap();
        assert!(
            link_crate(dir.path(), &only("/lt"))
                .unwrap_err()
                .to_string()
                .contains("Cargo.toml")
        );
        fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        fs::create_dir(dir.path().join(".cargo")).unwrap();
        let config = dir.path().join(".cargo/config.toml");
        fs::write(&config, "# mine\n[alias]\nb = \"build\"\n").unwrap();
        for _ in 0..2 {
            link_crate(dir.path(), &only("/lt")).unwrap();
            let table: Table = fs::read_to_string(&config).unwrap().parse().unwrap();
            assert_eq!(table["alias"]["b"].as_str(), Some("build"));
            assert_eq!(table["include"].as_array().map(Vec::len), Some(1));
        }
    }

    #[test]
    fn an_include_of_the_users_own_is_not_overwritten() {
        assert!(
            with_include("include = ['other.toml']")
                .unwrap_err()
                .to_string()
                .contains(FILE)
        );
        assert_eq!(
            with_include("include = ['other.toml', 'libtorch.toml']").unwrap(),
            None
        );
        assert!(with_include("not toml").is_err());
    }
}
