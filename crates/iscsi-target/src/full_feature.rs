//! Full feature phase: the order of commands, and every PDU that is no SCSI command or data.

use hakaru_units::Time;
use hakaru_wire::iscsi::{
    Bhs, CmdSn, Itt, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, NopIn, NopOut,
    Opcode, Reject, RejectReason, StatSn, Ttt,
};

use crate::connection::Connection;
use crate::id::ConnectionId;
use crate::session::{EarlyPdu, Held, Payload, Pdu};
use crate::target::Target;

impl Target {
    /// A PDU came whole in full feature phase.
    pub(crate) fn handle_full_feature_pdu(
        &mut self,
        now: Time,
        connection: ConnectionId,
        pdu: &mut Pdu<'_>,
        data_digest_ok: bool,
    ) {
        match pdu.bhs.opcode() {
            Some(Opcode::DataOut) => {
                self.end_data_out(now, connection, pdu.bhs, None, data_digest_ok)
            }
            _ if !data_digest_ok => {
                // Discarded whole: its CmdSN is not taken, and the initiator sends it again (RFC 7143 section 7.8).
                self.release_payload(connection, &mut pdu.payload);
                self.reject(connection, RejectReason::DataDigestError, pdu.bhs);
            }
            Some(
                Opcode::ScsiCommand
                | Opcode::NopOut
                | Opcode::TaskManagementRequest
                | Opcode::TextRequest
                | Opcode::LogoutRequest,
            ) => self.order(now, connection, pdu),
            Some(Opcode::Snack) => self.reject(connection, RejectReason::SnackReject, pdu.bhs),
            Some(Opcode::LoginRequest) => {
                self.counters.sessions.protocol_errors += 1;
                self.reject(connection, RejectReason::ProtocolError, pdu.bhs);
                self.end(now, connection);
            }
            _ => {
                self.counters.sessions.protocol_errors += 1;
                self.reject(connection, RejectReason::CommandNotSupported, pdu.bhs);
            }
        }
    }

    /// Delivers numbered PDUs in the order of their CmdSN and immediate ones at once (RFC 7143 section 4.2.2.1). One outside the
    /// window is ignored; one that is early is held until those before it came.
    fn order(&mut self, now: Time, connection: ConnectionId, pdu: &mut Pdu<'_>) {
        if pdu.bhs.immediate() {
            self.deliver_immediate(now, connection, pdu);
            return;
        }
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        let cmd_sn = cmd_sn_of(pdu.bhs);
        let in_window = conn.window.contains(cmd_sn);
        if in_window && cmd_sn == conn.window.expected {
            self.deliver(now, connection, pdu);
            self.deliver_held(now, connection);
            return;
        }
        let Some(session) = conn.session_mut() else {
            return;
        };
        if in_window && session.held.iter().all(|(held, _)| *held != cmd_sn) {
            session.held.push((cmd_sn, Held::Pdu(pdu.take())));
        } else {
            self.counters.sessions.protocol_errors += 1;
            self.release_payload(connection, &mut pdu.payload);
        }
    }

    /// Delivers an immediate PDU, which takes up no CmdSN.
    fn deliver_immediate(&mut self, now: Time, connection: ConnectionId, pdu: &mut Pdu<'_>) {
        let result = self.dispatch(now, connection, pdu);
        self.release_payload(connection, &mut pdu.payload);
        if let Err(reason) = result {
            self.reject(connection, reason, pdu.bhs);
        }
    }

    /// Delivers the PDU that is next in order. One that is rejected does not count as received: the initiator fills the gap with
    /// another, or by aborting it (RFC 7143 section 7.3).
    #[inline]
    fn deliver(&mut self, now: Time, connection: ConnectionId, pdu: &mut Pdu<'_>) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        let cmd_sn = conn.window.expected;
        conn.window.expected = cmd_sn.plus(1);
        let result = self.dispatch(now, connection, pdu);
        self.release_payload(connection, &mut pdu.payload);
        if let Err(reason) = result {
            if let Some(conn) = self.connections.get_mut(connection.0) {
                conn.window.expected = cmd_sn;
            }
            self.reject(connection, reason, pdu.bhs);
        }
    }

    /// Delivers what was early and is next in order now.
    #[inline]
    pub(crate) fn deliver_held(&mut self, now: Time, connection: ConnectionId) {
        let session = self.connections.get(connection.0);
        let session = session.and_then(Connection::session);
        if session.is_some_and(|session| !session.held.is_empty()) {
            self.deliver_in_order(now, connection);
        }
    }

    #[cold]
    fn deliver_in_order(&mut self, now: Time, connection: ConnectionId) {
        while let Some(conn) = self.connections.get_mut(connection.0)
            && let expected = conn.window.expected
            && let Some(session) = conn.session_mut()
            && let Some(held) = session.take_held(expected)
        {
            match held {
                Held::Aborted => conn.window.expected = expected.plus(1),
                Held::Pdu(EarlyPdu { bhs, ahs, payload }) => {
                    let mut pdu = Pdu {
                        bhs: &bhs,
                        ahs: &ahs,
                        payload,
                    };
                    self.deliver(now, connection, &mut pdu);
                    let rejected = |conn: &Connection| conn.window.expected == expected;
                    if self.connections.get(connection.0).is_none_or(rejected) {
                        return;
                    }
                }
            }
        }
    }

