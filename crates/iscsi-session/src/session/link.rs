//! The sending side of a session: the send queue, the sequence numbers and the negotiated keys.
use hakaru_wire::iscsi::keys::{Agreed, Digest};
use hakaru_wire::iscsi::{
    BHS_LENGTH, CmdSn, Itt, LogoutReason, LogoutRequest, Lun, NopOut, StatSn, TargetNumbers,
    TextRequest, Ttt, digest,
};

use super::task::{LOGOUT, TEXT};
use crate::error::SessionError;
use crate::transmit::Transmit;

/// State that every sender of PDUs needs.
#[derive(Debug)]
pub(super) struct Link {
    pub transmit: Transmit,
    agreed: Agreed,
    /// Whether the session is in full feature phase, in which commands may be sent.
    open: bool,
    cmd_sn: CmdSn,
    max_cmd_sn: CmdSn,
    exp_stat_sn: StatSn,
}

impl Link {
    pub(super) fn new() -> Link {
        Link {
            transmit: Transmit::default(),
            agreed: Agreed::default(),
            open: false,
            cmd_sn: CmdSn(1),
            max_cmd_sn: CmdSn(1),
            exp_stat_sn: StatSn(0),
        }
    }

    /// Enters full feature phase with these keys.
    pub(super) fn open(&mut self, agreed: Agreed) {
        self.agreed = agreed;
        self.open = true;
    }

    /// Leaves full feature phase. No further command is sent.
    pub(super) fn close(&mut self) {
        self.open = false;
    }

    pub(super) fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    pub(super) fn header_digest(&self) -> bool {
        self.agreed.header_digest == Digest::Crc32c
    }

    pub(super) fn data_digest(&self) -> bool {
        self.agreed.data_digest == Digest::Crc32c
    }

    pub(super) fn cmd_sn(&self) -> CmdSn {
        self.cmd_sn
    }

    pub(super) fn exp_stat_sn(&self) -> StatSn {
        self.exp_stat_sn
    }

    /// Adopts the target's initial numbers from its first Login Response.
    pub(super) fn begin_numbers(&mut self, numbers: &TargetNumbers) {
        self.exp_stat_sn = numbers.stat_sn;
        self.max_cmd_sn = numbers.max_cmd_sn;
    }

    /// Returns whether a command may be sent: CmdSN is at most MaxCmdSN (RFC 7143 section 4.2.2.1).
    #[inline]
    pub(super) fn window_is_open(&self) -> bool {
        self.open && !self.max_cmd_sn.precedes(self.cmd_sn)
    }

    /// Updates the command window. Contradictory numbers are ignored, and the window never moves
    /// back (RFC 7143 section 4.2.2.1).
    #[inline]
    pub(super) fn take_window(&mut self, numbers: &TargetNumbers) {
        let contradictory = numbers.max_cmd_sn.precedes(numbers.exp_cmd_sn.minus(1));
        if !contradictory && self.max_cmd_sn.precedes(numbers.max_cmd_sn) {
            self.max_cmd_sn = numbers.max_cmd_sn;
        }
    }

    /// Checks the StatSN of a PDU whose status is acknowledged later. A missing status loses the
    /// session, because it cannot be requested again at error recovery level 0 (RFC 7143 section
    /// 7.1.4.1).
    #[inline]
    pub(super) fn check_stat_sn(&self, stat_sn: StatSn) -> Result<(), SessionError> {
        if stat_sn == self.exp_stat_sn {
            Ok(())
        } else {
            Err(SessionError::Protocol("StatSN out of order"))
        }
    }

    /// Acknowledges the status checked by [`Link::check_stat_sn`].
    #[inline]
    pub(super) fn acknowledge(&mut self) {
        self.exp_stat_sn = self.exp_stat_sn.plus(1);
    }

    /// Checks and acknowledges a StatSN.
    #[inline]
    pub(super) fn take_stat_sn(&mut self, stat_sn: StatSn) -> Result<(), SessionError> {
        self.check_stat_sn(stat_sn)?;
        self.acknowledge();
        Ok(())
    }

    /// Returns the next command number, for a command that is not immediate.
    #[inline]
    pub(super) fn take_cmd_sn(&mut self) -> CmdSn {
        let sn = self.cmd_sn;
        self.cmd_sn = sn.plus(1);
        sn
    }

    /// Queues a header, with its digest if header digests were agreed on.
    #[inline]
    pub(super) fn push_header(&mut self, emit: impl FnOnce(&mut [u8; BHS_LENGTH])) {
        let mut header = [0; BHS_LENGTH];
        emit(&mut header);
        self.transmit.push(&header);
        if self.header_digest() {
            self.transmit.push(&digest::header_digest(&header));
        }
    }

    /// Queues a PDU whose data, if any, is small and copied.
    pub(super) fn push_control(&mut self, emit: impl FnOnce(&mut [u8; BHS_LENGTH]), data: &[u8]) {
        self.push_header(emit);
        if !data.is_empty() {
            self.transmit.push(data);
            let mut trailer = Vec::new();
            digest::emit_data_trailer(data, self.data_digest(), &mut trailer);
            self.transmit.push(&trailer);
        }
    }

    /// Queues a Text Request: SendTargets (RFC 7143 appendix C), or an empty text that requests the
    /// rest of the answer.
    pub(super) fn push_text(&mut self, lun: Lun, ttt: Ttt, text: &[u8]) {
        let header = TextRequest {
            immediate: false,
            is_final: true,
            more: false,
            lun,
            itt: TEXT,
            ttt,
            cmd_sn: self.take_cmd_sn(),
            exp_stat_sn: self.exp_stat_sn,
            data_segment_length: text.len() as u32,
        };
        self.push_control(|out| header.emit(out), text);
    }

    /// Queues a ping, or the answer to one, for immediate delivery.
    pub(super) fn push_nop_out(&mut self, lun: Lun, itt: Itt, ttt: Ttt) {
        let header = NopOut {
            immediate: true,
            lun,
            itt,
            ttt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            data_segment_length: 0,
        };
        self.push_control(|out| header.emit(out), &[]);
    }

    /// Queues the request that ends the session.
    pub(super) fn push_logout(&mut self) {
        let header = LogoutRequest {
            immediate: true,
            reason: LogoutReason::CloseSession,
            itt: LOGOUT,
            cid: 0,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.push_control(|out| header.emit(out), &[]);
    }
}
