//! The load of many VMs: patterns, pacing, verification and counters, without I/O.
//!
//! The path of one request:
//! 1. [`Load`] draws it from the VM's pattern when it is due;
//! 2. over iSCSI, [`IscsiVm`] splits it into commands and submits them to its sessions
//!    ([`hakaru_iscsi_session::Nexus`]); on a file, the shell reads or writes;
//! 3. [`Load::handle_done`] counts it and records its latency from the intended instant.
//!
//! [`Load`] knows nothing of iSCSI; [`IscsiVm`] is one VM over iSCSI, which a shell or `world`
//! drives: `handle_connected`, `handle_received`, `handle_closed` and `handle_timeout` take events
//! of one *leg* (session); `begin`, `end` and `log_out` are commands; `poll_event`, `poll_timeout`
//! and `poll_transmit` return what follows. `Latencies` belong to the engine, not to a VM.
//!
//! Nothing here has a socket, a thread or a clock: the caller passes the time.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod commands;
mod counters;
mod load;
mod pacing;
mod pattern;
mod payload;
mod region;
mod settings;
mod verify;
mod vm;
mod work;

pub use counters::Counters;
pub use load::{LATE_NS, Load, Request, RequestId};
pub use pattern::{Access, Accesses, Extent, Op};
pub use payload::Payload;
pub use region::resolve_region;
pub use settings::{CommandLimits, Settings};
pub use verify::{Corruption, Fault, Verifier, volume_id};
pub use vm::{IscsiVm, VmError, VmEvent};
