//! The `probe` engine: measures a path before it is trusted. A server answers any number of clients; a client measures,
//! one after the other, round-trip time, the rate there and the rate back.
//!
//! A connection says what it is for with its first byte, then:
//!
//! | first byte | client sends | server sends |
//! |---|---|---|
//! | [`ECHO`] | messages of 64 bytes | the same bytes |
//! | [`DRAIN`] | as much as goes through | reports of 16 bytes: its clock (ns), bytes received so far; both little-endian |
//! | [`SOURCE`] | nothing | as much as goes through |
//!
//! **Rates are taken where bytes arrive**, from arrival to arrival, so that nothing that waits in a buffer counts, and
//! without the first fifth of the time, in which TCP finds its speed and queues fill. The median of ten slices of the rest counts.
mod client;
mod server;

use hakaru_contract::ProbeConfig;
use hakaru_runtime::Reactor;

use crate::control::Control;
use crate::failure::Failure;

/// First byte of a connection whose messages are sent back.
const ECHO: u8 = b'E';
/// First byte of a connection that the server reads as fast as it can.
const DRAIN: u8 = b'D';
/// First byte of a connection that the server fills as fast as it can.
const SOURCE: u8 = b'S';

/// A report of a draining server: clock, total.
const REPORT_BYTES: usize = 16;

/// Bytes moved per call: enough that calls cost nothing beside the bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// Runs the engine: a server until `stop`, a client until it has measured.
///
/// # Errors
/// The configuration cannot be; the address cannot be bound; the server cannot be reached or vanishes.
pub fn run(config: &ProbeConfig, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    match config {
        ProbeConfig::Server { listen } => server::run(listen, reactor, control),
        ProbeConfig::Client {
            connect,
            seconds,
            round_trips,
        } => client::run(connect, *seconds, *round_trips, reactor, control),
    }
}
