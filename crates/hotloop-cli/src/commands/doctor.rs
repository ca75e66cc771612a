//! `doctor`: looks at this machine and this build, and says what to do about problems.

use crate::exit::Failure;
use crate::output;
use hotloop::prelude::Registry;
use hotloop::system;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

/// One thing looked at: what it is and what was found, or what is wrong and what to do.
struct Finding {
    what: &'static str,
    result: Result<String, String>,
}

pub(crate) fn doctor(registry: &Registry) -> Result<(), Failure> {
    let findings = [
        ("hotloop", Ok(version())),
        ("libtorch", libtorch()),
        ("set-up", set_up()),
        ("processor", Ok(processor())),
        ("threads", threads()),
        ("gpu", Ok(gpu())),
        ("maths", maths(env::var("OMP_NUM_THREADS").ok().as_deref())),
        ("runs", runs(Path::new("runs"))),
        ("environments", environments(registry)),
    ]
    .map(|(what, result)| Finding { what, result });
    output::put(&report(&findings))?;
    if findings.iter().any(|finding| finding.result.is_err()) {
        return Err(Failure::Found);
    }
    Ok(())
}

fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { what, result } in findings {
        let (state, found) = match result {
            Ok(found) => ("ok", found),
            Err(problem) => ("problem", problem),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{state:<8} {what:<13} {found}");
    }
    text
}

fn version() -> String {
    let profile = if cfg!(debug_assertions) {
        "a debug build, which is slow; use --release to train"
    } else {
        "a release build"
    };
    format!("{}, {profile}", env!("CARGO_PKG_VERSION"))
}

fn libtorch() -> Result<String, String> {
    let found = system::libtorch();
    match found.folder {
        Some(folder) => Ok(format!("{} in {}", found.version, folder.display())),
        None => Ok(format!(
            "{} (this system does not tell where)",
            found.version
        )),
    }
}

/// Where `cargo xtask` keeps the libtorch that it downloads.
fn set_up() -> Result<String, String> {
    let Some(folder) = cache() else {
        return Err(
            "neither XDG_CACHE_HOME nor HOME is set, so downloads have no place; set one"
                .to_string(),
        );
    };
    if folder.is_dir() {
        Ok(format!("downloads are kept in {}", folder.display()))
    } else {
        Ok(format!(
            "nothing downloaded; would be kept in {}",
            folder.display()
        ))
    }
}

fn cache() -> Option<PathBuf> {
    let set = |name: &str| {
        env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let home = || env::home_dir();
    let base = set("XDG_CACHE_HOME").or_else(|| {
        let below = if cfg!(target_os = "macos") {
            "Library/Caches"
        } else {
            ".cache"
        };
        home().map(|home| home.join(below))
    })?;
    Some(base.join("hotloop"))
}

fn processor() -> String {
    format!(
        "{} {}, kernels for {}",
        env::consts::OS,
        env::consts::ARCH,
        system::instruction_set()
    )
}

fn threads() -> Result<String, String> {
    match thread::available_parallelism() {
        Ok(n) => Ok(format!("{n} may be used by this process")),
        Err(error) => Err(format!(
            "cannot tell how many may be used ({error}); say so with --threads"
        )),
    }
}

/// No GPU is no problem: the processor serves.
fn gpu() -> String {
    match system::gpus() {
        Ok(names) => names.join(", "),
        Err(reason) => format!("none: {reason}"),
    }
}

fn maths(omp_num_threads: Option<&str>) -> Result<String, String> {
    match omp_num_threads {
        None | Some("1") => Ok("one libtorch thread for each of hotloop's".to_string()),
        Some(n) => Err(format!(
            "OMP_NUM_THREADS={n} gives each of hotloop's threads a pool of its own, and they get in \
             each other's way; unset it"
        )),
    }
}

/// Whether runs can be written beneath `dir`, leaving nothing behind.
fn runs(dir: &Path) -> Result<String, String> {
    let existing = if dir.is_dir() { dir } else { Path::new(".") };
    let probe = existing.join(format!(".hotloop-doctor.{}", std::process::id()));
    let tried = fs::write(&probe, b"hotloop").and_then(|()| fs::remove_file(&probe));
    let here = env::current_dir().unwrap_or_default();
    match tried {
        Ok(()) => Ok(format!("can be written to {}", here.join(dir).display())),
        Err(error) => Err(format!(
            "{} cannot be written: {error}; go to another directory, or use --run-dir",
            here.join(dir).display()
        )),
    }
}

fn environments(registry: &Registry) -> Result<String, String> {
    for spec in registry.iter() {
        let spaces = spec
            .options(&std::collections::BTreeMap::new())
            .and_then(|options| spec.spaces(&options));
        if let Err(error) = spaces {
            return Err(format!("{} cannot be made: {error}", spec.id()));
        }
    }
    Ok(format!("{} (see `envs`)", registry.iter().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_say_what_to_do() {
        assert!(maths(Some("8")).unwrap_err().contains("unset it"));
        assert!(maths(None).is_ok() && maths(Some("1")).is_ok());
        let dir = std::env::temp_dir();
        assert!(runs(&dir).is_ok());
        let text = report(&[
            Finding {
                what: "a",
                result: Ok("fine".into()),
            },
            Finding {
                what: "b",
                result: Err("broken; mend it".into()),
            },
        ]);
        assert_eq!(
            text,
            "ok       a             fine\nproblem  b             broken; mend it\n"
        );
    }
}
