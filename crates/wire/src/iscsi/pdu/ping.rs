//! NOP-Out and NOP-In (RFC 7143 sections 11.18 and 11.19): a ping and its echo, in either
//! direction.
use super::{FINAL, begin, emit_initiator_numbers, parse_initiator_numbers};
use crate::iscsi::{
    BHS_LENGTH, Bhs, CmdSn, Itt, Lun, Opcode, StatSn, TargetNumbers, Ttt, WireError,
};
use crate::octets::{put_u32, put_u64};

/// An initiator's ping, or its answer to a target's ping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NopOut {
    /// For immediate delivery; mandatory if `itt` is reserved.
    pub immediate: bool,
    /// Copied from the NOP-In that is answered; otherwise 0.
    pub lun: Lun,
    /// Tag of the ping; [`Itt::RESERVED`] requests no answer.
    pub itt: Itt,
    /// Copied from the NOP-In that is answered; otherwise [`Ttt::RESERVED`].
    pub ttt: Ttt,
    /// Command number; not consumed if `immediate`.
    pub cmd_sn: CmdSn,
    /// Next status number that the initiator expects.
    pub exp_stat_sn: StatSn,
    /// Length of the ping data, which a target echoes, bytes.
    pub data_segment_length: u32,
}

impl NopOut {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode.
    pub fn parse(bhs: &Bhs) -> Result<NopOut, WireError> {
        bhs.expect(Opcode::NopOut)?;
        let (cmd_sn, exp_stat_sn) = parse_initiator_numbers(bhs);
        Ok(NopOut {
            immediate: bhs.immediate(),
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
        begin(
            out,
            Opcode::NopOut,
            self.immediate,
            FINAL,
            self.data_segment_length,
        );
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.ttt.0);
        emit_initiator_numbers(out, self.cmd_sn, self.exp_stat_sn);
    }
}

/// A target's ping, or its answer to an initiator's ping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NopIn {
    /// A LUN if `ttt` is valid; otherwise 0.
    pub lun: Lun,
    /// Tag of the NOP-Out that is answered; [`Itt::RESERVED`] for a ping of the target.
    pub itt: Itt,
    /// Tag of the ping if the target requests an answer; otherwise [`Ttt::RESERVED`].
    pub ttt: Ttt,
    /// Numbers. StatSN advances only if `itt` is valid.
    pub numbers: TargetNumbers,
    /// Length of the echoed data, bytes.
    pub data_segment_length: u32,
}

impl NopIn {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode.
    pub fn parse(bhs: &Bhs) -> Result<NopIn, WireError> {
        bhs.expect(Opcode::NopIn)?;
        Ok(NopIn {
            lun: bhs.lun(),
            itt: bhs.itt(),
            ttt: bhs.ttt(),
            numbers: TargetNumbers::parse(bhs),
            data_segment_length: bhs.data_segment_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        begin(out, Opcode::NopIn, false, FINAL, self.data_segment_length);
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.ttt.0);
        self.numbers.emit(out);
    }
}
