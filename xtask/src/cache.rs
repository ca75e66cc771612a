//! The CPU libtorch in the user's cache folder: made once, whole or not at all, shared by all clones.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, bail};

use crate::platform::{Platform, VERSION};
use crate::{unpack, wheels};

/// hotloop's folder in the user's cache: `$XDG_CACHE_HOME`, else `~/Library/Caches` (macOS) or `~/.cache`.
pub(crate) fn folder() -> Result<PathBuf> {
    folder_from(
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from),
        std::env::home_dir(),
    )
}

fn folder_from(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf> {
    // The XDG base directory specification: relative paths are to be ignored.
    if let Some(xdg) = xdg.filter(|path| path.is_absolute()) {
        return Ok(xdg.join("hotloop"));
    }
    let Some(home) = home.filter(|path| path.is_absolute()) else {
        bail!(
            "no place for libtorch: neither XDG_CACHE_HOME nor HOME is an absolute path; set one of them"
        );
    };
    let caches = if cfg!(target_os = "macos") {
        "Library/Caches"
    } else {
        ".cache"
    };
    Ok(home.join(caches).join("hotloop"))
}

/// The CPU set for `platform` in `cache`, downloaded first if it is not there.
pub(crate) fn cpu_set(platform: &Platform, cache: &Path) -> Result<PathBuf> {
    install(platform, cache, |dir| wheels::download(platform, dir))
}

/// As [`cpu_set`], with the download left to `fetch`, which puts the wheels into the folder that it is given.
pub(crate) fn install(
    platform: &Platform,
    cache: &Path,
    fetch: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let name = format!("libtorch-{VERSION}-cpu-{}", platform.name);
    let set = cache.join(&name);
    if is_whole(platform, &set) {
        return Ok(set);
    }
    fs::create_dir_all(cache).with_context(|| {
        format!(
            "{} cannot be created; set XDG_CACHE_HOME to a folder that can be written to",
            cache.display()
        )
    })?;
    let _lock = lock(&cache.join("setup.lock"))?;
    // Whoever held the lock may have made it.
    if is_whole(platform, &set) {
        return Ok(set);
    }
    eprintln!(
        "xtask: downloading libtorch {VERSION} for the CPU (once; {} keeps about 500 MB)",
        set.display()
    );
    // Nobody else writes here while the lock is held: what is left is from a set-up that was cut short.
    let partial = cache.join(name + ".partial");
    clear(&partial)?;
    clear(&set)?;
    let made = fill(platform, &partial, fetch).and_then(|whole| {
        fs::rename(&whole, &set)
            .with_context(|| format!("moving {} to {}", whole.display(), set.display()))
    });
    let cleared = clear(&partial);
    made.map_err(explain_full_disk)?;
    cleared?;
    Ok(set)
}

/// Makes the set inside the new folder `partial` and returns where.
fn fill(
    platform: &Platform,
    partial: &Path,
    fetch: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let downloads = partial.join("wheels");
    fs::create_dir_all(&downloads).with_context(|| format!("creating {}", downloads.display()))?;
    fetch(&downloads)?;
    let set = partial.join("libtorch");
    for wheel in platform.wheels {
        let path = wheels::verified(wheel, &downloads)?;
        eprintln!("xtask: unpacking {} {}", wheel.package, wheel.version);
        unpack::wheel(wheel, &path, &set)?;
    }
    unpack::extras(platform, &set)?;
    Ok(set)
}

fn is_whole(platform: &Platform, set: &Path) -> bool {
    set.join("build-version").is_file()
        && platform
            .lib_files()
            .all(|file| set.join("lib").join(file).is_file())
}

/// Waits until no other set-up works in this cache; the lock ends with the returned file.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            eprintln!(
                "xtask: another set-up is at work (it holds {}); waiting",
                path.display()
            );
        }
        Err(TryLockError::Error(error)) => {
            return Err(Error::new(error).context(format!("locking {}", path.display())));
        }
    }
    file.lock()
        .with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

/// Removes a folder that may not be there.
fn clear(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::new(error).context(format!("removing {}", path.display())))
        }
        _ => Ok(()),
    }
}

