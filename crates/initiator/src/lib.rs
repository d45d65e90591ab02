//! iSCSI initiator, load patterns, pacing and verification of many VMs, without I/O.
//!
//! The path of one request:
//! 1. [`Load`] draws it from the VM's pattern when it is due;
//! 2. [`Session`] makes a SCSI command of it, within the target's command window, and queues it in [`Transmit`];
//! 3. a shell sends what is queued and hands what arrives to [`Session::handle_received`];
//! 4. the session follows Data-In, R2T and the response, and gives a [`Done`];
//! 5. [`Load::handle_done`] counts it and records its latency from the intended instant.
//!
//! Nothing here has a socket, a thread or a clock: the caller says what time it is. Whatever a target sends, the answer is
//! a [`SessionError`], never a panic.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod commands;
mod counters;
mod error;
mod load;
mod nexus;
mod pacing;
mod pattern;
mod payload;
mod region;
mod session;
mod settings;
mod survey;
mod transmit;
mod verify;
mod vm;
mod work;

pub use counters::{Counters, Latencies};
pub use error::{SessionError, TaskError};
pub use load::{LATE_NS, Load, Request, RequestId, Volume};
pub use nexus::{Nexus, NexusError, NexusEvent, REDIRECTS_MAX};
pub use pattern::{Access, Accesses, Extent, Op};
pub use payload::Payload;
pub use region::resolve_region;
pub use session::{
    Chap, DiscoveredTarget, Done, Event, Negotiated, Phases, Purpose, Session, SessionConfig, Task,
    TaskData,
};
pub use settings::{CommandLimits, Settings};
pub use survey::{LuFacts, Survey, SurveyError};
pub use transmit::Transmit;
pub use verify::{Corruption, Fault, Verifier, volume_id};
pub use vm::{IscsiVm, VmError, VmEvent};
