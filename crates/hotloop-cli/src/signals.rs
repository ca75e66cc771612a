//! Ctrl-C: the first ends a run in good order, the second, and where nothing is kept the first, ends the
//! process at once.

use crate::exit::INTERRUPTED;
use hotloop::StopHandle;
use hotloop_telemetry::Console;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::thread;

/// Watches for SIGINT and SIGTERM from here on, and returns the handle that the first one stops, with
/// `notice` as its word.
///
/// The second leaves by `_exit`, without destructors: whatever the threads are doing, nothing waits.
/// Checkpoints are renamed into place when they are whole, so the previous one stays good.
pub(crate) fn watch(console: &Console, notice: &'static str) -> io::Result<StopHandle> {
    let stop = StopHandle::new();
    let (handle, console) = (stop.clone(), console.clone());
    on_each(move |seen| {
        if seen > 0 {
            signal_hook::low_level::exit(INTERRUPTED.into());
        }
        handle.stop();
        console.line(notice);
    })?;
    Ok(stop)
}

/// Ends the process with a word at the first SIGINT or SIGTERM from here on, after `clean_up`, what this returns in
/// hand: for what keeps nothing.
pub(crate) fn leave<T>(
    console: &Console,
    clean_up: impl Fn() -> T + Send + 'static,
) -> io::Result<()> {
    let console = console.clone();
    on_each(move |_| {
        let _held = clean_up();
        console.line("interrupted");
        signal_hook::low_level::exit(INTERRUPTED.into());
    })
}

/// Calls `act` for each signal, with how many there were before.
fn on_each(act: impl Fn(usize) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::Builder::new()
        .name("hotloop-signals".to_string())
        .spawn(move || {
            for (seen, _) in signals.forever().enumerate() {
                act(seen);
            }
        })?;
    Ok(())
}
