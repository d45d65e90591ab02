//! Command descriptor blocks (SPC-4 and SBC-3): what a disk is asked to do.
//!
//! The sizes of one command are unified: READ(6), (10), (12) and (16) are one [`Cdb::Read`]. `parse` refuses what is not implemented with the sense data
//! that a disk owes for it.
//!
//! Here is the list of commands and the table of operation codes both ways; each family has a file that knows where its fields lie.

mod control;
mod copy;
mod error;
mod extent;
mod mode;
pub mod opcode;
mod primary;
#[cfg(test)]
mod tests;
mod transfer;

pub use control::{LogSense, ModeSelect, PersistentReserveOut, ReportedCommands, maintenance_in};
pub use copy::CopyResults;
pub use error::CdbError;
pub use extent::{
    ByteCheck, ReadDefectData, Sanitize, SanitizeAction, Verify, WriteAtomic, WriteSame,
};
pub use mode::{ModeSense, PageControl};
pub use primary::StartStopUnit;
pub use transfer::Transfer;

use crate::octets::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use error::invalid;
use extent::{emit_extent, emit_extent_16, emit_verify, extent, parse_verify};
use transfer::{emit_transfer, transfer, transfer_6};

/// Service actions of SERVICE ACTION IN(16).
const READ_CAPACITY_16_ACTION: u8 = 0x10;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cdb {
    /// TEST UNIT READY.
    TestUnitReady,
    /// REQUEST SENSE.
    RequestSense {
        /// DESC: descriptor format.
        descriptor_format: bool,
        /// Bytes at most.
        allocation_length: u8,
    },
    /// INQUIRY.
    Inquiry {
        /// The vital product data page that is wanted; `None`: standard data.
        page: Option<u8>,
        /// Bytes at most.
        allocation_length: u16,
    },
    /// MODE SENSE.
    ModeSense(ModeSense),
    /// MODE SELECT.
    ModeSelect(ModeSelect),
    /// LOG SENSE.
    LogSense(LogSense),
    /// PREVENT ALLOW MEDIUM REMOVAL.
    PreventAllowMediumRemoval {
        /// PREVENT: 0 allows, 1 prevents; 2 and 3 have gone out of use.
        prevent: u8,
    },
    /// RESERVE.
    Reserve,
    /// RELEASE.
    Release,
    /// PERSISTENT RESERVE IN.
    PersistentReserveIn {
        /// SERVICE ACTION, 0 to 31; see [`crate::scsi::ReserveIn`].
        service_action: u8,
        /// Bytes at most.
        allocation_length: u16,
    },
    /// PERSISTENT RESERVE OUT.
    PersistentReserveOut(PersistentReserveOut),
    /// REPORT TARGET PORT GROUPS.
    ReportTargetPortGroups {
        /// The header is the extended one.
        extended_header: bool,
        /// Bytes at most.
        allocation_length: u32,
    },
    /// REPORT SUPPORTED OPERATION CODES.
    ReportSupportedOpcodes {
        /// Which.
        commands: ReportedCommands,
        /// RCTD: with command timeouts descriptors.
        timeouts: bool,
        /// Bytes at most.
        allocation_length: u32,
    },
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
    ReportSupportedTaskManagement {
        /// REPD: 16 bytes instead of 4.
        extended: bool,
        /// Bytes at most.
        allocation_length: u32,
    },
    /// START STOP UNIT.
    StartStopUnit(StartStopUnit),
    /// READ CAPACITY(10).
    ReadCapacity10,
    /// READ CAPACITY(16).
    ReadCapacity16 {
        /// Bytes at most.
        allocation_length: u32,
    },
    /// READ.
    Read(Transfer),
    /// WRITE.
    Write(Transfer),
    /// SYNCHRONIZE CACHE.
    SynchronizeCache {
        /// First block.
        lba: u64,
        /// Number of blocks; 0: to the end.
        blocks: u32,
        /// Answer at once.
        immediate: bool,
    },
    /// VERIFY.
    Verify(Verify),
    /// WRITE AND VERIFY.
    WriteAndVerify(Verify),
    /// COMPARE AND WRITE: at most 255 blocks.
    CompareAndWrite(Transfer),
    /// ORWRITE(16).
    OrWrite(Transfer),
    /// WRITE ATOMIC(16).
    WriteAtomic(WriteAtomic),
    /// WRITE SAME.
    WriteSame(WriteSame),
    /// UNMAP.
    Unmap {
        /// ANCHOR.
        anchor: bool,
        /// Bytes of the parameter list.
        parameter_list_length: u16,
    },
    /// GET LBA STATUS.
    GetLbaStatus {
        /// First block.
        lba: u64,
        /// Bytes at most.
        allocation_length: u32,
    },
    /// PRE-FETCH.
    PreFetch {
        /// First block.
        lba: u64,
        /// Number of blocks; 0: to the end.
        blocks: u32,
        /// Answer at once.
        immediate: bool,
    },
    /// SANITIZE.
    Sanitize(Sanitize),
    /// READ DEFECT DATA.
    ReadDefectData(ReadDefectData),
    /// EXTENDED COPY(LID1).
    ExtendedCopy {
        /// Bytes of the parameter list.
        parameter_list_length: u32,
    },
    /// RECEIVE COPY RESULTS.
    ReceiveCopyResults {
        /// What is asked for.
        results: CopyResults,
        /// LIST IDENTIFIER of the copy.
        list: u8,
        /// Bytes at most.
        allocation_length: u32,
    },
    /// REPORT LUNS.
    ReportLuns {
        /// SELECT REPORT: 0 addressable, 1 well-known only, 2 all.
        select_report: u8,
        /// Bytes at most.
        allocation_length: u32,
    },
}

