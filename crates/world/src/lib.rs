//! Initiators, target and drives in one thread on one virtual clock: an entire lab without real
//! machines.
//!
//! The same state machines that run behind sockets exchange the same PDU bytes here, over a
//! modelled wire. [`World`] owns all of them and one queue of events; only that queue advances the
//! clock. The same configuration and seed give the same bytes at the same nanosecond, on any
//! machine.
//!
//! ```text
//!   IscsiHost ─┐                                        ┌─ LU data (only while verifying)
//!   IscsiHost ─┼─ wire, up ──→ Target ──→ Storage ──────┤
//!   IscsiHost ─┘←── wire, down ──┘                      └─ drive::Array: completion times
//! ```
//!
//! # Order of calls
//!
//! 1. [`World::new`] builds everything at time zero from a [`WorldConfig`]; nothing is connected.
//! 2. [`World::log_in`] connects and logs in every host.
//! 3. [`World::begin`] starts the load of every VM.
//! 4. [`World::run_for`] advances the time. It returns the first failure: a failed VM or request,
//!    or corrupt data.
//! 5. [`World::counters`] and [`World::latencies`] may be read between any two calls.
//! 6. [`World::log_out`] ends the load, drains it and logs out every host.
//!
//! # Path of one read
//!
//! A VM's command waits for its turn on the wire and travels to the target. The array model holds
//! it until its completion time. The answer waits for its turn on the wire back and travels to the
//! VM, which records the latency.
//!
//! # Not modelled
//!
//! - TCP: there is no slow start and no loss, and sessions share the wire fairly, segment by
//!   segment.
//! - CPU time of the software on hosts and target.
//! - Framing below iSCSI: the wire's rate is that of TCP payload.
//! - Switches and their queues. `hakaru-fabric` models them frame by frame, but its frames may be
//!   dropped and its senders are limited only by TCP. Without a TCP implementation in virtual time,
//!   a dropped frame would corrupt the byte stream, and a sender without a window would fill any
//!   queue.
//!
//! Results from here have the origin `simulated`.
#![forbid(unsafe_code)]

mod config;
mod error;
mod events;
mod host;
mod lus;
mod memory;
mod server;
mod wire;
mod world;

pub use config::{LuSetup, Wire, WorldConfig};
pub use error::WorldError;
pub use world::{Snapshot, World};
