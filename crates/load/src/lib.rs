//! The load of many VMs: patterns, pacing, verification and counters, without I/O.
//!
//! # Grammar
//!
//! [`Load`] is independent of iSCSI. [`IscsiVm`] is one VM over iSCSI, driven by a shell or by
//! `world`:
//!
//! - [`IscsiVm::handle_connected`], [`IscsiVm::handle_received`], [`IscsiVm::handle_closed`] and
//!   [`IscsiVm::handle_timeout`] take the events of one *leg* (session).
//! - [`IscsiVm::begin`], [`IscsiVm::end`] and [`IscsiVm::log_out`] are commands.
//! - [`IscsiVm::poll_event`] and [`IscsiVm::poll_timeout`] return events and deadlines.
//!   [`IscsiVm::poll_transmit`] returns the other legs that have data to send, and
//!   [`IscsiVm::transmit`] returns the data.
//!
//! Latencies belong to the engine: calls that complete requests take its `Latencies`.
//!
//! # Path of one request
//!
//! 1. [`Load`] draws it from the VM's pattern when it is due.
//! 2. Over iSCSI, [`IscsiVm`] splits it into commands and submits them to its sessions
//!    ([`hakaru_iscsi_session::Nexus`]). On a file, the shell reads or writes.
//! 3. [`Load::handle_done`] counts it and records its latency from the intended instant.
//!
//! `#[inline]` is set on functions that run for every command. Without these hints (here and in
//! `hakaru-iscsi-session`) `make bench` initiator_cpu_per_100k_against_tgt is 4 % higher.
//!
//! The crate has no socket, thread or clock: the caller passes the time.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod commands;
mod corruption;
mod counters;
mod load;
mod pacing;
mod pattern;
mod payload;
mod region;
mod settings;
mod verify;
mod vm;
mod vm_event;
mod work;

pub use corruption::{Corruption, Fault};
pub use counters::Counters;
pub use load::{LATE_NS, Load, Request, RequestId};
pub use pattern::{Access, Accesses, Extent, Op};
pub use payload::Payload;
pub use region::resolve_region;
pub use settings::{CommandLimits, Settings};
pub use verify::{Verifier, volume_id};
pub use vm::IscsiVm;
pub use vm_event::{VmError, VmEvent};
