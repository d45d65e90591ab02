//! From bytes to PDUs: where each data segment goes, and who gets the PDU when it is whole.

use hakaru_units::Time;
use hakaru_wire::iscsi::frame::{Frame, FrameError, Framer};
use hakaru_wire::iscsi::{Bhs, Opcode, ScsiCommand};

use crate::connection::{Phase, Sink};
use crate::full_feature::exp_stat_sn_of;
use crate::id::ConnectionId;
use crate::session::{Payload, Pdu};
use crate::target::Target;

impl Target {
    /// Bytes came in; takes all of them.
    pub fn handle_received(&mut self, now: Time, connection: ConnectionId, bytes: &[u8]) {
        let Some(from) = self.connections.get_mut(connection.0) else {
            return;
        };
        if matches!(from.phase, Phase::Ending) {
            return;
        }
        from.clocks.received = now;
        from.clocks.pinged = None;
        self.counters.ports[from.portal].rx_bytes += bytes.len() as u64;
        let Some(mut framer) = from.framer.take() else {
            return;
        };
        let mut rest = bytes;
        loop {
            match framer.next(&mut rest) {
                Ok(Some(Frame::Header { bhs, .. })) => self.begin_pdu(now, connection, bhs),
                Ok(Some(Frame::Data { offset, bytes })) => {
                    self.take_data(connection, offset, bytes);
                }
                Ok(Some(Frame::End { data_digest_ok })) => {
                    self.end_pdu(now, connection, &framer, data_digest_ok);
                    if !self.goes_on(connection, &mut framer) {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.handle_frame_error(now, connection, error);
                    break;
                }
            }
        }
        if let Some(conn) = self.connections.get_mut(connection.0) {
            conn.framer = Some(framer);
        }
        self.announce(connection);
    }

    /// Between two PDUs: whether another is to be read, with what the last one has settled.
    fn goes_on(&mut self, connection: ConnectionId, framer: &mut Framer) -> bool {
        match self.connections.get_mut(connection.0) {
            None => false,
            Some(conn) => {
                if let Some(settings) = conn.receive_settings {
                    settings.apply(framer);
                    conn.receive_settings = None;
                }
                !matches!(conn.phase, Phase::Ending)
            }
        }
    }

    /// The stream cannot be read on: at error recovery level 0 a header digest error ends the session (RFC 7143 section 7.7),
    /// and so does a data segment longer than was declared, since what follows it is anyone's guess.
    #[cold]
    fn handle_frame_error(&mut self, now: Time, connection: ConnectionId, _error: FrameError) {
        self.counters.sessions.protocol_errors += 1;
        self.end(now, connection);
    }

    /// A PDU begins: settles where its data segment goes.
    fn begin_pdu(&mut self, now: Time, connection: ConnectionId, bhs: &Bhs) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        conn.pdus_in += 1;
        if matches!(conn.phase, Phase::Login(_)) && bhs.opcode() != Some(Opcode::LoginRequest) {
            self.refuse_before_login(now, connection);
            return;
        }
        if bhs.data_segment_length() == 0 && bhs.opcode() != Some(Opcode::DataOut) {
            return;
        }
        match bhs.opcode() {
            Some(Opcode::ScsiCommand) => self.begin_immediate_data(connection, bhs),
            Some(Opcode::DataOut) => self.begin_data_out(now, connection, bhs),
            Some(Opcode::TextRequest | Opcode::NopOut) => {
                self.begin_collected(connection, bhs.data_segment_length());
            }
            Some(Opcode::LoginRequest) => {
                conn.sink = Sink::Payload(Payload::Kept {
                    data: Vec::new(),
                    reserved_bytes: 0,
                });
            }
            _ => {}
        }
    }

    /// Immediate data comes: reserves what the whole command will need, and takes the buffer for it.
    fn begin_immediate_data(&mut self, connection: ConnectionId, bhs: &Bhs) {
        let Ok(command) = ScsiCommand::parse(bhs) else {
            return;
        };
        let immediate_bytes = command.data_segment_length;
        let whole_bytes = command.expected_data_transfer_length;
        let wanted_bytes = if whole_bytes <= self.config.limits.transfer_bytes_max {
            whole_bytes.max(immediate_bytes)
        } else {
            immediate_bytes
        };
        self.begin_collected(connection, wanted_bytes);
    }

    /// Data comes that is kept together: takes a buffer for it, if the budget has room.
    fn begin_collected(&mut self, connection: ConnectionId, bytes: u32) {
        let reserved = self.reserve_write(connection, bytes);
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        conn.sink = Sink::Payload(if reserved {
            Payload::Kept {
                data: self.buffers.take(bytes as usize),
                reserved_bytes: bytes,
            }
        } else {
            Payload::Refused
        });
    }

    /// A piece of a data segment.
    fn take_data(&mut self, connection: ConnectionId, offset: u32, bytes: &[u8]) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        match &mut conn.sink {
            Sink::Payload(Payload::Nothing | Payload::Refused) => {}
            Sink::Payload(Payload::Kept { data, .. }) => data.extend_from_slice(bytes),
            Sink::Task { task, keep } => {
                // The task may have been aborted since the PDU began.
                if let Some(task) = self.tasks.get_mut(*task) {
                    let kept = bytes.len().min(keep.saturating_sub(offset) as usize);
                    task.data.extend_from_slice(&bytes[..kept]);
                }
            }
        }
    }

    /// A PDU is whole.
    fn end_pdu(
        &mut self,
        now: Time,
        connection: ConnectionId,
        framer: &Framer,
        data_digest_ok: bool,
    ) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        let payload = match core::mem::replace(&mut conn.sink, Sink::DISCARD) {
            Sink::Payload(payload) => payload,
            Sink::Task { task, .. } => {
                let bhs = framer.bhs();
                return self.end_data_out(now, connection, bhs, Some(task), data_digest_ok);
            }
        };
        let mut pdu = Pdu {
            bhs: framer.bhs(),
            ahs: framer.ahs(),
            payload,
        };
        match conn.phase {
            Phase::Login(_) => {
                self.handle_login_request(now, connection, pdu.bhs, pdu.payload.data());
            }
            Phase::FullFeature(_) => {
                conn.handle_expected_status(exp_stat_sn_of(pdu.bhs), &mut self.returned);
                self.handle_full_feature_pdu(now, connection, &mut pdu, data_digest_ok);
            }
            Phase::Ending => {}
        }
    }
}
