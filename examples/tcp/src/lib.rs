//! A simulator at the other end of a TCP connection as an environment.
//!
//! A connection for each lane, one request and one reply for each step. While a reply is awaited no thread is held: any
//! number of lanes wait at the same time, each for its own. What fails is a fault of one lane, which is counted, and the
//! lane goes on with a new environment, hence a new connection. A simulator that hangs is left behind with
//! `rollout.step_deadline`.

mod simulator;

pub use simulator::Simulator;

use hotloop::env::End;
use hotloop::prelude::*;
use simulator::{REPLY, Reply, Request};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// For so long, and so often, is a simulator looked for that does not answer: it may be about to start again.
const ATTEMPTS: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(50);

/// Hold a craft at its height against gravity with an engine that is on or off.
///
/// Observation: height over the ground (1 is where it should be), speed upwards. Actions: engine off, on. Reward: 1 at the
/// right height, less by the distance from it. The episode terminates on the ground or at twice the height.
pub struct Hover {
    address: String,
    connection: Option<TcpStream>,
    last: Reply,
}

impl Hover {
    /// A craft in the simulator at this address (`HOST:PORT`), not connected yet.
    pub fn new(address: &str) -> Self {
        Self {
            address: address.to_string(),
            connection: None,
            last: Reply::default(),
        }
    }

    /// Sends a request and receives the reply.
    async fn ask(&mut self, request: Request) -> Result<(), EnvError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(&self.address).await?),
        };
        connection.write_all(&request.bytes()).await?;
        let mut reply = [0; REPLY];
        connection.read_exact(&mut reply).await?;
        self.last = Reply::from_bytes(reply);
        Ok(())
    }
}

/// A connection, as soon as there is one.
async fn connect(address: &str) -> Result<TcpStream, EnvError> {
    let mut attempts = 0;
    loop {
        match TcpStream::connect(address).await {
            Ok(connection) => {
                connection.set_nodelay(true)?;
                return Ok(connection);
            }
            Err(_) if attempts < ATTEMPTS => attempts += 1,
            Err(error) => {
                let reason = format!("no simulator answers at {address}: {error}");
                return Err(EnvError::new(reason));
            }
        }
        sleep(BETWEEN).await;
    }
}

impl AsyncEnv for Hover {
    fn observation_space(&self) -> Space {
        let far = f64::INFINITY;
        Space::boxed(vec![-far; 2], vec![far; 2], &[2])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    async fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.ask(Request::Reset { seed: ctx.seed() }).await
    }

    async fn step(
        &mut self,
        action: ActionView<'_>,
        _rng: &mut EnvRng,
    ) -> Result<Transition, EnvError> {
        let on = action.discrete() == 1;
        self.ask(Request::Step { on }).await?;
        let end = End::from_flags(self.last.crashed, false);
        Ok(Transition::new(f64::from(self.last.reward), end))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        out.write(&[self.last.height, self.last.speed])
    }
}

/// The environments of this crate, in the simulator at this address unless another one is named.
pub fn registry(address: &str) -> Registry {
    let mut registry = Registry::new();
    registry.add(
        EnvSpec::asynchronous("Hover-v0", |options| {
            Ok(Hover::new(options.text("address")))
        })
        .about("hold a craft at its height with an engine that is on or off")
        .option("address", address, "where the simulator is: HOST:PORT")
        .time_limit(200),
    );
    registry
}
