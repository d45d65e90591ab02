//! The load of many VMs: patterns, pacing, verification and counters, without I/O.
//!
//! # Grammar
//!
//! [`Load`] is independent of iSCSI. [`IscsiHost`] is one host over iSCSI, driven by a shell or by
//! `world`: VMs and the sessions that they use. [`hosts_of`] decides which VMs share one.
//! [`MultipathHost`] is a host that uses several paths to its LU, and replaces those that fail.
//!
//! - [`IscsiHost::handle_connected`], [`IscsiHost::handle_received`], [`IscsiHost::handle_closed`]
//!   and [`IscsiHost::handle_timeout`] take the events of one *leg* (session).
//! - [`IscsiHost::issue`] submits what is due. The caller calls it after the events that it has
//!   received, and immediately before it sends, because the latency of a request begins here.
//! - [`IscsiHost::begin`], [`IscsiHost::measure`], [`IscsiHost::end`] and [`IscsiHost::log_out`] are
//!   commands.
//! - [`IscsiHost::poll_event`] and [`IscsiHost::poll_timeout`] return events and deadlines.
//!   [`IscsiHost::poll_transmit`] returns the other legs that have data to send, and
//!   [`IscsiHost::transmit`] returns the data.
//!
//! Latencies belong to the engine: calls that complete requests take its `Latencies`.
//!
//! # Path of one request
//!
//! 1. [`Load`] draws it from the VM's pattern when it is due.
//! 2. Over iSCSI, it waits in the guest until the ring of the guest's disk can hold it, if there is
//!    one, and is split into commands.
//! 3. [`IscsiHost`] submits the commands to its sessions ([`hakaru_iscsi_session::Nexus`]). Commands
//!    beyond the limits of LU and session wait in the host. On a file, the shell reads or writes.
//! 4. [`Load::handle_done`] counts the request and records its latency from the intended instant,
//!    which includes all waits.
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
mod event;
mod guest;
mod host;
mod host_queue;
mod load;
mod occupancy;
mod pacing;
mod paths;
mod pattern;
mod payload;
mod region;
mod ring;
mod settings;
mod verify;
mod work;

pub use corruption::{Corruption, Fault};
pub use counters::Counters;
pub use event::{HostEvent, VmError};
pub use host::{IscsiHost, hosts_of};
pub use load::{LATE_NS, Load, Request, RequestId};
pub use paths::{
    AttemptId, KernelPaths, MultipathHost, PathAction, PathChange, PathCounters, PathSet,
    PathSight, PathStatus, Usability, WriteRange, parse_multipath_status,
};
pub use pattern::{Access, Accesses, Extent, Op};
pub use payload::Payload;
pub use region::resolve_region;
pub use settings::{CommandLimits, Settings};
pub use verify::{Verifier, volume_id};
