//! The `hotloop` binary.
fn main() {}
