//! The initiator's side of an iSCSI session (RFC 7143), without I/O.
//!
//! The path of one task:
//! 1. [`Nexus::submit`] or [`Session::submit`] queues it; it leaves as a SCSI command within the target's command window;
//! 2. its PDUs lie in [`Transmit`], data by reference; a shell sends them and calls [`Transmit::advance`];
//! 3. a shell hands what it receives to [`Session::handle_received`];
//! 4. the session follows Data-In, R2T and the response, and returns a [`Done`].
//!
//! A [`Session`] logs in, discovers targets and runs tasks. A [`Nexus`] is a session for one
//! logical unit: it also follows redirects and surveys the LU ([`LuFacts`]) before it accepts
//! tasks. Loads and copy jobs build on a nexus.
//!
//! `#[inline]` stands on functions that run for every command. Without these hints (here and in
//! `hakaru-load`) `make bench` initiator_cpu_per_100k_against_tgt is 4 % higher.
//!
//! Nothing here has a socket, a thread or a clock: the caller passes the time. Whatever a target
//! sends, the answer is a [`SessionError`], never a panic.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod nexus;
mod session;
mod survey;
mod transmit;

pub use error::{SessionError, TaskError};
pub use nexus::{Nexus, NexusError, NexusEvent, REDIRECTS_MAX};
pub use session::{
    Chap, DiscoveredTarget, Done, Event, Phases, Purpose, Session, SessionConfig, Task, TaskData,
};
pub use survey::{LuFacts, Survey, SurveyError, Volume};
pub use transmit::Transmit;
