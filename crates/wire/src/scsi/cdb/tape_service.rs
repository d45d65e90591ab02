//! Commands that serve a tape drive and its cartridge beside the data: diagnostics, buffers, LOG
//! SELECT (SPC-4), ALLOW OVERWRITE (SSC-4) and WRITE ATTRIBUTE (SPC-4).
use super::error::{CdbError, invalid};
use super::mode::PageControl;
use crate::octets::{put_u16, put_u24, put_u32, put_u64, u16_at, u24_at, u32_at, u64_at};

/// Operation codes of these commands.
#[allow(missing_docs)] // Each constant is named after its command.
pub mod service_opcode {
    pub const RECEIVE_DIAGNOSTIC_RESULTS: u8 = 0x1c;
    pub const SEND_DIAGNOSTIC: u8 = 0x1d;
    pub const READ_BUFFER: u8 = 0x3c;
    pub const LOG_SELECT: u8 = 0x4c;
    pub const ALLOW_OVERWRITE: u8 = 0x82;
    pub const WRITE_ATTRIBUTE: u8 = 0x8d;
}

use service_opcode as opcode;

/// A command that serves a tape drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapeService {
    /// RECEIVE DIAGNOSTIC RESULTS.
    ReceiveDiagnostic {
        /// Page, if PCV is set.
        page: Option<u8>,
        /// Maximum length of the answer, bytes.
        allocation_length: u16,
    },
    /// SEND DIAGNOSTIC.
    SendDiagnostic {
        /// SELFTEST: the default self-test.
        self_test: bool,
        /// SELF-TEST CODE, 3 bits: another self-test.
        code: u8,
        /// Bytes of the parameter list.
        parameter_list_length: u16,
    },
    /// READ BUFFER.
    ReadBuffer {
        /// MODE, 5 bits.
        mode: u8,
        /// BUFFER ID.
        buffer: u8,
        /// BUFFER OFFSET, 24 bits.
        offset: u32,
        /// Maximum length of the answer, bytes, 24 bits.
        allocation_length: u32,
    },
    /// LOG SELECT.
    LogSelect {
        /// PCR: reset all parameters.
        reset: bool,
        /// SP: save the values.
        save: bool,
        /// Values to change: `Current` and `Default` are thresholds, the others cumulative values.
        control: PageControl,
        /// Page, 6 bits.
        page: u8,
        /// Subpage.
        subpage: u8,
        /// Bytes of the parameter list.
        parameter_list_length: u16,
    },
    /// ALLOW OVERWRITE.
    AllowOverwrite {
        /// ALLOW OVERWRITE, 4 bits: 0 nothing, 1 from the position on, 2 with FORMAT MEDIUM.
        allowed: u8,
        /// Partition.
        partition: u8,
        /// The position, for 1.
        object: u64,
    },
    /// WRITE ATTRIBUTE of the memory in the cartridge.
    WriteAttribute {
        /// Partition.
        partition: u8,
        /// Bytes of the parameter list.
        parameter_list_length: u32,
    },
}

impl TapeService {
    /// Parses these commands; `None` for any other. `cdb` has the length of the operation code's
    /// group.
    pub(super) fn parse(opcode: u8, cdb: &[u8]) -> Option<Result<TapeService, CdbError>> {
        Some(Ok(match opcode {
            opcode::RECEIVE_DIAGNOSTIC_RESULTS => TapeService::ReceiveDiagnostic {
                page: (cdb[1] & 1 != 0).then_some(cdb[2]),
                allocation_length: u16_at(cdb, 3),
            },
            opcode::SEND_DIAGNOSTIC => TapeService::SendDiagnostic {
                self_test: cdb[1] & 4 != 0,
                code: cdb[1] >> 5,
                parameter_list_length: u16_at(cdb, 3),
            },
            opcode::READ_BUFFER => TapeService::ReadBuffer {
                mode: cdb[1] & 0x1f,
                buffer: cdb[2],
                offset: u24_at(cdb, 3),
                allocation_length: u24_at(cdb, 6),
            },
            opcode::LOG_SELECT => TapeService::LogSelect {
                reset: cdb[1] & 2 != 0,
                save: cdb[1] & 1 != 0,
                control: PageControl::from_code(cdb[2] >> 6),
                page: cdb[2] & 0x3f,
                subpage: cdb[3],
                parameter_list_length: u16_at(cdb, 7),
            },
            opcode::ALLOW_OVERWRITE => TapeService::AllowOverwrite {
                allowed: cdb[2] & 0x0f,
                partition: cdb[3],
                object: u64_at(cdb, 4),
            },
            // LOGICAL VOLUME NUMBER: a cartridge is one volume.
            opcode::WRITE_ATTRIBUTE if cdb[5] != 0 => return Some(Err(invalid(5, 7))),
            opcode::WRITE_ATTRIBUTE => TapeService::WriteAttribute {
                partition: cdb[7],
                parameter_list_length: u32_at(cdb, 10),
            },
            _ => return None,
        }))
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        match self {
            TapeService::ReceiveDiagnostic {
                page,
                allocation_length,
            } => {
                out[0] = opcode::RECEIVE_DIAGNOSTIC_RESULTS;
                out[1] = page.is_some().into();
                out[2] = page.unwrap_or(0);
                put_u16(out, 3, allocation_length);
            }
            TapeService::SendDiagnostic {
                self_test,
                code,
                parameter_list_length,
            } => {
                out[0] = opcode::SEND_DIAGNOSTIC;
                out[1] = code << 5 | u8::from(self_test) << 2;
                put_u16(out, 3, parameter_list_length);
            }
            TapeService::ReadBuffer {
                mode,
                buffer,
                offset,
                allocation_length,
            } => {
                out[..3].copy_from_slice(&[opcode::READ_BUFFER, mode & 0x1f, buffer]);
                put_u24(out, 3, offset);
                put_u24(out, 6, allocation_length);
            }
            TapeService::LogSelect {
                reset,
                save,
                control,
                page,
                subpage,
                parameter_list_length,
            } => {
                out[0] = opcode::LOG_SELECT;
                out[1] = u8::from(reset) << 1 | u8::from(save);
                out[2] = (control as u8) << 6 | page & 0x3f;
                out[3] = subpage;
                put_u16(out, 7, parameter_list_length);
            }
            TapeService::AllowOverwrite {
                allowed,
                partition,
                object,
            } => {
                out[..4].copy_from_slice(&[opcode::ALLOW_OVERWRITE, 0, allowed & 0x0f, partition]);
                put_u64(out, 4, object);
            }
            TapeService::WriteAttribute {
                partition,
                parameter_list_length,
            } => {
                out[0] = opcode::WRITE_ATTRIBUTE;
                out[7] = partition;
                put_u32(out, 10, parameter_list_length);
            }
        }
    }
}
