//! Checks whether 48 bytes can be the header of a PDU if their place in the stream does not prove
//! it.
//!
//! RFC 7143 leaves many bits of every header reserved, so 48 bytes of anything else almost never
//! pass. Zeros, the most frequent data, never pass: a header without the F bit must be a Data-Out
//! or Data-In with data, or begin a sequence of text.
use std::ops::Range;

use hakaru_wire::iscsi::{
    Bhs, DataIn, DataOut, Itt, Opcode, R2t, ScsiCommand, ScsiResponse, TargetNumbers,
};

use crate::Sender;

/// Longest text of a login or text PDU that is accepted, bytes.
const TEXT_LENGTH_MAX: u32 = 64 << 10;
/// Widest command window that is accepted, commands.
const WINDOW_MAX: u32 = 1 << 16;
/// Longest additional headers that are accepted, bytes: an extended CDB and a bidirectional length.
const AHS_LENGTH_MAX: usize = 272;

/// Returns whether these bytes can be the next header of a stream whose PDUs were all read so far.
pub(crate) fn follows(bhs: &Bhs, sender: Sender) -> bool {
    let Some(opcode) = bhs.opcode() else {
        return false;
    };
    bhs.as_bytes()[0] & 0x80 == 0
        && Sender::of(opcode) == sender
        && (bhs.ahs_length() == 0
            || opcode == Opcode::ScsiCommand && bhs.ahs_length() <= AHS_LENGTH_MAX)
}

/// Returns whether every field has a value that its opcode allows. `sender`: the sender of the
/// stream, if known.
pub(crate) fn is_header(bhs: &Bhs, sender: Option<Sender>) -> bool {
    let Some(opcode) = bhs.opcode() else {
        return false;
    };
    follows(bhs, sender.unwrap_or(Sender::of(opcode))) && fields_fit(bhs, opcode)
}

fn fields_fit(bhs: &Bhs, opcode: Opcode) -> bool {
    match Sender::of(opcode) {
        Sender::Initiator => request_fits(bhs, opcode),
        Sender::Target => bhs.as_bytes()[0] & 0x40 == 0 && response_fits(bhs, opcode),
    }
}

/// Returns whether the bytes of a range of the header are 0.
fn is_zero(bhs: &Bhs, range: Range<usize>) -> bool {
    bhs.as_bytes()[range].iter().all(|&byte| byte == 0)
}

/// Checks the fields of an initiator's PDU.
fn request_fits(bhs: &Bhs, opcode: Opcode) -> bool {
    let bytes = bhs.as_bytes();
    let zero = |range| is_zero(bhs, range);
    let length = bhs.data_segment_length();
    match opcode {
        Opcode::ScsiCommand => {
            ScsiCommand::parse(bhs).is_ok_and(|command| {
                command.itt != Itt::RESERVED
                    && bytes[1] & 0x18 == 0
                    && command.attribute.code() <= 4
                    && (command.cmd_sn.0 != 0 || command.exp_stat_sn.0 != 0)
                    && (command.expected_data_transfer_length > 0
                        || !command.read && !command.write)
                    && length <= command.expected_data_transfer_length
            }) && zero(2..4)
                && zero(10..16)
        }
        Opcode::DataOut => {
            DataOut::parse(bhs).is_ok_and(|data| data.itt != Itt::RESERVED && length > 0)
                && bytes[1] & 0x7f == 0
                && zero(2..4)
                && (zero(10..16) || bytes[8..16] == [0xff; 8])
                && zero(24..28)
                && zero(32..36)
                && zero(44..48)
        }
        Opcode::LoginRequest => {
            bytes[0] == 0x43
                && zero(2..4)
                && login_flags_fit(bytes[1])
                && text_fits(length)
                && zero(32..48)
        }
        Opcode::TextRequest => {
            text_flags_fit(bytes[1])
                && zero(2..4)
                && text_fits(length)
                && bhs.itt() != Itt::RESERVED
                && zero(32..48)
        }
        Opcode::TaskManagementRequest => {
            bytes[1] > 0x80 && bytes[1] <= 0x8e && zero(2..4) && length == 0
        }
        Opcode::LogoutRequest => {
            bytes[1] & 0x80 != 0 && bytes[1] <= 0x82 && zero(2..4) && length == 0 && zero(32..48)
        }
        Opcode::Snack => bytes[1] & 0xf0 == 0x80 && zero(2..4) && length == 0 && zero(32..40),
        Opcode::NopOut => nop_fits(bhs),
        Opcode::NopIn
        | Opcode::ScsiResponse
        | Opcode::TaskManagementResponse
        | Opcode::LoginResponse
        | Opcode::TextResponse
        | Opcode::DataIn
        | Opcode::LogoutResponse
        | Opcode::R2t
        | Opcode::AsyncMessage
        | Opcode::Reject => false,
    }
}

