//! Set-up and developer commands.
fn main() {}