fn explain_full_disk(error: Error) -> Error {
    let full = error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|io| io.kind() == io::ErrorKind::StorageFull)
    });
    if full {
        error.context(
            "the disk is full: free about 1.2 GB there (500 MB are kept), or set XDG_CACHE_HOME to a folder on \
             another disk",
        )
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unpack::tests::{fake_platform, fake_wheel};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_cache_is_where_xdg_says_if_that_is_absolute() {
        let home = || Some(PathBuf::from("/home/me"));
        assert_eq!(
            folder_from(Some("/c".into()), home()).unwrap(),
            Path::new("/c/hotloop")
        );
        assert!(
            folder_from(Some("c".into()), home())
                .unwrap()
                .starts_with("/home/me")
        );
        assert!(folder_from(None, home()).unwrap().ends_with("hotloop"));
        assert!(
            folder_from(None, None)
                .unwrap_err()
                .to_string()
                .contains("XDG_CACHE_HOME")
        );
    }

    #[test]
    fn a_set_is_made_once_and_leaves_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        let platform = fake_platform();
        let set = install(platform, cache.path(), fake_wheel).unwrap();
        assert!(is_whole(platform, &set));
        install(platform, cache.path(), |_| panic!("it is there already")).unwrap();
        let mut names: Vec<_> = fs::read_dir(cache.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, [set.file_name().unwrap(), "setup.lock".as_ref()]);
    }

    #[test]
    fn a_failed_download_leaves_no_set_and_the_next_one_succeeds() {
        let cache = tempfile::tempdir().unwrap();
        let platform = fake_platform();
        let error = install(platform, cache.path(), |dir| {
            fs::write(dir.join("half"), "x").unwrap();
            bail!("no network")
        });
        assert_eq!(error.unwrap_err().to_string(), "no network");
        assert_eq!(
            fs::read_dir(cache.path()).unwrap().count(),
            1,
            "only the lock is left"
        );
        install(platform, cache.path(), fake_wheel).unwrap();
    }

    #[test]
    fn a_wheel_with_a_wrong_hash_makes_no_set() {
        let cache = tempfile::tempdir().unwrap();
        let error = install(fake_platform(), cache.path(), |dir| {
            fs::write(dir.join("fake_torch-1.0-py3-none-any.whl"), "not it").unwrap();
            Ok(())
        });
        assert!(error.unwrap_err().to_string().contains("SHA-256"));
        assert_eq!(
            fs::read_dir(cache.path()).unwrap().count(),
            1,
            "only the lock is left"
        );
    }

    #[test]
    fn a_set_with_a_missing_file_and_the_rest_of_a_killed_one_are_made_anew() {
        let cache = tempfile::tempdir().unwrap();
        let platform = fake_platform();
        let set = install(platform, cache.path(), fake_wheel).unwrap();
        fs::remove_file(set.join("lib/libtorch_cpu.so")).unwrap();
        let partial = format!("{}.partial", set.display());
        fs::create_dir_all(Path::new(&partial).join("libtorch/lib")).unwrap();
        let again = install(platform, cache.path(), fake_wheel).unwrap();
        assert_eq!(again, set);
        assert!(!Path::new(&partial).exists());
        assert!(is_whole(platform, &set));
    }

    #[test]
    fn two_set_ups_at_once_download_once() {
        let cache = tempfile::tempdir().unwrap();
        let downloads = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    install(fake_platform(), cache.path(), |dir| {
                        downloads.fetch_add(1, Ordering::SeqCst);
                        fake_wheel(dir)
                    })
                    .unwrap();
                });
            }
        });
        assert_eq!(downloads.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_full_disk_says_what_to_do() {
        let error = Error::new(io::Error::from(io::ErrorKind::StorageFull)).context("writing x");
        assert!(
            explain_full_disk(error)
                .to_string()
                .contains("XDG_CACHE_HOME")
        );
        let other =
            Error::new(io::Error::from(io::ErrorKind::PermissionDenied)).context("writing x");
        assert_eq!(explain_full_disk(other).to_string(), "writing x");
    }
}