/// Checks the fields of a target's PDU.
fn response_fits(bhs: &Bhs, opcode: Opcode) -> bool {
    let bytes = bhs.as_bytes();
    let zero = |range| is_zero(bhs, range);
    let length = bhs.data_segment_length();
    match opcode {
        Opcode::DataIn => {
            DataIn::parse(bhs).is_ok_and(|data| {
                data.itt != Itt::RESERVED
                    && window_fits(data.numbers)
                    && (data.status.is_some() || bytes[3] == 0 && zero(44..48))
            }) && bytes[1] & 0x38 == 0
                && bytes[2] == 0
        }
        Opcode::R2t => {
            R2t::parse(bhs).is_ok_and(|r2t| r2t.itt != Itt::RESERVED && window_fits(r2t.numbers))
                && bytes[1] == 0x80
                && zero(2..4)
        }
        Opcode::ScsiResponse => {
            ScsiResponse::parse(bhs).is_ok_and(|response| window_fits(response.numbers))
                && bytes[1] & 0xe1 == 0x80
                && bytes[2] <= 1
                && length <= TEXT_LENGTH_MAX
        }
        // The status is four bytes from 36 on: a class of 0 to 3, and a detail below 0x20.
        Opcode::LoginResponse => {
            zero(2..4)
                && login_flags_fit(bytes[1])
                && text_fits(length)
                && bytes[36] <= 3
                && bytes[37] < 0x20
                && zero(20..24)
                && zero(38..48)
        }
        Opcode::TextResponse => {
            text_flags_fit(bytes[1])
                && zero(2..4)
                && text_fits(length)
                && bhs.itt() != Itt::RESERVED
                && window_fits(target_numbers(bytes))
                && zero(36..48)
        }
        Opcode::TaskManagementResponse | Opcode::LogoutResponse => {
            bytes[1] == 0x80
                && bytes[3] == 0
                && length == 0
                && window_fits(target_numbers(bytes))
                && bhs.itt() != Itt::RESERVED
        }
        Opcode::AsyncMessage => {
            bytes[1] == 0x80
                && zero(2..4)
                && bytes[16..20] == [0xff; 4]
                && length <= TEXT_LENGTH_MAX
        }
        Opcode::Reject => {
            bytes[1] == 0x80 && bytes[3] == 0 && length >= 48 && bytes[16..20] == [0xff; 4]
        }
        Opcode::NopIn => nop_fits(bhs) && window_fits(target_numbers(bytes)),
        Opcode::NopOut
        | Opcode::ScsiCommand
        | Opcode::TaskManagementRequest
        | Opcode::LoginRequest
        | Opcode::TextRequest
        | Opcode::DataOut
        | Opcode::LogoutRequest
        | Opcode::Snack => false,
    }
}

/// Checks the fields that a NOP-Out and a NOP-In share.
fn nop_fits(bhs: &Bhs) -> bool {
    bhs.as_bytes()[1] == 0x80
        && is_zero(bhs, 2..4)
        && bhs.data_segment_length() <= TEXT_LENGTH_MAX
        && (bhs.itt() != Itt::RESERVED || bhs.ttt().0 != 0)
        && is_zero(bhs, 36..48)
}

/// Checks that T and C exclude each other, CSG and NSG are 0, 1 or 3, and without T there is no NSG
/// (RFC 7143 sections 11.12.1 to 11.12.3).
fn login_flags_fit(flags: u8) -> bool {
    let (transit, more) = (flags & 0x80 != 0, flags & 0x40 != 0);
    let (current, next) = (flags >> 2 & 3, flags & 3);
    flags & 0x30 == 0
        && !(transit && more)
        && current < 2
        && (next == 0 || transit && next != 2 && next > current)
}

/// Checks that F and C exclude each other and no other flag is set (RFC 7143 section 11.10.1).
fn text_flags_fit(flags: u8) -> bool {
    flags & 0x3f == 0 && flags != 0xc0
}

fn text_fits(length: u32) -> bool {
    length <= TEXT_LENGTH_MAX
}

/// Checks that ExpCmdSN and MaxCmdSN span a plausible window; in a closed window MaxCmdSN is
/// ExpCmdSN - 1.
fn window_fits(numbers: TargetNumbers) -> bool {
    let width = numbers
        .max_cmd_sn
        .0
        .wrapping_sub(numbers.exp_cmd_sn.0)
        .wrapping_add(1);
    width <= WINDOW_MAX && (numbers.exp_cmd_sn.0 != 0 || numbers.stat_sn.0 != 0)
}

fn target_numbers(bytes: &[u8; 48]) -> TargetNumbers {
    use hakaru_wire::iscsi::{CmdSn, StatSn};
    let at =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    TargetNumbers {
        stat_sn: StatSn(at(24)),
        exp_cmd_sn: CmdSn(at(28)),
        max_cmd_sn: CmdSn(at(32)),
    }
}
