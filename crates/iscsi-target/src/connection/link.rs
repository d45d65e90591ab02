//! The sending half of a connection: queued bytes, sequence numbers, digests and clocks.

use core::net::SocketAddr;
use std::collections::VecDeque;

use hakaru_scsi_device::{Lent, Returned};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::digest::{DIGEST_LENGTH, DataDigest, header_digest, padding};
use hakaru_wire::iscsi::{CmdSn, StatSn, TargetNumbers};

use crate::connection::pdu::Sink;
use crate::id::ConnectionId;
use crate::shared::outbox::Outbox;
use crate::transmit::Transmit;

/// Digests in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) header: bool,
    pub(crate) data: bool,
}

/// The command window (RFC 7143 section 4.2.2.1).
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
    /// Returns MaxCmdSN. It never decreases: an accepted command advances ExpCmdSN by one and is
    /// one more in flight.
    pub(crate) fn last(&self) -> CmdSn {
        self.expected.plus(self.size - self.in_flight).minus(1)
    }

    pub(crate) fn contains(&self, cmd_sn: CmdSn) -> bool {
        cmd_sn.within(self.expected, self.last())
    }
}

/// Times from which deadlines are counted.
#[derive(Debug)]
pub(crate) struct Clocks {
    pub(crate) connected: Time,
    /// Last time bytes were received.
    pub(crate) received: Time,
    /// Last time the kernel took bytes, or the queue was empty.
    pub(crate) sent: Time,
    /// Time of the target's NOP-In that is not answered yet.
    pub(crate) pinged: Option<Time>,
    /// Time at which the connection began to end.
    pub(crate) ending: Option<Time>,
}

/// The sending half of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    /// Index into the configured portals.
    pub(crate) portal: usize,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    /// Destination of the data segment being received; the framer has the header.
    pub(crate) sink: Sink,
    pub(crate) transmit: Transmit,
    /// Memory lent to the kernel, oldest first, each with the StatSN whose acknowledgement returns
    /// it (see `endpoint/lent.rs`).
    pub(crate) lent: VecDeque<(StatSn, Lent)>,
    /// The connection is in the queue of `poll_transmit`.
    announced: bool,
    /// The connection is in the queue of `poll_close`.
    closing: bool,
    pub(crate) stat_sn: StatSn,
    pub(crate) window: Window,
    /// Digests of outgoing PDUs.
    pub(crate) digests: Digests,
    /// PDUs received.
    pub(crate) pdus_in: u64,
    /// PDUs queued.
    pub(crate) pdus_out: u64,
    pub(crate) clocks: Clocks,
}

impl Link {
    /// Creates the link of a connection that has just been accepted; `window` commands may be in
    /// flight.
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
            sink: Sink::DISCARD,
            transmit: Transmit::default(),
            lent: VecDeque::new(),
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
            clocks: Clocks {
                connected: now,
                received: now,
                sent: now,
                pinged: None,
                ending: None,
            },
        }
    }

    /// Queues the connection for `poll_transmit`, if there is something to send.
    pub(crate) fn announce(&mut self, outbox: &mut Outbox) {
        if !self.announced && !self.transmit.is_empty() {
            self.announced = true;
            outbox.to_transmit.push_back(self.id);
        }
    }

    /// Notes that `poll_transmit` has taken the connection out of its queue.
    pub(crate) fn unannounce(&mut self) {
        self.announced = false;
    }

    /// Queues the connection for `poll_close`.
    pub(crate) fn close(&mut self, outbox: &mut Outbox) {
        if !self.closing {
            self.closing = true;
            outbox.to_close.push_back(self.id);
        }
    }

    /// Drops the queue of a connection that is ending, and closes it.
    pub(crate) fn discard_transmit(&mut self, outbox: &mut Outbox) {
        self.transmit = Transmit::default();
        self.close(outbox);
    }

    /// Moves lent memory that the initiator has received to `returned`. ExpStatSN `expected`
    /// acknowledges the status that follows that memory.
    pub(crate) fn handle_expected_status(
        &mut self,
        expected: StatSn,
        returned: &mut VecDeque<Returned>,
    ) {
        while let Some((until, lent)) = self.lent.front() {
            if expected.precedes(*until) {
                return;
            }
            returned.push_back(Returned::Read(*lent));
            self.lent.pop_front();
        }
    }

    /// Returns the sequence numbers of a PDU without status.
    pub(crate) fn numbers(&self) -> TargetNumbers {
        TargetNumbers {
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.window.expected,
            max_cmd_sn: self.window.last(),
        }
    }

    /// Returns the sequence numbers of a PDU with status, which consumes a StatSN.
    pub(crate) fn status_numbers(&mut self) -> TargetNumbers {
        let numbers = self.numbers();
        self.stat_sn = self.stat_sn.plus(1);
        numbers
    }

    /// Queues a header, with its digest.
    pub(crate) fn send_header(&mut self, header: &[u8; 48]) {
        self.pdus_out += 1;
        self.transmit.push_header(header);
        if self.digests.header {
            self.transmit.push_bytes(&header_digest(header));
        }
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

    /// Queues part of the newest buffer of the send queue as a data segment.
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
            "a read whose data needs a digest must not be answered in place"
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
