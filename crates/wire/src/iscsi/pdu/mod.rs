//! One repr per PDU of RFC 7143 section 11, of initiators and of targets.
//!
//! `parse` requires a header of its own opcode and refuses fields that the section forbids. Fields
//! that depend on the session (numbers, tags, the phase) are checked by the session. `emit` writes
//! all 48 bytes, with TotalAHSLength 0 (see [`super::ahs::emit_total_length`]).
//! `data_segment_length` is in bytes without padding, at most 2^24 - 1: `emit` panics above.
mod data;
mod login;
mod notice;
mod ping;
mod scsi;
mod task;
mod text;

pub use data::{DataIn, DataInStatus, DataOut, R2t, Snack, SnackKind};
pub use login::{
    LoginRequest, LoginResponse, LoginStatus, LogoutReason, LogoutRequest, LogoutResponse,
    LogoutResult, Stage,
};
pub use notice::{AsyncEvent, AsyncMessage, Reject, RejectReason};
pub use ping::{NopIn, NopOut};
pub use scsi::{Residual, ScsiCommand, ScsiResponse, ScsiResponseCode, TaskAttribute};
pub use task::{
    TaskManagementFunction, TaskManagementRequest, TaskManagementResponse, TaskManagementResult,
};
pub use text::{TextRequest, TextResponse};

use super::{BHS_LENGTH, Bhs, CmdSn, Opcode, StatSn, TargetNumbers};
use crate::octets::{put_u24, put_u32};

/// F bit of byte 1; T in login PDUs. Always set in PDUs outside sequences.
const FINAL: u8 = 0x80;
/// C bit of byte 1 in text and login PDUs.
const CONTINUE: u8 = 0x40;
/// I bit of byte 0.
const IMMEDIATE: u8 = 0x40;

/// Zeroes the header and writes the fields that all PDUs have.
fn begin(
    out: &mut [u8; BHS_LENGTH],
    opcode: Opcode,
    immediate: bool,
    flags: u8,
    data_segment_length: u32,
) {
    *out = [0; BHS_LENGTH];
    out[0] = opcode.code() | if immediate { IMMEDIATE } else { 0 };
    out[1] = flags;
    put_u24(out, 5, data_segment_length);
}

fn bit(set: bool, mask: u8) -> u8 {
    if set { mask } else { 0 }
}

impl TargetNumbers {
    fn parse(bhs: &Bhs) -> TargetNumbers {
        TargetNumbers {
            stat_sn: StatSn(bhs.u32_at(24)),
            exp_cmd_sn: CmdSn(bhs.u32_at(28)),
            max_cmd_sn: CmdSn(bhs.u32_at(32)),
        }
    }

    fn emit(self, out: &mut [u8; BHS_LENGTH]) {
        put_u32(out, 24, self.stat_sn.0);
        put_u32(out, 28, self.exp_cmd_sn.0);
        put_u32(out, 32, self.max_cmd_sn.0);
    }
}

/// CmdSN and ExpStatSN, bytes 24 to 31 of most initiator PDUs.
fn parse_initiator_numbers(bhs: &Bhs) -> (CmdSn, StatSn) {
    (CmdSn(bhs.u32_at(24)), StatSn(bhs.u32_at(28)))
}

fn emit_initiator_numbers(out: &mut [u8; BHS_LENGTH], cmd_sn: CmdSn, exp_stat_sn: StatSn) {
    put_u32(out, 24, cmd_sn.0);
    put_u32(out, 28, exp_stat_sn.0);
}

/// Defines a code on the wire as a closed enum plus `Other`, so that every code of a peer
/// round-trips.
macro_rules! wire_code {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            /// Any other code.
            Other(u8),
        }

        impl $name {
            /// Returns the value of a code.
            pub const fn from_code(code: u8) -> Self {
                match code { $($code => Self::$variant,)* other => Self::Other(other) }
            }

            /// Returns the code.
            pub const fn code(self) -> u8 {
                match self { $(Self::$variant => $code,)* Self::Other(code) => code }
            }
        }
    };
}
use wire_code;

#[cfg(test)]
mod tests;
