//! The `probe` engine: measures a path before it is used in a lab. A server answers any number of
//! clients. A client measures, in sequence, the round-trip time, the rate to the server and the
//! rate back. `protocol.rs` defines the bytes that they exchange. `stream.rs` sends plain data for as
//! long as a load runs. `path.rs` opens the connections of both.
//!
//! **Rates are measured where bytes arrive**, from arrival to arrival, so that bytes waiting in a
//! buffer do not count. The first fifth of the time is not measured, because TCP is still finding
//! its rate and queues are filling. The result is the median of ten slices of the rest.
mod client;
mod path;
mod protocol;
mod server;
mod stream;

use hakaru_contract::ProbeConfig;
use hakaru_runtime::Reactor;

use crate::control::Control;
use crate::failure::Failure;

/// Runs the engine. A server runs until `stop`, a client or stream until it has measured.
///
/// # Errors
/// The configuration is invalid, the address cannot be bound, or the server cannot be reached or is
/// lost.
pub fn run(config: &ProbeConfig, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    match config {
        ProbeConfig::Server { listen, socket } => server::run(listen, socket, reactor, control),
        ProbeConfig::Client {
            connect,
            seconds,
            round_trips,
        } => client::run(connect, *seconds, *round_trips, reactor, control),
        ProbeConfig::Stream(config) => stream::run(config, reactor, control),
    }
}
