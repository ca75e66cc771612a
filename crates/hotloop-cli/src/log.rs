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
