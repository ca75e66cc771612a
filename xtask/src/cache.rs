//! Sets of files in the user's cache folder: each made once, whole or not at all, shared by all clones.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, bail};

use crate::recipe::Recipe;
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
            "no place for a cache: neither XDG_CACHE_HOME nor HOME is an absolute path; set one of them"
        );
    };
    let caches = if cfg!(target_os = "macos") {
        "Library/Caches"
    } else {
        ".cache"
    };
    Ok(home.join(caches).join("hotloop"))
}

/// The set in the user's cache, downloaded first if it is not there.
pub(crate) fn set(recipe: &Recipe) -> Result<PathBuf> {
    install(recipe, &folder()?, |dir| wheels::download(recipe, dir))
}

/// As [`set`] in `cache`, with the download left to `fetch`, which puts the wheels into the folder that it is given.
pub(crate) fn install(
    recipe: &Recipe,
    cache: &Path,
    fetch: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let is_whole = |set: &Path| recipe.is_whole(set);
    make(&recipe.place(), cache, is_whole, |partial| {
        fill(recipe, partial, fetch)
    })
}

/// A set as the cache knows it.
pub(crate) struct Place {
    /// The folder in the cache; a new version must have a new name.
    pub(crate) folder: &'static str,
    /// What it is, with its version, in the words of messages.
    pub(crate) what: &'static str,
    /// About how much is kept, and how much it takes while it is made.
    pub(crate) size: [&'static str; 2],
}

/// The set at `place` in `cache`; if it is not whole, `fill` makes it somewhere inside the new folder that it is given.
pub(crate) fn make(
    place: &Place,
    cache: &Path,
    is_whole: impl Fn(&Path) -> bool,
    fill: impl FnOnce(&Path) -> Result<PathBuf>,
) -> Result<PathBuf> {
    let set = cache.join(place.folder);
    if is_whole(&set) {
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
    if is_whole(&set) {
        return Ok(set);
    }
    eprintln!(
        "xtask: downloading {} (once; {} keeps about {})",
        place.what,
        set.display(),
        place.size[0]
    );
    // Nobody else writes here while the lock is held: what is left is from a set-up that was cut short.
    let partial = cache.join(format!("{}.partial", place.folder));
    clear(&partial)?;
    clear(&set)?;
    let made = fill(&partial).and_then(|whole| {
        fs::rename(&whole, &set)
            .with_context(|| format!("moving {} to {}", whole.display(), set.display()))
    });
    let cleared = clear(&partial);
    made.map_err(|error| explain_full_disk(place, error))?;
    cleared?;
    Ok(set)
}

/// Makes the set inside the new folder `partial` and returns where.
fn fill(
    recipe: &Recipe,
    partial: &Path,
    fetch: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let downloads = partial.join("wheels");
    fs::create_dir_all(&downloads).with_context(|| format!("creating {}", downloads.display()))?;
    fetch(&downloads)?;
    let set = partial.join("set");
    for wheel in recipe.wheels {
        let path = wheels::verified(wheel, &downloads)?;
        eprintln!("xtask: unpacking {} {}", wheel.package, wheel.version);
        unpack::wheel(wheel, &path, &set)?;
    }
    unpack::extras(recipe, &set)?;
    Ok(set)
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

fn explain_full_disk(place: &Place, error: Error) -> Error {
    let full = error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|io| io.kind() == io::ErrorKind::StorageFull)
    });
    if full {
        let [kept, needed] = place.size;
        error.context(format!(
            "the disk is full: free about {needed} there ({kept} are kept), or set XDG_CACHE_HOME to a folder on \
             another disk"
        ))
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unpack::tests::{fake_recipe, fake_wheel};
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
        let recipe = fake_recipe();
        let set = install(recipe, cache.path(), fake_wheel).unwrap();
        assert!(recipe.is_whole(&set));
        install(recipe, cache.path(), |_| panic!("it is there already")).unwrap();
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
        let recipe = fake_recipe();
        let error = install(recipe, cache.path(), |dir| {
            fs::write(dir.join("half"), "x").unwrap();
            bail!("no network")
        });
        assert_eq!(error.unwrap_err().to_string(), "no network");
        assert_eq!(
            fs::read_dir(cache.path()).unwrap().count(),
            1,
            "only the lock is left"
        );
        install(recipe, cache.path(), fake_wheel).unwrap();
    }

    #[test]
    fn a_wheel_with_a_wrong_hash_makes_no_set() {
        let cache = tempfile::tempdir().unwrap();
        let error = install(fake_recipe(), cache.path(), |dir| {
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
        let recipe = fake_recipe();
        let set = install(recipe, cache.path(), fake_wheel).unwrap();
        fs::remove_file(set.join("lib/libtorch_cpu.so")).unwrap();
        let partial = format!("{}.partial", set.display());
        fs::create_dir_all(Path::new(&partial).join("set/lib")).unwrap();
        let again = install(recipe, cache.path(), fake_wheel).unwrap();
        assert_eq!(again, set);
        assert!(!Path::new(&partial).exists());
        assert!(recipe.is_whole(&set));
    }

    #[test]
    fn two_set_ups_at_once_download_once() {
        let cache = tempfile::tempdir().unwrap();
        let downloads = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    install(fake_recipe(), cache.path(), |dir| {
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
            explain_full_disk(&fake_recipe().place(), error)
                .to_string()
                .contains("XDG_CACHE_HOME")
        );
        let other =
            Error::new(io::Error::from(io::ErrorKind::PermissionDenied)).context("writing x");
        assert_eq!(
            explain_full_disk(&fake_recipe().place(), other).to_string(),
            "writing x"
        );
    }
}
