//! Command descriptor blocks (SPC-4, SBC-3, SSC-3 and SMC-3): the requests that a disk, a tape
//! drive or a medium changer receives.
//!
//! The sizes of one command are unified: READ(6), (10), (12) and (16) are one [`Cdb::Read`].
//! `parse` refuses a command that is not implemented with the sense data that a device must
//! return for it. Some operation codes mean one command on a disk and another on a tape drive or a
//! changer, so [`Cdb::parse_for`] takes the device type.
//!
//! This file maps operation codes to commands and back. `command` lists the commands. Each family
//! of commands has a file with its fields, their `parse` and their `emit`, which does not depend on
//! the list.

mod changer;
mod command;
mod control;
mod copy;
mod error;
mod extent;
mod mode;
pub mod opcode;
mod primary;
mod stream;
mod tape_service;
#[cfg(test)]
mod tape_tests;
#[cfg(test)]
mod tests;
mod transfer;

pub use changer::{ChangerCommand, changer_opcode};
pub use command::Cdb;
pub use control::{
    LogSense, ModeSelect, PersistentReserveOut, ReportedCommands, maintenance_in, maintenance_out,
};
pub use copy::CopyResults;
pub use error::CdbError;
pub use extent::{
    ByteCheck, ReadDefectData, Sanitize, SanitizeAction, Verify, WriteAtomic, WriteSame,
};
pub use mode::{ModeSense, PageControl};
pub use primary::StartStopUnit;
pub use stream::{AttributeForm, PositionForm, SpaceCode, StreamCommand, stream_opcode};
pub use tape_service::{TapeService, service_opcode};
pub use transfer::Transfer;

use crate::octets::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use error::invalid;
use extent::{emit_extent, emit_extent_16, extent};
use transfer::{emit_transfer, transfer, transfer_6};

/// Service actions of SERVICE ACTION IN(16).
const READ_CAPACITY_16_ACTION: u8 = 0x10;
const GET_LBA_STATUS_ACTION: u8 = 0x12;

/// Returns the length of a CDB from the group of its operation code (SPC-4 section 4.2.5.1). `None`
/// for variable-length CDBs, and for vendor-specific ones that no device here has.
fn length_of(opcode: u8) -> Option<usize> {
    if opcode == changer_opcode::INITIALIZE_ELEMENT_STATUS_WITH_RANGE_VENDOR {
        return Some(10);
    }
    match opcode >> 5 {
        0 => Some(6),
        1 | 2 => Some(10),
        4 => Some(16),
        5 => Some(12),
        _ => None,
    }
}

/// Type of a device: PERIPHERAL DEVICE TYPE of its INQUIRY data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum DeviceType {
    /// A disk.
    #[default]
    Disk = 0x00,
    /// A tape drive.
    Tape = 0x01,
    /// A medium changer.
    Changer = 0x08,
}

impl Cdb {
    /// Parses a command for a device of this type. A command that means the same on every device
    /// is parsed for each of them, so the caller must check whether its device supports it.
    ///
    /// # Errors
    /// As [`Cdb::parse`].
    pub fn parse_for(device: DeviceType, bytes: &[u8]) -> Result<Cdb, CdbError> {
        if device == DeviceType::Disk {
            return Cdb::parse(bytes);
        }
        let (opcode, cdb) = split(bytes)?;
        let command = if device == DeviceType::Tape {
            let of_data = StreamCommand::parse(opcode, cdb);
            let of_data = of_data.map(|command| command.map(Cdb::Stream));
            of_data.or_else(|| {
                let service = TapeService::parse(opcode, cdb)?;
                Some(service.map(Cdb::TapeService))
            })
        } else {
            ChangerCommand::parse(opcode, cdb).map(|command| command.map(Cdb::Changer))
        };
        check_control(command.unwrap_or_else(|| parse_other(opcode, cdb)), cdb)
    }

