//! Runs cargo as the user would, with libtorch and what features need in reach.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::link::Links;

/// The folder of the workspace.
pub(crate) fn workspace() -> Result<PathBuf> {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask …`")?;
    let parent = Path::new(&xtask)
        .parent()
        .context("xtask lies in no workspace")?;
    Ok(parent.to_owned())
}

/// `cargo COMMAND` on the crate or workspace in `dir`, linked with `links`; more arguments may follow.
pub(crate) fn cargo(command: &str, dir: &Path, links: &Links) -> Result<Command> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(program);
    // The configuration says it; a value from cargo's own `[env]` would look like a change to the next plain cargo.
    for (variable, _) in links.variables() {
        cargo.env_remove(variable);
    }
    let rpath = links.rpath_flags()?;
    for (flags, encoded) in FLAG_VARIABLES {
        let value = |name| std::env::var(name).ok();
        if let Some(joined) = with_rpath(value(flags).as_deref(), value(encoded).as_deref(), &rpath)
        {
            cargo.env(encoded, joined);
        }
    }
    cargo
        .arg(command)
        .arg("--manifest-path")
        .arg(dir.join("Cargo.toml"));
    Ok(cargo)
}

/// Runs a command and fails if it fails.
pub(crate) fn run(mut command: Command) -> Result<()> {
    eprintln!("xtask: {}", shown(&command));
    let status = command
        .status()
        .with_context(|| format!("running {}", shown(&command)))?;
    ensure!(status.success(), "`{}` failed ({status})", shown(&command));
    Ok(())
}

/// Becomes the command, so that signals and the exit status are its own; returns only if it cannot start.
pub(crate) fn become_command(mut command: Command) -> anyhow::Error {
    use std::os::unix::process::CommandExt as _;
    let error = command.exec();
    anyhow::Error::new(error).context(format!("running {}", shown(&command)))
}

fn shown(command: &Command) -> String {
    let words =
        std::iter::once("cargo".into()).chain(command.get_args().map(|arg| arg.to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}

/// Cargo's variables that replace the flags of its configuration, plain and encoded (which wins over the plain one).
const FLAG_VARIABLES: [(&str, &str); 2] = [
    ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"),
    ("RUSTDOCFLAGS", "CARGO_ENCODED_RUSTDOCFLAGS"),
];

/// Says which variables keep a plain cargo from using the rpath that is set up, and how to mend that.
pub(crate) fn warn_of_flags(links: &Links) -> Result<()> {
    for name in FLAG_VARIABLES
        .iter()
        .flat_map(|(flags, encoded)| [flags, encoded])
    {
        if std::env::var_os(name).is_some() {
            eprintln!(
                "xtask: warning: {name} is set in the environment and replaces the flags of cargo's configuration, so \
                 what a plain cargo builds will not find its libraries when it runs. Unset it, or append to it: {}",
                links.rpath_flags()?.join(" "),
            );
        }
    }
    Ok(())
}

/// The encoded form of the flags in the environment with the rpath appended; none if the environment has no flags.
fn with_rpath(plain: Option<&str>, encoded: Option<&str>, rpath: &[String]) -> Option<OsString> {
    let words: Vec<&str> = match (encoded, plain) {
        (Some(encoded), _) => encoded
            .split('\x1f')
            .filter(|word| !word.is_empty())
            .collect(),
        (None, Some(plain)) => plain.split_whitespace().collect(),
        (None, None) => return None,
    };
    let all: Vec<&str> = words
        .into_iter()
        .chain(rpath.iter().map(String::as_str))
        .collect();
    Some(all.join("\x1f").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_environment_keep_their_order_and_gain_the_rpath() {
        let rpath = ["-C".to_owned(), "link-arg=-Wl,-rpath,/my lt/lib".to_owned()];
        let joined =
            |plain, encoded| with_rpath(plain, encoded, &rpath).map(|s| s.into_string().unwrap());
        assert_eq!(joined(None, None), None);
        let ours = "-C\x1flink-arg=-Wl,-rpath,/my lt/lib";
        assert_eq!(
            joined(Some(" -D  warnings "), None).unwrap(),
            format!("-D\x1fwarnings\x1f{ours}")
        );
        assert_eq!(
            joined(Some("ignored"), Some("-g")).unwrap(),
            format!("-g\x1f{ours}")
        );
        assert_eq!(joined(Some(""), None).unwrap(), ours);
    }
}