    /// Carries out one PDU.
    fn dispatch(
        &mut self,
        now: Time,
        connection: ConnectionId,
        pdu: &mut Pdu<'_>,
    ) -> Result<(), RejectReason> {
        match pdu.bhs.opcode() {
            Some(Opcode::ScsiCommand) => self.scsi_command(now, connection, pdu),
            // Its data was discarded: there was no room.
            _ if matches!(pdu.payload, Payload::Refused) => Err(RejectReason::LongOperationReject),
            Some(Opcode::NopOut) => self.nop_out(connection, pdu.bhs, pdu.payload.data()),
            Some(Opcode::TaskManagementRequest) => self.task_management(now, connection, pdu.bhs),
            Some(Opcode::TextRequest) => self.text_request(connection, pdu.bhs, pdu.payload.data()),
            Some(Opcode::LogoutRequest) => self.logout(now, connection, pdu.bhs),
            _ => Err(RejectReason::CommandNotSupported),
        }
    }

    /// Answers a ping with its own data, cut to what the initiator takes (RFC 7143 section 11.19.1). A NOP-Out without ITT
    /// answers ours, or only tells an ExpStatSN.
    fn nop_out(
        &mut self,
        connection: ConnectionId,
        bhs: &Bhs,
        data: &[u8],
    ) -> Result<(), RejectReason> {
        let ping = NopOut::parse(bhs).map_err(|_| RejectReason::InvalidPduField)?;
        if ping.itt == Itt::RESERVED {
            return if ping.immediate {
                Ok(())
            } else {
                Err(RejectReason::ProtocolError)
            };
        }
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let Some(session) = conn.session() else {
            return Ok(());
        };
        let data = &data[..data
            .len()
            .min(session.parameters.peer_max_recv_data_segment_length as usize)];
        let answer = NopIn {
            lun: ping.lun,
            itt: ping.itt,
            ttt: Ttt::RESERVED,
            numbers: conn.status_numbers(),
            data_segment_length: data.len() as u32,
        };
        let mut header = [0; 48];
        answer.emit(&mut header);
        conn.send(&header, data);
        Ok(())
    }

    /// Asks whether the initiator is still there. Any byte from it is answer enough.
    pub(crate) fn ping(&mut self, now: Time, connection: ConnectionId) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        conn.clocks.pinged = Some(now);
        let ping = NopIn {
            itt: Itt::RESERVED,
            ttt: Ttt(connection.0.index),
            numbers: conn.numbers(),
            ..NopIn::default()
        };
        let mut header = [0; 48];
        ping.emit(&mut header);
        conn.send(&header, &[]);
        self.announce(connection);
    }

    /// Ends the session, or its only connection, which is the same. Commands that are not answered yet end without an answer
    /// (RFC 7143 section 11.14).
    fn logout(
        &mut self,
        now: Time,
        connection: ConnectionId,
        bhs: &Bhs,
    ) -> Result<(), RejectReason> {
        let request = LogoutRequest::parse(bhs).map_err(|_| RejectReason::InvalidPduField)?;
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let Some(session) = conn.session() else {
            return Ok(());
        };
        let result = match request.reason {
            LogoutReason::CloseSession => LogoutResult::Success,
            LogoutReason::CloseConnection if request.cid == session.cid => LogoutResult::Success,
            LogoutReason::CloseConnection => LogoutResult::CidNotFound,
            LogoutReason::RemoveForRecovery => LogoutResult::RecoveryNotSupported,
            LogoutReason::Other(_) => return Err(RejectReason::InvalidPduField),
        };
        let ends = result == LogoutResult::Success;
        if ends {
            self.counters.sessions.logouts += 1;
        }
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let response = LogoutResponse {
            result,
            itt: request.itt,
            numbers: conn.status_numbers(),
            time2wait: 0,
            time2retain: 0,
        };
        let mut header = [0; 48];
        response.emit(&mut header);
        conn.send(&header, &[]);
        if ends {
            self.end(now, connection);
        }
        Ok(())
    }

    /// Gives a PDU back unserved, with its header as data (RFC 7143 section 11.17).
    pub(crate) fn reject(&mut self, connection: ConnectionId, reason: RejectReason, bhs: &Bhs) {
        self.counters.sessions.rejects += 1;
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        let reject = Reject {
            reason,
            numbers: conn.status_numbers(),
            data_sn: 0,
            data_segment_length: 48,
        };
        let mut header = [0; 48];
        reject.emit(&mut header);
        conn.send(&header, bhs.as_bytes());
    }
}

/// ExpStatSN: bytes 28 to 31 in all that an initiator sends.
pub(crate) fn exp_stat_sn_of(bhs: &Bhs) -> StatSn {
    let b = bhs.as_bytes();
    StatSn(u32::from_be_bytes([b[28], b[29], b[30], b[31]]))
}

/// CmdSN of a PDU that has one: bytes 24 to 27 in all five of them.
fn cmd_sn_of(bhs: &Bhs) -> CmdSn {
    let b = bhs.as_bytes();
    CmdSn(u32::from_be_bytes([b[24], b[25], b[26], b[27]]))
}
