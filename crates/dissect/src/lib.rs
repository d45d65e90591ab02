//! Commands, and where their time went, out of captured packets: whoever the initiator and the target are.
//!
//! Packets go in one by one, in the order of the capture, as a [`CaptureFile`] gives them; TCP streams are put in order, PDUs read over `wire`'s framer, commands matched by
//! their tag, and each split into the phases that the initiator of hakaru counts too. What cannot be decoded is counted by cause, never guessed at in silence.
//! Memory is bounded, per stream and in all; whatever the bytes are, nothing panics.
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

/// Whose PDUs a direction carries.
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
