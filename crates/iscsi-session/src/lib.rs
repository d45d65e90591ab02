//! The initiator's side of an iSCSI session (RFC 7143), without I/O.
//!
//! The path of one task:
//! 1. [`Nexus::submit`] or [`Session::submit`] queues the task. It is sent as a SCSI Command when
//!    the target's command window allows.
//! 2. Its PDUs are queued in [`Transmit`], data by reference. A shell sends them and calls
//!    [`Transmit::advance`].
//! 3. The shell passes received bytes, with the time of their [`Arrival`], to
//!    [`Session::handle_received`].
//! 4. The session processes Data-In, R2T and the response, and returns a [`Done`].
//!
//! A [`Session`] logs in, discovers targets and runs tasks. A [`Nexus`] is a session for chosen
//! logical units: it also follows redirects and surveys the LUs ([`LuFacts`]) before it accepts
//! tasks. Loads and copy jobs build on a nexus.
//!
//! `#[inline]` is set on functions that run for every command. Without these hints (here and in
//! `hakaru-load`) `make bench` initiator_cpu_per_100k_against_tgt is 4 % higher.
//!
//! The crate has no socket, thread or clock: the caller passes the time. A target that violates the
//! protocol causes a [`SessionError`], never a panic.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arrival;
mod departure;
mod error;
mod nexus;
mod session;
mod survey;
mod transmit;

pub use arrival::Arrival;
pub use departure::Departure;
pub use error::{SessionError, TaskError};
pub use nexus::{Nexus, NexusError, NexusEvent, REDIRECTS_MAX};
pub use session::{
    Chap, DiscoveredTarget, Done, Event, Phases, Purpose, Session, SessionConfig, SessionTimers,
    Task, TaskData,
};
pub use survey::{LuFacts, LuKind, Survey, SurveyError, Volume};
pub use transmit::Transmit;
