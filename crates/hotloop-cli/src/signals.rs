//! Ctrl-C and the other signals that ask for an end: the first ends a run in good order, the second, and where
//! nothing is kept the first, ends the process at once.

use crate::exit::INTERRUPTED;
use hotloop::StopHandle;
use hotloop_telemetry::Console;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::{io, mem, ptr, thread};

/// Watches for signals from here on, and returns the handle that the first one stops, with `notice` as its word;
/// or ends the process, if the run has not begun yet.
///
/// The second leaves by `_exit`, without destructors: whatever the threads are doing, nothing waits.
/// Checkpoints are renamed into place when they are whole, so the previous one stays good.
pub(crate) fn watch(console: &Console, notice: &'static str) -> io::Result<StopHandle> {
    let stop = StopHandle::new();
    let (handle, console) = (stop.clone(), console.clone());
    on_each(move |signal| {
        if handle.is_stopped() {
            // The system and the shell may both tell of a terminal that was closed.
            if signal != SIGHUP {
                leave_now();
            }
            return;
        }
        handle.before_it_begins(|| {
            console.line("interrupted before the run began; nothing is left of it");
            leave_now();
        });
        handle.stop();
        console.line(notice);
    })?;
    Ok(stop)
}

/// Ends the process with a word at the first signal from here on, after `clean_up`, what this returns in
/// hand: for what keeps nothing.
pub(crate) fn leave<T>(
    console: &Console,
    clean_up: impl Fn() -> T + Send + 'static,
) -> io::Result<()> {
    let console = console.clone();
    on_each(move |_| {
        let _held = clean_up();
        console.line("interrupted");
        leave_now();
    })
}

fn leave_now() -> ! {
    signal_hook::low_level::exit(INTERRUPTED.into())
}

/// Calls `act` for each signal that asks for an end.
fn on_each(act: impl Fn(i32) + Send + 'static) -> io::Result<()> {
    // A file that may not grow any more ends the process, unless this is received: then writing says so.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGXFSZ])?;
    // `nohup` asks for a program that goes on when its terminal is closed.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    thread::Builder::new()
        .name("hotloop-signals".to_string())
        .spawn(move || {
            let asked = signals.forever().filter(|signal| *signal != SIGXFSZ);
            asked.for_each(act);
        })?;
    Ok(())
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: a structure of the system's, for which all zeros are valid.
    let mut now: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: without a new action nothing is changed; the present one is written into `now`.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), &mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}
