//! Which Python runs the workers.

use hotloop_env::EnvError;
use std::env;
use std::path::{Path, PathBuf};

/// The interpreter that was asked for; else `$HOTLOOP_PYTHON`, the active virtual environment's, that of `.venv`
/// in this folder or one above, or `python3`.
pub(crate) fn find(asked: Option<&str>) -> Result<PathBuf, EnvError> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(asked) = asked {
        return named(Path::new(asked), "env.python");
    }
    if let Some(python) = variable("HOTLOOP_PYTHON") {
        return named(Path::new(&python), "HOTLOOP_PYTHON");
    }
    if let Some(active) = variable("VIRTUAL_ENV") {
        return named(&Path::new(&active).join("bin/python"), "VIRTUAL_ENV");
    }
    let here = env::current_dir().unwrap_or_default();
    let mut above = here.ancestors().map(|dir| dir.join(".venv/bin/python"));
    if let Some(python) = above.find(|python| python.is_file()) {
        return Ok(python);
    }
    on_path(Path::new("python3")).ok_or_else(|| {
        EnvError::new(
            "no Python found: there is no python3 on the PATH and no .venv here; install Python 3.9 or newer with \
             Gymnasium (in hotloop's workspace: cargo xtask python), or name an interpreter with env.python",
        )
    })
}

/// The interpreter that somebody named, if it is there.
fn named(python: &Path, by: &str) -> Result<PathBuf, EnvError> {
    let found = if python.components().count() > 1 {
        Some(python.to_path_buf()).filter(|path| path.is_file())
    } else {
        on_path(python)
    };
    found.ok_or_else(|| {
        EnvError::new(format!(
            "there is no Python interpreter {} (from {by}); name one that has Gymnasium",
            python.display()
        ))
    })
}

fn on_path(program: &Path) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_that_is_not_there_is_named_with_who_asked_for_it() {
        for asked in ["/no/such/python", "no-such-python"] {
            let error = find(Some(asked)).unwrap_err().to_string();
            assert!(
                error.contains(asked) && error.contains("env.python"),
                "{error}"
            );
        }
        assert!(find(Some("sh")).unwrap().is_absolute());
    }
}