    /// Parses a command of a disk. `bytes` may be longer than the command, as the 16 bytes of an iSCSI PDU
    /// are.
    ///
    /// # Errors
    /// An operation code or service action that is not listed here; a nonzero field that must be
    /// zero, including NACA; too few bytes.
    pub fn parse(bytes: &[u8]) -> Result<Cdb, CdbError> {
        let (opcode, cdb) = split(bytes)?;
        let command = match opcode {
            opcode::READ_10 | opcode::READ_12 | opcode::READ_16 => {
                let (lba, blocks) = extent(cdb);
                Ok(Cdb::Read(transfer(cdb, lba, blocks)))
            }
            opcode::WRITE_10 | opcode::WRITE_12 | opcode::WRITE_16 => {
                let (lba, blocks) = extent(cdb);
                Ok(Cdb::Write(transfer(cdb, lba, blocks)))
            }
            _ => parse_other(opcode, cdb),
        };
        check_control(command, cdb)
    }
}

/// Returns the operation code and the command without the bytes after it.
fn split(bytes: &[u8]) -> Result<(u8, &[u8]), CdbError> {
    let opcode = *bytes.first().ok_or(CdbError::Short)?;
    let length = length_of(opcode).ok_or(CdbError::UnsupportedOpcode(opcode))?;
    let cdb = bytes.get(..length).ok_or(CdbError::Short)?;
    Ok((opcode, cdb))
}

/// Refuses NACA. CONTROL is always the last byte. NACA requires auto contingent allegiance, which
/// INQUIRY (NORMACA) reports as unsupported.
fn check_control(command: Result<Cdb, CdbError>, cdb: &[u8]) -> Result<Cdb, CdbError> {
    let last = cdb.len() - 1;
    if command.is_ok() && cdb[last] & 0x04 != 0 {
        return Err(invalid(last as u16, 2));
    }
    command
}

