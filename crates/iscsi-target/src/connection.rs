//! One connection: what came in of the PDU under way, what goes out, its numbers and clocks.
//!
//! With MaxConnections=1 a session lives and ends with its connection, so the session's command window is kept here too.

use core::net::SocketAddr;
use hakaru_send_queue::Key;

use hakaru_units::Time;
use hakaru_wire::iscsi::digest::{DIGEST_LENGTH, DataDigest, header_digest, padding};
use hakaru_wire::iscsi::frame::Framer;
use hakaru_wire::iscsi::{CmdSn, ScsiCommand, StatSn, TargetNumbers};

use crate::id::ConnectionId;
use crate::lent::Lending;
use crate::login::Login;
use crate::session::{Payload, Session};

use crate::task::{Stage, Task};
use crate::transmit::Transmit;

/// MaxRecvDataSegmentLength of both sides until login has declared another (RFC 7143 section 13.12), bytes.
pub(crate) const LOGIN_DATA_SEGMENT_BYTES: u32 = 8192;

/// Where a connection stands.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Login phase.
    Login(Box<Login>),
    /// Full feature phase.
    FullFeature(Box<Session>),
    /// What is queued is sent, then the connection is closed. Nothing is received any more.
    Ending,
}

/// Where the data segment of the PDU under way goes.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Together, as far as it is kept.
    Payload(Payload),
    /// Into a write's buffer, as far as the command wants it.
    Task { task: Key, keep: u32 },
}

impl Sink {
    /// Nowhere.
    pub(crate) const DISCARD: Sink = Sink::Payload(Payload::Nothing);
}

/// What login agreed on for what the initiator sends, to hold from the next PDU on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveSettings {
    pub(crate) digests: Digests,
    /// The MaxRecvDataSegmentLength we declared.
    pub(crate) data_segment_bytes_max: u32,
}

impl ReceiveSettings {
    pub(crate) fn apply(self, framer: &mut Framer) {
        framer.set_digests(self.digests.header, self.digests.data);
        framer.set_data_segment_length_max(self.data_segment_bytes_max);
    }
}

/// Digests in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) header: bool,
    pub(crate) data: bool,
}

/// Which command numbers are taken (RFC 7143 section 4.2.2.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// ExpCmdSN.
    pub(crate) expected: CmdSn,
    /// Commands that may be in flight.
    pub(crate) size: u32,
    /// Non-immediate tasks in flight.
    pub(crate) in_flight: u32,
}

impl Window {
    /// MaxCmdSN. It never goes back: a command that is taken moves ExpCmdSN by one and is one more in flight.
    pub(crate) fn last(&self) -> CmdSn {
        self.expected.plus(self.size - self.in_flight).minus(1)
    }

    pub(crate) fn contains(&self, cmd_sn: CmdSn) -> bool {
        cmd_sn.within(self.expected, self.last())
    }
}

/// When things happened that a timeout is counted from.
#[derive(Debug)]
pub(crate) struct Clocks {
    pub(crate) connected: Time,
    /// A byte came in.
    pub(crate) received: Time,
    /// The kernel took a byte, or the queue was empty.
    pub(crate) sent: Time,
    /// Our NOP-In went out and was not answered yet.
    pub(crate) pinged: Option<Time>,
    /// `Phase::Ending` began.
    pub(crate) ending: Option<Time>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    /// Index into the configured portals.
    pub(crate) portal: usize,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    /// Out while bytes are being read with it.
    pub(crate) framer: Option<Box<Framer>>,
    /// For the framer, once it stands between two PDUs.
    pub(crate) receive_settings: Option<ReceiveSettings>,
    /// Of the PDU under way; its header is the framer's.
    pub(crate) sink: Sink,
    pub(crate) transmit: Transmit,
    pub(crate) lent: Lending,
    /// Is in the queue of `poll_transmit`.
    pub(crate) announced: bool,
    /// Is in the queue of `poll_close`.
    pub(crate) closing: bool,
    pub(crate) stat_sn: StatSn,
    pub(crate) window: Window,
    /// Digests of what goes out.
    pub(crate) digests: Digests,
    /// PDUs that came since the connection began.
    pub(crate) pdus_in: u64,
    /// PDUs queued since.
    pub(crate) pdus_out: u64,
    pub(crate) phase: Phase,
    pub(crate) clocks: Clocks,
}

impl Connection {
    /// A connection whose login is awaited.
    pub(crate) fn new(
        now: Time,
        key: Key,
        portal: usize,
        local: SocketAddr,
        peer: SocketAddr,
        window: u32,
    ) -> Self {
        Self {
            id: ConnectionId(key),
            portal,
            local,
            peer,
            framer: Some(Box::new(Framer::new(LOGIN_DATA_SEGMENT_BYTES))),
            receive_settings: None,
            sink: Sink::DISCARD,
            transmit: Transmit::default(),
            lent: Lending::new(),
            announced: false,
            closing: false,
            stat_sn: StatSn(1),
            window: Window {
                expected: CmdSn(0),
                size: window,
                in_flight: 0,
            },
            digests: Digests::default(),
            pdus_in: 0,
            pdus_out: 0,
            phase: Phase::Login(Box::default()),
            clocks: Clocks {
                connected: now,
                received: now,
                sent: now,
                pinged: None,
                ending: None,
            },
        }
    }

