//! `new`: writes a crate with an environment of the user's own, a program with this whole command line,
//! and a short example that trains. The files are those of `examples/custom-env`.

use crate::args::NewArgs;
use crate::exit::Failure;
use crate::output;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A template: its place in the crate and its text.
const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        include_str!("../../../../examples/custom-env/Cargo.toml"),
    ),
    (
        "src/lib.rs",
        include_str!("../../../../examples/custom-env/src/lib.rs"),
    ),
    (
        "src/main.rs",
        include_str!("../../../../examples/custom-env/src/main.rs"),
    ),
    (
        "examples/train.rs",
        include_str!("../../../../examples/custom-env/examples/train.rs"),
    ),
    (
        ".gitignore",
        include_str!("../../../../examples/custom-env/.gitignore"),
    ),
];

/// How the templates name their crate, and hotloop's crates.
const TEMPLATE_NAME: &str = "custom-env";
const TEMPLATE_CRATES: &str = "../../crates/";

/// Cargo reads libtorch's place from here, as `cargo xtask link` writes it.
const CARGO_CONFIG: &str = "include = [{ path = \"libtorch.toml\", optional = true }]\n";

/// Names that cannot be a crate beside hotloop, or that Rust keeps for itself.
const TAKEN: &[&str] = &[
    "alloc",
    "core",
    "hotloop",
    "hotloop-cli",
    "hotloop_cli",
    "proc_macro",
    "std",
    "test",
    "as",
    "async",
    "await",
    "break",
    "const",
    "continue",
    "crate",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "struct",
    "super",
    "trait",
    "true",
    "type",
    "unsafe",
    "use",
    "where",
    "while",
];

pub(crate) fn new(args: &NewArgs) -> Result<(), Failure> {
    let libtorch = libtorch();
    write_crate(&args.path, args.hotloop.as_deref(), libtorch.as_deref())
        .map_err(Failure::Input)?;
    let place = args.path.display();
    let link = match libtorch {
        Some(_) => String::new(),
        None => format!(
            "    (in the hotloop checkout) cargo xtask link {place}   # says where libtorch is\n"
        ),
    };
    output::put(&format!(
        "wrote {place}; next:\n{link}    cd {place}\n    \
         cargo run --release -- train GridWorld-v0   # the whole command line, for your environment\n    \
         cargo run --release --example train         # training from your own code\n"
    ))
}

/// Writes the crate to `path`, which must be new or empty.
fn write_crate(path: &Path, checkout: Option<&Path>, libtorch: Option<&str>) -> Result<()> {
    let name = crate_name(path)?;
    let checkout = checkout_of_hotloop(checkout)?;
    let exists = path.exists();
    ensure!(
        !exists || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()),
        "{} exists and is not an empty directory; choose another name",
        path.display()
    );
    for (file, text) in FILES {
        write(&path.join(file), &filled(text, name, &checkout)?)?;
    }
    write(&path.join(".cargo/config.toml"), CARGO_CONFIG)?;
    if let Some(libtorch) = libtorch {
        write(&path.join(".cargo/libtorch.toml"), &link(libtorch)?)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The last part of the path, if a crate can have that name.
fn crate_name(path: &Path) -> Result<&str> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let holds = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    ensure!(
        starts && holds,
        "{:?} cannot be the name of a crate: a letter first, then letters, digits, - and _, \
         as in my-env",
        path.display().to_string()
    );
    ensure!(
        !TAKEN.contains(&name),
        "{name:?} cannot be the name of a crate here: Rust or hotloop uses it; choose another, \
         as in my-{name}"
    );
    Ok(name)
}

/// The checkout with hotloop's crates: the given one, or that which this program was built from.
fn checkout_of_hotloop(given: Option<&Path>) -> Result<PathBuf> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checkout = given.unwrap_or(&built_from);
    if !checkout.join("crates/hotloop/Cargo.toml").is_file() {
        bail!(
            "{} is no checkout of hotloop (crates/hotloop/Cargo.toml is looked for); \
             name one with --hotloop DIR",
            checkout.display()
        );
    }
    fs::canonicalize(checkout).with_context(|| format!("cannot find {}", checkout.display()))
}