/// Parses every command other than READ and WRITE (10, 12, 16).
fn parse_other(opcode: u8, cdb: &[u8]) -> Result<Cdb, CdbError> {
    Ok(match opcode {
        opcode::READ_6 => Cdb::Read(transfer_6(cdb)),
        opcode::WRITE_6 => Cdb::Write(transfer_6(cdb)),
        opcode::TEST_UNIT_READY => Cdb::TestUnitReady,
        opcode::REQUEST_SENSE => Cdb::RequestSense {
            descriptor_format: cdb[1] & 1 != 0,
            allocation_length: cdb[4],
        },
        opcode::INQUIRY => {
            let (page, allocation_length) = primary::parse_inquiry(cdb)?;
            Cdb::Inquiry {
                page,
                allocation_length,
            }
        }
        opcode::MODE_SENSE_6 | opcode::MODE_SENSE_10 => {
            Cdb::ModeSense(ModeSense::parse(opcode, cdb))
        }
        opcode::MODE_SELECT_6 | opcode::MODE_SELECT_10 => {
            Cdb::ModeSelect(ModeSelect::parse(opcode, cdb))
        }
        opcode::LOG_SENSE => Cdb::LogSense(LogSense::parse(cdb)),
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
        opcode::PERSISTENT_RESERVE_OUT => {
            Cdb::PersistentReserveOut(PersistentReserveOut::parse(cdb))
        }
        opcode::MAINTENANCE_IN => parse_maintenance_in(cdb)?,
        opcode::MAINTENANCE_OUT => match cdb[1] & 0x1f {
            maintenance_out::SET_IDENTIFYING_INFORMATION => Cdb::SetIdentifyingInformation {
                information_type: cdb[10] >> 1,
                parameter_list_length: u32_at(cdb, 6),
            },
            maintenance_out::SET_TARGET_PORT_GROUPS => Cdb::SetTargetPortGroups {
                parameter_list_length: u32_at(cdb, 6),
            },
            _ => return Err(invalid(1, 4)),
        },
        opcode::START_STOP_UNIT => Cdb::StartStopUnit(StartStopUnit::parse(cdb)),
        opcode::READ_CAPACITY_10 => {
            primary::check_read_capacity_10(cdb)?;
            Cdb::ReadCapacity10
        }
        opcode::SERVICE_ACTION_IN_16 => match cdb[1] & 0x1f {
            READ_CAPACITY_16_ACTION => Cdb::ReadCapacity16 {
                allocation_length: u32_at(cdb, 10),
            },
            GET_LBA_STATUS_ACTION => Cdb::GetLbaStatus {
                lba: u64_at(cdb, 2),
                allocation_length: u32_at(cdb, 10),
            },
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
            Cdb::Verify(Verify::parse(cdb, true)?)
        }
        opcode::WRITE_AND_VERIFY_10 | opcode::WRITE_AND_VERIFY_12 | opcode::WRITE_AND_VERIFY_16 => {
            Cdb::WriteAndVerify(Verify::parse(cdb, false)?)
        }
        opcode::COMPARE_AND_WRITE => {
            Cdb::CompareAndWrite(transfer(cdb, u64_at(cdb, 2), u32::from(cdb[13])))
        }
        opcode::ORWRITE_16 => Cdb::OrWrite(transfer(cdb, u64_at(cdb, 2), u32_at(cdb, 10))),
        opcode::WRITE_ATOMIC_16 => Cdb::WriteAtomic(WriteAtomic::parse(cdb)),
        opcode::WRITE_SAME_10 | opcode::WRITE_SAME_16 => Cdb::WriteSame(WriteSame::parse(cdb)),
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
        opcode::SANITIZE => Cdb::Sanitize(Sanitize::parse(cdb)?),
        opcode::READ_DEFECT_DATA_10 | opcode::READ_DEFECT_DATA_12 => {
            Cdb::ReadDefectData(ReadDefectData::parse(cdb))
        }
        opcode::EXTENDED_COPY => Cdb::ExtendedCopy {
            parameter_list_length: copy::parse_extended_copy(cdb)?,
        },
        opcode::RECEIVE_COPY_RESULTS => Cdb::ReceiveCopyResults {
            results: CopyResults::parse(cdb)?,
            list: cdb[2],
            allocation_length: u32_at(cdb, 10),
        },
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

/// Parses a command of MAINTENANCE IN, chosen by its service action.
fn parse_maintenance_in(cdb: &[u8]) -> Result<Cdb, CdbError> {
    let allocation_length = u32_at(cdb, 6);
    Ok(match cdb[1] & 0x1f {
        maintenance_in::REPORT_IDENTIFYING_INFORMATION => Cdb::ReportIdentifyingInformation {
            information_type: cdb[10] >> 1,
            allocation_length,
        },
        maintenance_in::REPORT_TARGET_PORT_GROUPS => match cdb[1] >> 5 {
            format @ 0..=1 => Cdb::ReportTargetPortGroups {
                extended_header: format == 1,
                allocation_length,
            },
            _ => return Err(invalid(1, 7)),
        },
        maintenance_in::REPORT_SUPPORTED_OPERATION_CODES => Cdb::ReportSupportedOpcodes {
            commands: ReportedCommands::parse(cdb)?,
            timeouts: cdb[2] & 0x80 != 0,
            allocation_length,
        },
        maintenance_in::REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS => {
            Cdb::ReportSupportedTaskManagement {
                extended: cdb[2] & 0x80 != 0,
                allocation_length,
            }
        }
        _ => return Err(invalid(1, 4)),
    })
}

impl Cdb {
    /// Writes the command into the 16 bytes of an iSCSI PDU; the bytes after the command are zero.
    /// READ and WRITE take the ten-byte form if LBA and length fit it, else the 16-byte form.
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

    /// Writes READ(6) or WRITE(6). `None` for every other command and for a transfer that the
    /// six-byte form cannot encode: it has an LBA below 2^21, 1 to 256 blocks and no flags.
    pub fn emit_6(&self) -> Option<[u8; 16]> {
        match *self {
            Cdb::Read(transfer) => transfer.emit_6(opcode::READ_6),
            Cdb::Write(transfer) => transfer.emit_6(opcode::WRITE_6),
            _ => None,
        }
    }

    /// Writes every command other than READ and WRITE.
    fn emit_other(&self, out: &mut [u8; 16]) {
        match *self {
            Cdb::Read(_) | Cdb::Write(_) => {}
            Cdb::Stream(command) => command.emit(out),
            Cdb::TapeService(command) => command.emit(out),
            Cdb::Changer(command) => command.emit(out),
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
            Cdb::ModeSense(sense) => sense.emit(out),
            Cdb::ModeSelect(select) => select.emit(out),
            Cdb::LogSense(sense) => sense.emit(out),
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
            Cdb::PersistentReserveOut(request) => request.emit(out),
            Cdb::ReportIdentifyingInformation {
                information_type,
                allocation_length,
            } => {
                let action = maintenance_in::REPORT_IDENTIFYING_INFORMATION;
                out[..2].copy_from_slice(&[opcode::MAINTENANCE_IN, action]);
                put_u32(out, 6, allocation_length);
                out[10] = information_type << 1;
            }
            Cdb::SetIdentifyingInformation {
                information_type,
                parameter_list_length,
            } => {
                let action = maintenance_out::SET_IDENTIFYING_INFORMATION;
                out[..2].copy_from_slice(&[opcode::MAINTENANCE_OUT, action]);
                put_u32(out, 6, parameter_list_length);
                out[10] = information_type << 1;
            }
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
            Cdb::SetTargetPortGroups {
                parameter_list_length,
            } => {
                out[..2].copy_from_slice(&[
                    opcode::MAINTENANCE_OUT,
                    maintenance_out::SET_TARGET_PORT_GROUPS,
                ]);
                put_u32(out, 6, parameter_list_length);
            }
            Cdb::ReportSupportedOpcodes {
                commands,
                timeouts,
                allocation_length,
            } => {
                out[0] = opcode::MAINTENANCE_IN;
                commands.emit(out);
                out[2] |= u8::from(timeouts) << 7;
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
            Cdb::StartStopUnit(unit) => unit.emit(out),
            Cdb::ReadCapacity10 => out[0] = opcode::READ_CAPACITY_10,
            Cdb::ReadCapacity16 { allocation_length } => {
                out[..2].copy_from_slice(&[opcode::SERVICE_ACTION_IN_16, READ_CAPACITY_16_ACTION]);
                put_u32(out, 10, allocation_length);
            }
            Cdb::Verify(verify) => {
                verify.emit(out, (opcode::VERIFY_10, opcode::VERIFY_16));
            }
            Cdb::WriteAndVerify(verify) => {
                let opcodes = (opcode::WRITE_AND_VERIFY_10, opcode::WRITE_AND_VERIFY_16);
                verify.emit(out, opcodes);
            }
            Cdb::CompareAndWrite(transfer) => {
                let blocks = u8::try_from(transfer.blocks).unwrap_or(u8::MAX);
                extent::emit_compare_and_write(out, transfer.lba, blocks, transfer.flags());
            }
            Cdb::OrWrite(transfer) => {
                emit_extent_16(out, opcode::ORWRITE_16, transfer.lba, transfer.blocks);
                out[1] = transfer.flags();
            }
            Cdb::WriteAtomic(atomic) => atomic.emit(out),
            Cdb::WriteSame(same) => same.emit(out),
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
                out[..2].copy_from_slice(&[opcode::SERVICE_ACTION_IN_16, GET_LBA_STATUS_ACTION]);
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
            Cdb::Sanitize(sanitize) => sanitize.emit(out),
            Cdb::ReadDefectData(request) => request.emit(out),
            Cdb::ExtendedCopy {
                parameter_list_length,
            } => copy::emit_extended_copy(out, parameter_list_length),
            Cdb::ReceiveCopyResults {
                results,
                list,
                allocation_length,
            } => {
                out[..3].copy_from_slice(&[opcode::RECEIVE_COPY_RESULTS, results as u8, list]);
                put_u32(out, 10, allocation_length);
            }
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
