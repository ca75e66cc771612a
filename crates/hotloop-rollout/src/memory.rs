//! Whether there is as much memory as a rollout asks for.

use crate::RolloutError;

/// Refuses to take `needed` bytes if the system says that it has less. Where it says nothing, all is
/// allowed.
///
/// # Errors
/// [`RolloutError::Memory`], with both sizes.
pub fn check(needed: usize) -> Result<(), RolloutError> {
    let read = |path| std::fs::read_to_string(path).ok();
    let meminfo = read("/proc/meminfo").and_then(|text| available(&text));
    let cgroup = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    compare(needed, meminfo, cgroup)
}

fn compare(
    needed: usize,
    meminfo: Option<usize>,
    cgroup: Option<usize>,
) -> Result<(), RolloutError> {
    match meminfo.into_iter().chain(cgroup).min() {
        Some(available) if available < needed => Err(RolloutError::Memory { needed, available }),
        _ => Ok(()),
    }
}

/// `MemAvailable` of Linux's `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<usize> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_43_more_than_there_is_is_refused_with_both_sizes() {
        let meminfo = "MemTotal:  16 kB\nMemAvailable:    8 kB\n";
        assert_eq!(available(meminfo), Some(8192));
        let error = compare(8193, available(meminfo), None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("8193") && error.contains("8192"), "{error}");
        assert!(compare(8192, Some(8192), None).is_ok());
        assert!(compare(8192, Some(8192), Some(100)).is_err());
        assert!(compare(usize::MAX, None, None).is_ok());
    }
}
