//! Text Request and Response (RFC 7143 sections 11.10 and 11.11). [`crate::iscsi::text`] handles
//! their data segments.
use super::{CONTINUE, FINAL, begin, bit, emit_initiator_numbers, parse_initiator_numbers};
use crate::iscsi::{
    BHS_LENGTH, Bhs, CmdSn, Itt, Lun, Opcode, StatSn, TargetNumbers, Ttt, WireError,
};
use crate::octets::{put_u32, put_u64};

/// Parses the F and C bits, which exclude each other (section 11.10.2). C requires text that is not
/// empty.
pub(super) fn parse_sequence(bhs: &Bhs) -> Result<(bool, bool), WireError> {
    let (is_final, more) = (bhs.is_final(), bhs.flags() & CONTINUE != 0);
    if is_final && more {
        return Err(WireError::Field("C bit together with F or T"));
    }
    if more && bhs.data_segment_length() == 0 {
        return Err(WireError::Field("C bit without text"));
    }
    Ok((is_final, more))
}

/// An initiator's text: SendTargets, or a change of parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextRequest {
    /// For immediate delivery.
    pub immediate: bool,
    /// F: the initiator's last text of the exchange.
    pub is_final: bool,
    /// C: the list of keys continues in the next request.
    pub more: bool,
    /// Copied from the response that is continued; otherwise 0.
    pub lun: Lun,
    /// Tag of the exchange.
    pub itt: Itt,
    /// Copied from the response that is continued; [`Ttt::RESERVED`] in the first request.
    pub ttt: Ttt,
    /// Command number.
    pub cmd_sn: CmdSn,
    /// Next status number that the initiator expects.
    pub exp_stat_sn: StatSn,
    /// Length of the text, bytes.
    pub data_segment_length: u32,
}

impl TextRequest {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; F with C; C without text.
    pub fn parse(bhs: &Bhs) -> Result<TextRequest, WireError> {
        bhs.expect(Opcode::TextRequest)?;
        let (is_final, more) = parse_sequence(bhs)?;
        let (cmd_sn, exp_stat_sn) = parse_initiator_numbers(bhs);
        Ok(TextRequest {
            immediate: bhs.immediate(),
            is_final,
            more,
            lun: bhs.lun(),
            itt: bhs.itt(),
            ttt: bhs.ttt(),
            cmd_sn,
            exp_stat_sn,
            data_segment_length: bhs.data_segment_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        let flags = bit(self.is_final, FINAL) | bit(self.more, CONTINUE);
        begin(
            out,
            Opcode::TextRequest,
            self.immediate,
            flags,
            self.data_segment_length,
        );
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.ttt.0);
        emit_initiator_numbers(out, self.cmd_sn, self.exp_stat_sn);
    }
}

/// A target's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextResponse {
    /// F: the exchange is complete.
    pub is_final: bool,
    /// C: the list of keys continues in the next response.
    pub more: bool,
    /// LUN if `ttt` is valid; otherwise 0.
    pub lun: Lun,
    /// Tag of the exchange.
    pub itt: Itt,
    /// Valid if the exchange continues; [`Ttt::RESERVED`] with F.
    pub ttt: Ttt,
    /// Numbers; the response consumes a StatSN.
    pub numbers: TargetNumbers,
    /// Length of the text, bytes.
    pub data_segment_length: u32,
}

impl TextResponse {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; F with C; C without text.
    pub fn parse(bhs: &Bhs) -> Result<TextResponse, WireError> {
        bhs.expect(Opcode::TextResponse)?;
        let (is_final, more) = parse_sequence(bhs)?;
        Ok(TextResponse {
            is_final,
            more,
            lun: bhs.lun(),
            itt: bhs.itt(),
            ttt: bhs.ttt(),
            numbers: TargetNumbers::parse(bhs),
            data_segment_length: bhs.data_segment_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        let flags = bit(self.is_final, FINAL) | bit(self.more, CONTINUE);
        begin(
            out,
            Opcode::TextResponse,
            false,
            flags,
            self.data_segment_length,
        );
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.ttt.0);
        self.numbers.emit(out);
    }
}