    /// The session, in full feature phase.
    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.phase {
            Phase::FullFeature(session) => Some(session),
            _ => None,
        }
    }

    /// The session, in full feature phase.
    pub(crate) fn session_mut(&mut self) -> Option<&mut Session> {
        match &mut self.phase {
            Phase::FullFeature(session) => Some(session),
            _ => None,
        }
    }

    /// Takes up a command as a task: it has an ITT, and a place in the window.
    #[inline]
    pub(crate) fn take_up(&mut self, command: &ScsiCommand, task: Key) {
        if !command.immediate {
            self.window.in_flight += 1;
        }
        if let Some(session) = self.session_mut() {
            session.immediate_in_flight += u32::from(command.immediate);
            session.tasks.insert(command.itt, task);
        }
    }

    /// Lets a task go: its place in the window, its share of the budget and its ITT are free.
    #[inline]
    pub(crate) fn let_go(&mut self, task: &Task) {
        if !task.immediate {
            self.window.in_flight -= 1;
        }
        if let Some(session) = self.session_mut() {
            session.immediate_in_flight -= u32::from(task.immediate);
            session.reserved_bytes -= u64::from(task.reserved_bytes);
            // The tag of an aborted task may be another's by now.
            if task.stage != Stage::Aborted {
                session.tasks.remove(task.itt);
            }
        }
    }

    /// Whether another task may read: what is held for earlier answers, and will be, is within the limit. Otherwise copies would pile up.
    #[inline]
    pub(crate) fn may_read(&self, held_bytes_max: usize) -> bool {
        let copying = self.session().map_or(0, |session| session.copying_bytes);
        self.transmit.held_bytes() as u64 + copying <= held_bytes_max as u64
    }

    /// Whether data of an LU with blocks of this length may be sent in place: no digest is to be computed over it, and PDUs can end on block
    /// boundaries.
    #[inline]
    pub(crate) fn sends_in_place(&self, block_bytes: u32) -> bool {
        !self.digests.data
            && self.session().is_some_and(|session| {
                let parameters = &session.parameters;
                let segment = parameters
                    .peer_max_recv_data_segment_length
                    .min(parameters.max_burst_length);
                segment >= block_bytes
            })
    }

    /// The numbers of a PDU that carries no status.
    pub(crate) fn numbers(&self) -> TargetNumbers {
        TargetNumbers {
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.window.expected,
            max_cmd_sn: self.window.last(),
        }
    }

    /// The numbers of a PDU that carries a status, which takes up a StatSN.
    pub(crate) fn status_numbers(&mut self) -> TargetNumbers {
        let numbers = self.numbers();
        self.stat_sn = self.stat_sn.plus(1);
        numbers
    }

    /// Queues a header, with its digest.
    #[inline]
    pub(crate) fn send_header(&mut self, header: &[u8; 48]) {
        self.pdus_out += 1;
        self.transmit.push_header(header);
        if self.digests.header {
            self.send_header_digest(header);
        }
    }

    #[inline(never)]
    fn send_header_digest(&mut self, header: &[u8; 48]) {
        self.transmit.push_bytes(&header_digest(header));
    }

    /// Queues a PDU whose data segment is copied.
    pub(crate) fn send(&mut self, header: &[u8; 48], data: &[u8]) {
        self.send_header(header);
        if !data.is_empty() {
            self.send_data(data);
        }
    }

    /// Queues a copy of a data segment.
    pub(crate) fn send_data(&mut self, data: &[u8]) {
        self.transmit.push_bytes(data);
        let digest = self.digests.data.then(|| digest_of(data));
        self.send_trailer(data.len(), digest);
    }

    /// Queues part of the buffer that the transmit queue adopted last, as a data segment.
    pub(crate) fn send_buffer_part(&mut self, start: u32, length: u32, last: bool) {
        let part = &self.transmit.newest_buffer()[start as usize..][..length as usize];
        let digest = self.digests.data.then(|| digest_of(part));
        self.transmit.push_buffer_part(start, length, last);
        self.send_trailer(length as usize, digest);
    }

    /// Queues a range of an LU as a data segment; there is no data digest.
    pub(crate) fn send_lu_part(&mut self, lun: u8, offset: u64, length: u32) {
        assert!(
            !self.digests.data,
            "a read whose data needs a digest was not to be answered in place"
        );
        self.transmit.push_lu(lun, offset, length);
        self.send_trailer(length as usize, None);
    }

    /// Queues padding and digest.
    fn send_trailer(&mut self, length: usize, digest: Option<[u8; DIGEST_LENGTH]>) {
        let padding = padding(length);
        if padding > 0 {
            self.transmit.push_bytes(&[0; 3][..padding]);
        }
        if let Some(digest) = digest {
            self.transmit.push_bytes(&digest);
        }
    }
}

fn digest_of(data: &[u8]) -> [u8; DIGEST_LENGTH] {
    let mut digest = DataDigest::default();
    digest.update(data);
    digest.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_closes_as_commands_are_taken_and_opens_as_they_end() {
        let mut window = Window {
            expected: CmdSn(u32::MAX),
            size: 2,
            in_flight: 0,
        };
        assert!(
            window.contains(CmdSn(u32::MAX))
                && window.contains(CmdSn(0))
                && !window.contains(CmdSn(1))
        );
        window.expected = window.expected.plus(2);
        window.in_flight = 2;
        assert!(!window.contains(CmdSn(1)), "closed");
        window.in_flight = 1;
        assert!(window.contains(CmdSn(1)) && !window.contains(CmdSn(2)));
    }
}
