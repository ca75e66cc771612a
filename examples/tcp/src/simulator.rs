//! The simulator: it knows its protocol and nothing of hotloop. Each connection is one craft.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Crafts at a time; who comes later is turned away.
const MOST: usize = 256;
/// Bytes of a request and of a reply.
const REQUEST: usize = 9;
pub(crate) const REPLY: usize = 13;

/// What is asked of a craft.
pub(crate) enum Request {
    /// Start again; the same seed gives the same start.
    Reset { seed: u64 },
    /// Fly for a moment with the engine on or off.
    Step { on: bool },
}

impl Request {
    pub(crate) fn bytes(&self) -> [u8; REQUEST] {
        let (kind, number) = match self {
            Request::Reset { seed } => (b'R', *seed),
            Request::Step { on } => (b'S', u64::from(*on)),
        };
        let mut bytes = [kind; REQUEST];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; REQUEST]) -> Self {
        let [kind, number @ ..] = bytes;
        match (kind, u64::from_le_bytes(number)) {
            (b'R', seed) => Request::Reset { seed },
            (_, on) => Request::Step { on: on != 0 },
        }
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) height: f32,
    pub(crate) speed: f32,
    pub(crate) reward: f32,
    pub(crate) crashed: bool,
}

impl Reply {
    fn bytes(&self) -> [u8; REPLY] {
        let mut bytes = [u8::from(self.crashed); REPLY];
        let numbers = [self.height, self.speed, self.reward];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; REPLY]) -> Self {
        let number = |i: usize| {
            let at = 4 * i;
            f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self {
            height: number(0),
            speed: number(1),
            reward: number(2),
            crashed: bytes[REPLY - 1] != 0,
        }
    }
}

/// Moves the craft by a tenth of a second.
fn fly(craft: &mut Reply, on: bool) {
    let thrust = if on { 1.0 } else { -1.0 };
    craft.speed += 0.1 * thrust;
    craft.height += 0.1 * craft.speed;
    craft.crashed = !(0.0..=2.0).contains(&craft.height);
    craft.reward = if craft.crashed {
        0.0
    } else {
        1.0 - (craft.height - 1.0).abs()
    };
}

fn start(seed: u64) -> Reply {
    Reply {
        height: 0.6 + 0.8 * (seed % 1000) as f32 / 1000.0,
        ..Reply::default()
    }
}

/// A simulator that listens. Dropped, it closes its connections and ends.
pub struct Simulator {
    address: SocketAddr,
    state: Arc<State>,
    doorman: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    steps: AtomicU64,
    house: Mutex<House>,
}

/// Who is there.
#[derive(Default)]
struct House {
    closed: bool,
    guests: HashMap<u64, TcpStream>,
    came: u64,
}

impl State {
    fn house(&self) -> MutexGuard<'_, House> {
        self.house.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one connection until it ends.
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut craft, mut request) = (Reply::default(), [0; REQUEST]);
        loop {
            stream.read_exact(&mut request)?;
            match Request::from_bytes(request) {
                Request::Reset { seed } => craft = start(seed),
                Request::Step { on } => {
                    fly(&mut craft, on);
                    self.steps.fetch_add(1, Ordering::Relaxed);
                }
            }
            stream.write_all(&craft.bytes())?;
        }
    }

    /// Lets guests in until the house is closed, then waits for the last to leave.
    fn receive(self: &Arc<Self>, listener: &TcpListener) {
        thread::scope(|scope| {
            for stream in listener.incoming() {
                let mut house = self.house();
                if house.closed {
                    break;
                }
                let (Ok(stream), true) = (stream, house.guests.len() < MOST) else {
                    continue;
                };
                let Ok(other) = stream.try_clone() else {
                    continue;
                };
                house.came += 1;
                let number = house.came;
                house.guests.insert(number, other);
                scope.spawn(move || {
                    // A guest who leaves is no failure.
                    let _ = self.serve(stream);
                    self.house().guests.remove(&number);
                });
            }
        });
    }
}

impl Simulator {
    /// Listens at this address; port 0 takes a free one.
    pub fn start(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let (address, state) = (listener.local_addr()?, Arc::new(State::default()));
        let doorman = {
            let state = state.clone();
            thread::Builder::new()
                .name("simulator".to_string())
                .spawn(move || state.receive(&listener))?
        };
        Ok(Self {
            address,
            state,
            doorman: Some(doorman),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Steps of all crafts so far.
    pub fn steps(&self) -> u64 {
        self.state.steps.load(Ordering::Relaxed)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let mut house = self.state.house();
        house.closed = true;
        for guest in house.guests.values() {
            // Who has left already need not be sent away.
            let _ = guest.shutdown(Shutdown::Both);
        }
        drop(house);
        // The doorman looks up when somebody comes.
        if TcpStream::connect(self.address).is_ok()
            && let Some(doorman) = self.doorman.take()
        {
            // It does not panic; if it did, this is the end of it anyway.
            let _ = doorman.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_arrive_as_they_were_sent() {
        let reply = Reply {
            height: 0.5,
            speed: -2.0,
            reward: 0.25,
            crashed: true,
        };
        assert_eq!(Reply::from_bytes(reply.bytes()), reply);
        let reset = Request::Reset { seed: 1 << 40 };
        let Request::Reset { seed } = Request::from_bytes(reset.bytes()) else {
            panic!("it was a reset");
        };
        assert_eq!(seed, 1 << 40);
        for on in [false, true] {
            let sent = Request::Step { on }.bytes();
            assert!(matches!(Request::from_bytes(sent), Request::Step { on: got } if got == on));
        }
    }

    #[test]
    fn a_craft_falls_without_its_engine_and_hovers_with_it_every_other_time() {
        let (mut falling, mut hovering) = (start(500), start(500));
        for i in 0..100 {
            fly(&mut hovering, i % 2 == 0);
            assert!(!hovering.crashed);
            if !falling.crashed {
                fly(&mut falling, false);
            }
        }
        assert!(falling.crashed && falling.reward == 0.0);
    }
}
