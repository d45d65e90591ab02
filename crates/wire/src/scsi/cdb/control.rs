//! Commands for access to an LU and for its capabilities: PERSISTENT RESERVE IN and OUT, RESERVE
//! and RELEASE (6, 10), PREVENT ALLOW MEDIUM REMOVAL, MODE SELECT (6, 10), LOG SENSE, and the
//! reports of MAINTENANCE IN (SPC-4 section 6; SPC-2 sections 7.16 and 7.21 for RESERVE and
//! RELEASE).
use super::error::{CdbError, invalid};
use super::mode::PageControl;
use super::opcode;
use crate::octets::{put_u16, put_u32, u16_at, u32_at};

/// Service actions of MAINTENANCE IN.
pub mod maintenance_in {
    /// REPORT IDENTIFYING INFORMATION.
    pub const REPORT_IDENTIFYING_INFORMATION: u8 = 0x05;
    /// REPORT TARGET PORT GROUPS.
    pub const REPORT_TARGET_PORT_GROUPS: u8 = 0x0a;
    /// REPORT SUPPORTED OPERATION CODES.
    pub const REPORT_SUPPORTED_OPERATION_CODES: u8 = 0x0c;
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
    pub const REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS: u8 = 0x0d;
}

/// Service actions of MAINTENANCE OUT.
pub mod maintenance_out {
    /// SET IDENTIFYING INFORMATION.
    pub const SET_IDENTIFYING_INFORMATION: u8 = 0x06;
    /// SET TARGET PORT GROUPS.
    pub const SET_TARGET_PORT_GROUPS: u8 = 0x0a;
}

/// PERSISTENT RESERVE OUT. The keys are in its parameter list,
/// [`crate::scsi::ReserveOutParameters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistentReserveOut {
    /// SERVICE ACTION, 0 to 31; see [`crate::scsi::ReserveOut`].
    pub service_action: u8,
    /// SCOPE, 0 to 15; 0 is the LU.
    pub scope: u8,
    /// TYPE, 0 to 15; see [`crate::scsi::ReservationType`].
    pub kind: u8,
    /// Bytes of the parameter list.
    pub parameter_list_length: u32,
}

/// MODE SELECT(6) or (10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSelect {
    /// Ten-byte form, whose header is 8 bytes long instead of 4.
    pub ten: bool,
    /// PF: pages in the format of the standards.
    pub page_format: bool,
    /// SP: save the pages across power cycles.
    pub save_pages: bool,
    /// Bytes of the parameter list.
    pub parameter_list_length: u16,
}

/// LOG SENSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSense {
    /// SP: save the values.
    pub save: bool,
    /// Values requested; `Saved` means 11b, default cumulative values.
    pub control: PageControl,
    /// Page.
    pub page: u8,
    /// Subpage; FFh with page 0 requests the list of pages and subpages.
    pub subpage: u8,
    /// First parameter requested.
    pub parameter_pointer: u16,
    /// Maximum length of the answer, bytes.
    pub allocation_length: u16,
}

/// REPORTING OPTIONS of REPORT SUPPORTED OPERATION CODES, with their arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedCommands {
    /// 000b: all commands.
    All,
    /// 001b: a command that has no service actions.
    Opcode(u8),
    /// 010b: a command with a service action.
    ServiceAction(u8, u16),
    /// 011b: a command; the service action is used if the command has service actions.
    Either(u8, u16),
}

impl PersistentReserveOut {
    pub(super) fn parse(cdb: &[u8]) -> PersistentReserveOut {
        PersistentReserveOut {
            service_action: cdb[1] & 0x1f,
            scope: cdb[2] >> 4,
            kind: cdb[2] & 0x0f,
            parameter_list_length: u32_at(cdb, 5),
        }
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        out[..3].copy_from_slice(&[
            opcode::PERSISTENT_RESERVE_OUT,
            self.service_action & 0x1f,
            self.scope << 4 | self.kind & 0x0f,
        ]);
        put_u32(out, 5, self.parameter_list_length);
    }
}

/// Refuses third-party reservations and extents, which are obsolete.
pub(super) fn check_reserve(cdb: &[u8]) -> Result<(), CdbError> {
    match cdb[1] & 0x1f {
        0 => Ok(()),
        _ => Err(invalid(1, 4)),
    }
}

impl ModeSelect {
    pub(super) fn parse(opcode: u8, cdb: &[u8]) -> ModeSelect {
        let ten = opcode == opcode::MODE_SELECT_10;
        ModeSelect {
            ten,
            page_format: cdb[1] & 0x10 != 0,
            save_pages: cdb[1] & 1 != 0,
            parameter_list_length: if ten {
                u16_at(cdb, 7)
            } else {
                u16::from(cdb[4])
            },
        }
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        out[1] = u8::from(self.page_format) << 4 | u8::from(self.save_pages);
        if self.ten {
            out[0] = opcode::MODE_SELECT_10;
            put_u16(out, 7, self.parameter_list_length);
        } else {
            out[0] = opcode::MODE_SELECT_6;
            out[4] = u8::try_from(self.parameter_list_length).unwrap_or(u8::MAX);
        }
    }
}

impl LogSense {
    pub(super) fn parse(cdb: &[u8]) -> LogSense {
        LogSense {
            save: cdb[1] & 1 != 0,
            control: PageControl::from_code(cdb[2] >> 6),
            page: cdb[2] & 0x3f,
            subpage: cdb[3],
            parameter_pointer: u16_at(cdb, 5),
            allocation_length: u16_at(cdb, 7),
        }
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        out[..4].copy_from_slice(&[
            opcode::LOG_SENSE,
            u8::from(self.save),
            (self.control as u8) << 6 | self.page & 0x3f,
            self.subpage,
        ]);
        put_u16(out, 5, self.parameter_pointer);
        put_u16(out, 7, self.allocation_length);
    }
}

impl ReportedCommands {
    pub(super) fn parse(cdb: &[u8]) -> Result<ReportedCommands, CdbError> {
        let (opcode, service_action) = (cdb[3], u16_at(cdb, 4));
        Ok(match cdb[2] & 0x07 {
            0 => ReportedCommands::All,
            1 => ReportedCommands::Opcode(opcode),
            2 => ReportedCommands::ServiceAction(opcode, service_action),
            3 => ReportedCommands::Either(opcode, service_action),
            _ => return Err(invalid(2, 2)),
        })
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        let (option, opcode, service_action) = match self {
            ReportedCommands::All => (0, 0, 0),
            ReportedCommands::Opcode(opcode) => (1, opcode, 0),
            ReportedCommands::ServiceAction(opcode, action) => (2, opcode, action),
            ReportedCommands::Either(opcode, action) => (3, opcode, action),
        };
        out[1] = maintenance_in::REPORT_SUPPORTED_OPERATION_CODES;
        out[2] = option;
        out[3] = opcode;
        put_u16(out, 4, service_action);
    }
}
