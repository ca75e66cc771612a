//! The simulator as a program of its own: kill it and start it again while something trains on it.

use std::io;
use tcp_env::Simulator;

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let simulator = Simulator::start(address.as_deref().unwrap_or("127.0.0.1:5555"))?;
    println!("at {}; Ctrl-C ends it", simulator.address());
    loop {
        std::thread::park();
    }
}
