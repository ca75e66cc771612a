//! Ctrl-C: the first ends the run in good order, the second ends the process at once.

use crate::exit::INTERRUPTED;
use hotloop::StopHandle;
use hotloop_telemetry::Console;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::thread;

/// Watches for SIGINT and SIGTERM from here on, and returns the handle that the first one stops.
///
/// The second leaves by `_exit`, without destructors: whatever the threads are doing, nothing waits.
/// Checkpoints are renamed into place when they are whole, so the previous one stays good.
pub(crate) fn watch(console: &Console) -> io::Result<StopHandle> {
    let stop = StopHandle::new();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (handle, console) = (stop.clone(), console.clone());
    thread::Builder::new()
        .name("hotloop-signals".to_string())
        .spawn(move || {
            for (seen, _) in signals.forever().enumerate() {
                if seen > 0 {
                    signal_hook::low_level::exit(INTERRUPTED.into());
                }
                handle.stop();
                console.line(
                    "stopping after this update, with a checkpoint; once more to stop at once",
                );
            }
        })?;
    Ok(stop)
}
