//! Logs: to standard error, above the live progress line.

use hotloop_telemetry::Console;
use tracing_subscriber::EnvFilter;

/// Sends what is logged to the console: warnings and what hotloop has to say, unless `RUST_LOG`
/// chooses otherwise.
pub(crate) fn start(console: &Console) {
    let colour = console.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let writer = console.clone();
    // Fails only if the program that called us has set up its own logs: then they are in charge.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_writer(move || writer.clone())
        .with_ansi(colour)
        .with_target(false)
        .without_time()
        .try_init();
}

/// The panics of environments are contained, and logged in one line with lane and step; the report that
/// Rust itself would print beside it, with a backtrace if asked for, is for `RUST_LOG=debug`.
pub(crate) fn quiet_contained_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| match std::thread::current().name() {
        Some("hotloop-env") => tracing::debug!("{panic}"),
        _ => report(panic),
    }));
}
