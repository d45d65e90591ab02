//! Reconstruction of commands and their phases from captured packets of any initiator and target.
//!
//! A [`CaptureFile`] supplies the packets one by one, in the order of the capture. TCP streams are
//! reassembled, the framer of `wire` reads their PDUs, and tags match the PDUs to commands. Each
//! command is split into the phases that hakaru's own initiator counts too. A command is timed only
//! if all its instants are certain. All other commands, and everything that cannot be decoded, are
//! counted by cause. Memory is bounded, per stream and in total. No input can cause a panic.
//!
//! ```text
//! capture_file -> dissector -> connection -> stream -> reader -> session -> command
//!   packets         clock       handshake     order    framing    tags       phases -> tally -> report
//! ```
//!
//! ```
//! use hakaru_dissect::{Dissector, Link};
//! use hakaru_units::Time;
//!
//! let mut dissector = Dissector::new(&[3260]);
//! dissector.handle_packet(Time::ZERO, Link::Ethernet, &[0; 60], 60);
//! let report = dissector.finish();
//! assert_eq!((report.packets, report.not_seen.not_ip, report.sessions.len()), (1, 1, 0));
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod capture_file;
mod clock;
mod command;
mod connection;
mod digests;
mod dissector;
mod expected;
mod habits;
mod handshake;
mod login;
mod numbers;
mod packet;
mod plausible;
mod reader;
mod report;
mod search;
mod session;
mod stream;
mod tally;
mod window;

pub use capture_file::{CaptureFile, CaptureFileError, Packet};
pub use dissector::{CONNECTIONS_MAX, Dissector};
pub use packet::{Link, NotSeen, Segment, parse};
pub use report::{
    CommandReport, DirectionReport, LunReport, NotSeenReport, PhaseReport, Phases, Report,
    SessionReport, SlowCommand, Spread, StatusReport,
};
pub use stream::StreamCounters;

use hakaru_wire::iscsi::Opcode;

/// The sender of a direction's PDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Initiator = 0,
    Target = 1,
}

impl Sender {
    fn of(opcode: Opcode) -> Sender {
        if opcode.from_initiator() {
            Sender::Initiator
        } else {
            Sender::Target
        }
    }

    fn other(self) -> Sender {
        match self {
            Sender::Initiator => Sender::Target,
            Sender::Target => Sender::Initiator,
        }
    }
}