/// Length of a CDB by the group of its operation code (SPC-4 section 4.2.5.1); `None` for variable-length and vendor-specific ones.
fn length_of(opcode: u8) -> Option<usize> {
    match opcode >> 5 {
        0 => Some(6),
        1 | 2 => Some(10),
        4 => Some(16),
        5 => Some(12),
        _ => None,
    }
}

impl Cdb {
    /// Reads a command; `bytes` may be longer than the command is, as iSCSI's 16 are.
    ///
    /// # Errors
    /// An operation code or service action that is not listed here; a field that must be zero, NACA among them; too few bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Cdb, CdbError> {
        let opcode = *bytes.first().ok_or(CdbError::Short)?;
        let length = length_of(opcode).ok_or(CdbError::UnsupportedOpcode(opcode))?;
        let cdb = bytes.get(..length).ok_or(CdbError::Short)?;
        let command = parse_known(opcode, cdb);
        // CONTROL, always the last byte: NACA would promise auto contingent allegiance, which INQUIRY's NORMACA denies.
        if command.is_ok() && cdb[length - 1] & 0x04 != 0 {
            return Err(invalid(length as u16 - 1, 2));
        }
        command
    }
}

#[inline]
fn parse_known(opcode: u8, cdb: &[u8]) -> Result<Cdb, CdbError> {
    match opcode {
        opcode::READ_10 | opcode::READ_12 | opcode::READ_16 => {
            let (lba, blocks) = extent(cdb);
            Ok(Cdb::Read(transfer(cdb, lba, blocks)))
        }
        opcode::WRITE_10 | opcode::WRITE_12 | opcode::WRITE_16 => {
            let (lba, blocks) = extent(cdb);
            Ok(Cdb::Write(transfer(cdb, lba, blocks)))
        }
        _ => parse_other(opcode, cdb),
    }
}

