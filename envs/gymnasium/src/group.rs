//! The processes that a worker's environments have started, and the one among them that is to end last.
//!
//! Python's `multiprocessing` has a process that knows all shared memory that was taken. When all others are gone it
//! removes what they have left, and ends; killed with them it would leave that memory behind for good.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// So long it may take to remove what was left.
const LONGEST: Duration = Duration::from_millis(500);

/// Kills the processes of this group, if it has such trackers, but for these, and waits until they have ended.
pub(crate) fn end_before_trackers(group: libc::pid_t) {
    let due = Instant::now() + LONGEST;
    loop {
        let (trackers, others): (Vec<_>, Vec<_>) =
            members(group).into_iter().partition(|pid| is_tracker(*pid));
        if trackers.is_empty() || Instant::now() >= due {
            return;
        }
        for pid in others {
            // SAFETY: a signal to a process that was of the group a moment ago. That it may be gone is no fault.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        sleep(Duration::from_millis(2));
    }
}

/// The group's processes that have not ended; none where the system does not tell.
fn members(group: libc::pid_t) -> Vec<libc::pid_t> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| is_member(*pid, group)).collect()
}

fn is_member(pid: libc::pid_t, group: libc::pid_t) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before may hold anything; then: state, parent, group.
    let mut facts = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    facts.next().is_some_and(|state| state != "Z")
        && facts.nth(1).and_then(|number| number.parse().ok()) == Some(group)
}

fn is_tracker(pid: libc::pid_t) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains("multiprocessing.resource_tracker")
}