/// A template with the crate's name and the place of hotloop put in.
fn filled(text: &str, name: &str, checkout: &Path) -> Result<String> {
    let crates = checkout.join("crates");
    let crates = crates
        .to_str()
        .filter(|path| !path.contains(['"', '\\', '\n']))
        .with_context(|| {
            format!("the path {crates:?} cannot be written to a Cargo.toml; move hotloop elsewhere")
        })?;
    Ok(text
        .replace(TEMPLATE_CRATES, &format!("{crates}/"))
        .replace(TEMPLATE_NAME, name)
        .replace(&TEMPLATE_NAME.replace('-', "_"), &name.replace('-', "_")))
}

/// libtorch's folder: what this program was built with, else what the environment names.
fn libtorch() -> Option<String> {
    let built_with = option_env!("LIBTORCH").map(String::from);
    built_with
        .into_iter()
        .chain(std::env::var("LIBTORCH").ok())
        .find(|folder| Path::new(folder).join("lib").is_dir())
}

/// `.cargo/libtorch.toml`: libtorch for the build, and for programs and doctests when they run.
fn link(libtorch: &str) -> Result<String> {
    let flags = Value::from(vec![
        "-C".to_string(),
        format!("link-arg=-Wl,-rpath,{libtorch}/lib"),
    ]);
    let section =
        |key: &str, value: Value| Value::Table(Table::from_iter([(key.to_string(), value)]));
    let mut build = Table::new();
    build.insert("rustflags".to_string(), flags.clone());
    build.insert("rustdocflags".to_string(), flags);
    let table = Table::from_iter([
        ("env".to_string(), section("LIBTORCH", libtorch.into())),
        ("build".to_string(), Value::Table(build)),
    ]);
    let head = "# Where libtorch is on this machine. Not to be committed.\n";
    Ok(format!("{head}{}", toml::to_string(&table)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_is_whole_and_speaks_of_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/my-env");
        write_crate(&path, None, Some("/lt")).unwrap();
        let manifest: Table = fs::read_to_string(path.join("Cargo.toml"))
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some("my-env"));
        // A folder above may be a workspace that knows nothing of it.
        assert!(manifest.contains_key("workspace"));
        for dependency in ["hotloop", "hotloop-cli"] {
            let place = manifest["dependencies"][dependency]["path"]
                .as_str()
                .unwrap();
            assert!(Path::new(place).is_absolute());
            assert!(Path::new(place).join("Cargo.toml").is_file(), "{place}");
        }
        let main = fs::read_to_string(path.join("src/main.rs")).unwrap();
        assert!(main.contains("my_env::"), "{main}");
        for (file, _) in FILES {
            let text = fs::read_to_string(path.join(file)).unwrap();
            assert!(!text.contains("custom"), "{file}: {text}");
        }
        let link: Table = fs::read_to_string(path.join(".cargo/libtorch.toml"))
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(link["env"]["LIBTORCH"].as_str(), Some("/lt"));
        for key in ["rustflags", "rustdocflags"] {
            assert_eq!(
                link["build"][key][1].as_str(),
                Some("link-arg=-Wl,-rpath,/lt/lib")
            );
        }
        let ignored = fs::read_to_string(path.join(".gitignore")).unwrap();
        assert!(ignored.contains("/.cargo/libtorch.toml"));
    }

    #[test]
    fn a_directory_with_something_in_it_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("kept"), "kept").unwrap();
        let error = write_crate(&path, None, None).unwrap_err().to_string();
        assert!(error.contains("not an empty directory"), "{error}");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
        // An empty one is taken.
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        write_crate(&empty, None, None).unwrap();
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in [
            "", "1st", "my env", "ähm", "-x", "..", "hotloop", "fn", "std",
        ] {
            let error = write_crate(Path::new(name), None, None).unwrap_err();
            assert!(
                error.to_string().contains("cannot be the name"),
                "{name}: {error}"
            );
        }
    }

    #[test]
    fn a_place_without_hotloop_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = write_crate(&dir.path().join("a"), Some(dir.path()), None).unwrap_err();
        assert!(error.to_string().contains("--hotloop DIR"), "{error}");
    }

    #[test]
    fn the_training_example_is_short() {
        let (_, text) = FILES
            .iter()
            .find(|(file, _)| *file == "examples/train.rs")
            .unwrap();
        assert!(text.lines().count() < 40);
    }
}