/// What is neither READ nor WRITE, or the six-byte form of these, apart from them so that callers get those two in line.
fn parse_other(opcode: u8, cdb: &[u8]) -> Result<Cdb, CdbError> {
    Ok(match opcode {
        opcode::READ_6 => Cdb::Read(transfer_6(cdb)),
        opcode::WRITE_6 => Cdb::Write(transfer_6(cdb)),
        opcode::TEST_UNIT_READY => Cdb::TestUnitReady,
        opcode::REQUEST_SENSE => Cdb::RequestSense {
            descriptor_format: cdb[1] & 1 != 0,
            allocation_length: cdb[4],
        },
        opcode::INQUIRY => primary::parse_inquiry(cdb)?,
        opcode::MODE_SENSE_6 | opcode::MODE_SENSE_10 => {
            Cdb::ModeSense(mode::parse_mode_sense(opcode, cdb))
        }
        opcode::MODE_SELECT_6 | opcode::MODE_SELECT_10 => control::parse_mode_select(opcode, cdb),
        opcode::LOG_SENSE => control::parse_log_sense(cdb),
        opcode::PREVENT_ALLOW_MEDIUM_REMOVAL => Cdb::PreventAllowMediumRemoval {
            prevent: cdb[4] & 3,
        },
        opcode::RESERVE_6 | opcode::RESERVE_10 => {
            control::check_reserve(cdb)?;
            Cdb::Reserve
        }
        opcode::RELEASE_6 | opcode::RELEASE_10 => {
            control::check_reserve(cdb)?;
            Cdb::Release
        }
        opcode::PERSISTENT_RESERVE_IN => Cdb::PersistentReserveIn {
            service_action: cdb[1] & 0x1f,
            allocation_length: u16_at(cdb, 7),
        },
        opcode::PERSISTENT_RESERVE_OUT => control::parse_reserve_out(cdb),
        opcode::MAINTENANCE_IN => control::parse_maintenance_in(cdb)?,
        opcode::START_STOP_UNIT => primary::parse_start_stop_unit(cdb),
        opcode::READ_CAPACITY_10 => primary::parse_read_capacity_10(cdb)?,
        opcode::SERVICE_ACTION_IN_16 => match cdb[1] & 0x1f {
            READ_CAPACITY_16_ACTION => Cdb::ReadCapacity16 {
                allocation_length: u32_at(cdb, 10),
            },
            extent::GET_LBA_STATUS_ACTION => extent::parse_get_lba_status(cdb),
            _ => return Err(invalid(1, 4)),
        },
        opcode::SYNCHRONIZE_CACHE_10 => Cdb::SynchronizeCache {
            lba: u64::from(u32_at(cdb, 2)),
            blocks: u32::from(u16_at(cdb, 7)),
            immediate: cdb[1] & 2 != 0,
        },
        opcode::SYNCHRONIZE_CACHE_16 => Cdb::SynchronizeCache {
            lba: u64_at(cdb, 2),
            blocks: u32_at(cdb, 10),
            immediate: cdb[1] & 2 != 0,
        },
        opcode::VERIFY_10 | opcode::VERIFY_12 | opcode::VERIFY_16 => {
            Cdb::Verify(parse_verify(cdb, true)?)
        }
        opcode::WRITE_AND_VERIFY_10 | opcode::WRITE_AND_VERIFY_12 | opcode::WRITE_AND_VERIFY_16 => {
            Cdb::WriteAndVerify(parse_verify(cdb, false)?)
        }
        opcode::COMPARE_AND_WRITE => {
            Cdb::CompareAndWrite(transfer(cdb, u64_at(cdb, 2), u32::from(cdb[13])))
        }
        opcode::ORWRITE_16 => Cdb::OrWrite(transfer(cdb, u64_at(cdb, 2), u32_at(cdb, 10))),
        opcode::WRITE_ATOMIC_16 => Cdb::WriteAtomic(extent::parse_write_atomic(cdb)),
        opcode::WRITE_SAME_10 | opcode::WRITE_SAME_16 => {
            Cdb::WriteSame(extent::parse_write_same(cdb))
        }
        opcode::UNMAP => Cdb::Unmap {
            anchor: cdb[1] & 1 != 0,
            parameter_list_length: u16_at(cdb, 7),
        },
        opcode::PRE_FETCH_10 | opcode::PRE_FETCH_16 => {
            let (lba, blocks) = extent(cdb);
            Cdb::PreFetch {
                lba,
                blocks,
                immediate: cdb[1] & 2 != 0,
            }
        }
        opcode::SANITIZE => Cdb::Sanitize(extent::parse_sanitize(cdb)?),
        opcode::READ_DEFECT_DATA_10 | opcode::READ_DEFECT_DATA_12 => {
            Cdb::ReadDefectData(extent::parse_read_defect_data(cdb))
        }
        opcode::EXTENDED_COPY => copy::parse_extended_copy(cdb)?,
        opcode::RECEIVE_COPY_RESULTS => copy::parse_receive_copy_results(cdb)?,
        opcode::REPORT_LUNS => match cdb[2] {
            select_report @ 0..=2 => Cdb::ReportLuns {
                select_report,
                allocation_length: u32_at(cdb, 6),
            },
            _ => return Err(CdbError::InvalidField { byte: 2, bit: None }),
        },
        _ => return Err(CdbError::UnsupportedOpcode(opcode)),
    })
}

