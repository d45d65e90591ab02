//! Initiators, target and drives in one thread on one virtual clock: a whole lab without a machine.
//!
//! The same state machines that run behind sockets exchange the same PDU bytes here, over a
//! modelled wire. One owner, one queue of events; nothing else moves the clock. The same
//! configuration and seed give the same bytes at the same nanosecond, on any machine.
//!
//! ```text
//!   IscsiVm ─┐                                        ┌─ LU bytes (only while verifying)
//!   IscsiVm ─┼─ wire, up ──→ Target ──→ Storage ──────┤
//!   IscsiVm ─┘←── wire, down ──┘                      └─ drive::Array says when
//! ```
//! The path of one read: a VM's command waits for its turn on the wire, travels, is taken by the
//! target, held by the array model until its instant, answered, waits for its turn on the wire
//! back, travels, and its latency is counted.
//!
//! What is left out: TCP (no slow start, no loss; a segment's turn comes round robin), the time
//! that hosts and the target's software take, and framing below iSCSI, which is in the wire's
//! payload rate. Origin of numbers from here: `simulated`.
#![forbid(unsafe_code)]

mod config;
mod events;
mod lus;
mod memory;
mod wire;
mod world;

pub use config::{LuSetup, Wire, WorldConfig};
pub use world::{Snapshot, World, WorldError};