/// What an initiator sends. READ and WRITE take the ten-byte form where it suffices, the 16-byte form otherwise.
impl Cdb {
    /// Writes the command into iSCSI's 16 bytes, zeros behind it.
    #[inline]
    pub fn emit(&self) -> [u8; 16] {
        let mut out = [0; 16];
        match *self {
            Cdb::Read(transfer) => {
                emit_transfer(&mut out, opcode::READ_10, opcode::READ_16, transfer)
            }
            Cdb::Write(transfer) => {
                emit_transfer(&mut out, opcode::WRITE_10, opcode::WRITE_16, transfer)
            }
            _ => self.emit_other(&mut out),
        }
        out
    }

    /// What is neither READ nor WRITE, apart from them so that callers get those two in line.
    fn emit_other(&self, out: &mut [u8; 16]) {
        match *self {
            Cdb::Read(_) | Cdb::Write(_) => {}
            Cdb::SynchronizeCache {
                lba,
                blocks,
                immediate,
            } => {
                let transfer = Transfer {
                    lba,
                    blocks,
                    ..Transfer::default()
                };
                emit_transfer(
                    out,
                    opcode::SYNCHRONIZE_CACHE_10,
                    opcode::SYNCHRONIZE_CACHE_16,
                    transfer,
                );
                out[1] = u8::from(immediate) << 1;
            }
            Cdb::TestUnitReady => {}
            Cdb::RequestSense {
                descriptor_format,
                allocation_length,
            } => {
                out[..5].copy_from_slice(&[
                    opcode::REQUEST_SENSE,
                    u8::from(descriptor_format),
                    0,
                    0,
                    allocation_length,
                ]);
            }
            Cdb::Inquiry {
                page,
                allocation_length,
            } => primary::emit_inquiry(out, page, allocation_length),
            Cdb::ModeSense(sense) => mode::emit_mode_sense(out, sense),
            Cdb::ModeSelect(select) => control::emit_mode_select(out, select),
            Cdb::LogSense(sense) => control::emit_log_sense(out, sense),
            Cdb::PreventAllowMediumRemoval { prevent } => {
                out[..5].copy_from_slice(&[
                    opcode::PREVENT_ALLOW_MEDIUM_REMOVAL,
                    0,
                    0,
                    0,
                    prevent & 3,
                ]);
            }
            Cdb::Reserve => out[0] = opcode::RESERVE_6,
            Cdb::Release => out[0] = opcode::RELEASE_6,
            Cdb::PersistentReserveIn {
                service_action,
                allocation_length,
            } => {
                out[..2].copy_from_slice(&[opcode::PERSISTENT_RESERVE_IN, service_action & 0x1f]);
                put_u16(out, 7, allocation_length);
            }
            Cdb::PersistentReserveOut(request) => control::emit_reserve_out(out, request),
            Cdb::ReportTargetPortGroups {
                extended_header,
                allocation_length,
            } => {
                let format = u8::from(extended_header) << 5;
                out[..2].copy_from_slice(&[
                    opcode::MAINTENANCE_IN,
                    format | maintenance_in::REPORT_TARGET_PORT_GROUPS,
                ]);
                put_u32(out, 6, allocation_length);
            }
            Cdb::ReportSupportedOpcodes {
                commands,
                timeouts,
                allocation_length,
            } => {
                out[0] = opcode::MAINTENANCE_IN;
                control::emit_supported_opcodes(out, commands, timeouts);
                put_u32(out, 6, allocation_length);
            }
            Cdb::ReportSupportedTaskManagement {
                extended,
                allocation_length,
            } => {
                let action = maintenance_in::REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS;
                out[..3].copy_from_slice(&[
                    opcode::MAINTENANCE_IN,
                    action,
                    u8::from(extended) << 7,
                ]);
                put_u32(out, 6, allocation_length);
            }
            Cdb::StartStopUnit(unit) => primary::emit_start_stop_unit(out, unit),
            Cdb::ReadCapacity10 => out[0] = opcode::READ_CAPACITY_10,
            Cdb::ReadCapacity16 { allocation_length } => {
                out[..2].copy_from_slice(&[opcode::SERVICE_ACTION_IN_16, READ_CAPACITY_16_ACTION]);
                put_u32(out, 10, allocation_length);
            }
            Cdb::Verify(verify) => {
                emit_verify(out, (opcode::VERIFY_10, opcode::VERIFY_16), verify);
            }
            Cdb::WriteAndVerify(verify) => {
                let opcodes = (opcode::WRITE_AND_VERIFY_10, opcode::WRITE_AND_VERIFY_16);
                emit_verify(out, opcodes, verify);
            }
            Cdb::CompareAndWrite(transfer) => {
                let blocks = u8::try_from(transfer.blocks).unwrap_or(u8::MAX);
                extent::emit_compare_and_write(out, transfer.lba, blocks, transfer.flags());
            }
            Cdb::OrWrite(transfer) => {
                emit_extent_16(out, opcode::ORWRITE_16, transfer.lba, transfer.blocks);
                out[1] = transfer.flags();
            }
            Cdb::WriteAtomic(atomic) => extent::emit_write_atomic(out, atomic),
            Cdb::WriteSame(same) => extent::emit_write_same(out, same),
            Cdb::Unmap {
                anchor,
                parameter_list_length,
            } => {
                out[..2].copy_from_slice(&[opcode::UNMAP, u8::from(anchor)]);
                put_u16(out, 7, parameter_list_length);
            }
            Cdb::GetLbaStatus {
                lba,
                allocation_length,
            } => {
                out[..2].copy_from_slice(&[
                    opcode::SERVICE_ACTION_IN_16,
                    extent::GET_LBA_STATUS_ACTION,
                ]);
                put_u64(out, 2, lba);
                put_u32(out, 10, allocation_length);
            }
            Cdb::PreFetch {
                lba,
                blocks,
                immediate,
            } => {
                let opcodes = (opcode::PRE_FETCH_10, opcode::PRE_FETCH_16);
                emit_extent(out, opcodes, lba, blocks);
                out[1] = u8::from(immediate) << 1;
            }
            Cdb::Sanitize(sanitize) => extent::emit_sanitize(out, sanitize),
            Cdb::ReadDefectData(request) => extent::emit_read_defect_data(out, request),
            Cdb::ExtendedCopy {
                parameter_list_length,
            } => copy::emit_extended_copy(out, parameter_list_length),
            Cdb::ReceiveCopyResults {
                results,
                list,
                allocation_length,
            } => copy::emit_receive_copy_results(out, results, list, allocation_length),
            Cdb::ReportLuns {
                select_report,
                allocation_length,
            } => {
                out[..3].copy_from_slice(&[opcode::REPORT_LUNS, 0, select_report]);
                put_u32(out, 6, allocation_length);
            }
        }
    }
}
