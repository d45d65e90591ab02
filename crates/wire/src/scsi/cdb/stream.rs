//! Commands of sequential-access devices (SSC-3), whose operation codes mean other commands on a
//! disk.
use super::error::{CdbError, invalid};
use crate::octets::{put_u16, put_u24, put_u32, put_u64, u16_at, u24_at, u32_at, u64_at};

/// Operation codes of tape drives.
#[allow(missing_docs)] // Each constant is named after its command.
pub mod stream_opcode {
    pub const REWIND: u8 = 0x01;
    pub const READ_BLOCK_LIMITS: u8 = 0x05;
    pub const READ_6: u8 = 0x08;
    pub const WRITE_6: u8 = 0x0a;
    pub const WRITE_FILEMARKS_6: u8 = 0x10;
    pub const SPACE_6: u8 = 0x11;
    pub const VERIFY_6: u8 = 0x13;
    pub const ERASE_6: u8 = 0x19;
    pub const LOAD_UNLOAD: u8 = 0x1b;
    pub const LOCATE_10: u8 = 0x2b;
    pub const READ_POSITION: u8 = 0x34;
    pub const REPORT_DENSITY_SUPPORT: u8 = 0x44;
    pub const READ_ATTRIBUTE: u8 = 0x8c;
    pub const SPACE_16: u8 = 0x91;
    pub const LOCATE_16: u8 = 0x92;
}

use stream_opcode as opcode;

/// Objects that SPACE passes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SpaceCode {
    /// Logical blocks.
    Blocks = 0,
    /// Filemarks.
    Filemarks = 1,
    /// To the end of the data; the count is ignored.
    EndOfData = 3,
}

/// Form of the answer to READ POSITION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PositionForm {
    /// 00h: short form, 20 bytes.
    Short = 0,
    /// 01h: short form with vendor-specific identifiers, 20 bytes.
    ShortVendor = 1,
    /// 06h: long form, 32 bytes.
    Long = 6,
    /// 08h: extended form, 32 bytes.
    Extended = 8,
}

/// Service action of READ ATTRIBUTE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AttributeForm {
    /// 00h: identifiers and values.
    Values = 0,
    /// 01h: identifiers of the attributes that have a value.
    List = 1,
    /// 05h: identifiers of the attributes that the drive knows.
    Supported = 5,
}

/// A command of a tape drive. SPACE and LOCATE have two sizes each; both are one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamCommand {
    /// REWIND.
    Rewind {
        /// IMMED: complete the command before the operation.
        immediate: bool,
    },
    /// READ BLOCK LIMITS.
    ReadBlockLimits,
    /// READ(6).
    Read {
        /// FIXED: `length` counts blocks of the length in the mode data, not bytes of one block.
        fixed: bool,
        /// SILI: a block of another length is no error.
        suppress_incorrect_length: bool,
        /// TRANSFER LENGTH, 24 bits.
        length: u32,
    },
    /// WRITE(6).
    Write {
        /// FIXED: as for READ.
        fixed: bool,
        /// TRANSFER LENGTH, 24 bits.
        length: u32,
    },
    /// VERIFY(6) without comparison.
    Verify {
        /// FIXED: as for READ.
        fixed: bool,
        /// IMMED: complete the command before the operation.
        immediate: bool,
        /// VERIFICATION LENGTH, 24 bits.
        length: u32,
    },
    /// WRITE FILEMARKS(6).
    WriteFilemarks {
        /// IMMED: complete the command before the filemarks are on the medium.
        immediate: bool,
        /// Number of filemarks, 24 bits; 0 writes buffered data to the medium.
        count: u32,
    },
    /// SPACE(6) and (16).
    Space {
        /// Objects to pass over.
        code: SpaceCode,
        /// Number of objects; negative towards the beginning.
        count: i64,
    },
    /// ERASE(6).
    Erase {
        /// LONG: to the end of the partition.
        long: bool,
        /// IMMED: complete the command before the operation.
        immediate: bool,
    },
    /// LOAD UNLOAD.
    LoadUnload {
        /// IMMED: complete the command before the operation.
        immediate: bool,
        /// LOAD: load the cartridge, otherwise unload it.
        load: bool,
        /// RETEN: wind the tape to its end and back first.
        retension: bool,
        /// EOT: unload at the end of the medium.
        end_of_tape: bool,
    },
    /// LOCATE(10) and (16) of a logical object.
    Locate {
        /// IMMED: complete the command before the operation.
        immediate: bool,
        /// Partition to change to, if CP is set.
        partition: Option<u8>,
        /// Number of the object from the beginning of the partition.
        object: u64,
    },
    /// LOCATE(16) of a filemark.
    LocateFile {
        /// IMMED: complete the command before the operation.
        immediate: bool,
        /// Partition to change to, if CP is set.
        partition: Option<u8>,
        /// Number of filemarks before the position.
        file: u64,
    },
    /// READ POSITION.
    ReadPosition {
        /// Form of the answer.
        form: PositionForm,
        /// Maximum length of the extended form, bytes; the other forms ignore it.
        allocation_length: u16,
    },
    /// REPORT DENSITY SUPPORT.
    ReportDensity {
        /// MEDIA: those of the loaded cartridge instead of those of the drive.
        medium: bool,
        /// MEDIUM TYPE: types of media instead of densities.
        medium_types: bool,
        /// Maximum length of the answer, bytes.
        allocation_length: u16,
    },
    /// READ ATTRIBUTE of the memory in the cartridge.
    ReadAttribute {
        /// Form of the answer.
        form: AttributeForm,
        /// Partition.
        partition: u8,
        /// First identifier to report.
        first: u16,
        /// Maximum length of the answer, bytes.
        allocation_length: u32,
    },
}

impl StreamCommand {
    /// Parses the commands of tape drives alone; `None` for an operation code that means the same
    /// on every device. `cdb` has the length of the operation code's group.
    pub(super) fn parse(opcode: u8, cdb: &[u8]) -> Option<Result<StreamCommand, CdbError>> {
        let immediate = cdb[1] & 1 != 0;
        Some(Ok(match opcode {
            opcode::REWIND => StreamCommand::Rewind { immediate },
            opcode::READ_BLOCK_LIMITS => StreamCommand::ReadBlockLimits,
            opcode::READ_6 => StreamCommand::Read {
                fixed: immediate,
                suppress_incorrect_length: cdb[1] & 2 != 0,
                length: u24_at(cdb, 2),
            },
            opcode::WRITE_6 => StreamCommand::Write {
                fixed: immediate,
                length: u24_at(cdb, 2),
            },
            // BYTCMP: comparison with data of the initiator is not supported.
            opcode::VERIFY_6 if cdb[1] & 2 != 0 => return Some(Err(invalid(1, 1))),
            opcode::VERIFY_6 => StreamCommand::Verify {
                fixed: immediate,
                immediate: cdb[1] & 4 != 0,
                length: u24_at(cdb, 2),
            },
            // WSmk: setmarks are obsolete.
            opcode::WRITE_FILEMARKS_6 if cdb[1] & 2 != 0 => return Some(Err(invalid(1, 1))),
            opcode::WRITE_FILEMARKS_6 => StreamCommand::WriteFilemarks {
                immediate,
                count: u24_at(cdb, 2),
            },
            opcode::SPACE_6 => {
                // Sign extension of 24 bits.
                let count = i64::from((u24_at(cdb, 2) << 8) as i32 >> 8);
                return Some(space(cdb[1] & 0x07, 2, count));
            }
            opcode::SPACE_16 => return Some(space(cdb[1] & 0x0f, 3, u64_at(cdb, 4) as i64)),
            opcode::ERASE_6 => StreamCommand::Erase {
                long: immediate,
                immediate: cdb[1] & 2 != 0,
            },
            opcode::LOAD_UNLOAD => StreamCommand::LoadUnload {
                immediate,
                load: cdb[4] & 1 != 0,
                retension: cdb[4] & 2 != 0,
                end_of_tape: cdb[4] & 4 != 0,
            },
            // BT: an identifier of the device is the number of the object, too.
            opcode::LOCATE_10 => StreamCommand::Locate {
                immediate,
                partition: (cdb[1] & 2 != 0).then_some(cdb[8]),
                object: u32_at(cdb, 3).into(),
            },
            opcode::LOCATE_16 => return Some(locate_16(cdb)),
            opcode::READ_POSITION => StreamCommand::ReadPosition {
                form: match cdb[1] & 0x1f {
                    0 => PositionForm::Short,
                    1 => PositionForm::ShortVendor,
                    6 => PositionForm::Long,
                    8 => PositionForm::Extended,
                    _ => return Some(Err(invalid(1, 4))),
                },
                allocation_length: u16_at(cdb, 7),
            },
            opcode::REPORT_DENSITY_SUPPORT => StreamCommand::ReportDensity {
                medium: immediate,
                medium_types: cdb[1] & 2 != 0,
                allocation_length: u16_at(cdb, 7),
            },
            // LOGICAL VOLUME NUMBER: a cartridge is one volume.
            opcode::READ_ATTRIBUTE if cdb[5] != 0 => return Some(Err(invalid(5, 7))),
            opcode::READ_ATTRIBUTE => StreamCommand::ReadAttribute {
                form: match cdb[1] & 0x1f {
                    0 => AttributeForm::Values,
                    1 => AttributeForm::List,
                    5 => AttributeForm::Supported,
                    _ => return Some(Err(invalid(1, 4))),
                },
                partition: cdb[7],
                first: u16_at(cdb, 8),
                allocation_length: u32_at(cdb, 10),
            },
            _ => return None,
        }))
    }

    /// Writes the command. SPACE and LOCATE take the shorter form if their fields fit it.
    pub(super) fn emit(self, out: &mut [u8; 16]) {
        match self {
            StreamCommand::Rewind { immediate } => {
                out[..2].copy_from_slice(&[opcode::REWIND, immediate.into()]);
            }
            StreamCommand::ReadBlockLimits => out[0] = opcode::READ_BLOCK_LIMITS,
            StreamCommand::Read {
                fixed,
                suppress_incorrect_length,
                length,
            } => {
                let flags = u8::from(fixed) | u8::from(suppress_incorrect_length) << 1;
                out[..2].copy_from_slice(&[opcode::READ_6, flags]);
                put_u24(out, 2, length);
            }
            StreamCommand::Write { fixed, length } => {
                out[..2].copy_from_slice(&[opcode::WRITE_6, fixed.into()]);
                put_u24(out, 2, length);
            }
            StreamCommand::Verify {
                fixed,
                immediate,
                length,
            } => {
                let flags = u8::from(fixed) | u8::from(immediate) << 2;
                out[..2].copy_from_slice(&[opcode::VERIFY_6, flags]);
                put_u24(out, 2, length);
            }
            StreamCommand::WriteFilemarks { immediate, count } => {
                out[..2].copy_from_slice(&[opcode::WRITE_FILEMARKS_6, immediate.into()]);
                put_u24(out, 2, count);
            }
            StreamCommand::Space { code, count } if (-(1 << 23)..1 << 23).contains(&count) => {
                out[..2].copy_from_slice(&[opcode::SPACE_6, code as u8]);
                put_u24(out, 2, count as u32 & 0x00ff_ffff);
            }
            StreamCommand::Space { code, count } => {
                out[..2].copy_from_slice(&[opcode::SPACE_16, code as u8]);
                put_u64(out, 4, count as u64);
            }
            StreamCommand::Erase { long, immediate } => {
                let flags = u8::from(long) | u8::from(immediate) << 1;
                out[..2].copy_from_slice(&[opcode::ERASE_6, flags]);
            }
            StreamCommand::LoadUnload {
                immediate,
                load,
                retension,
                end_of_tape,
            } => {
                out[..2].copy_from_slice(&[opcode::LOAD_UNLOAD, immediate.into()]);
                out[4] = u8::from(load) | u8::from(retension) << 1 | u8::from(end_of_tape) << 2;
            }
            StreamCommand::Locate {
                immediate,
                partition,
                object,
            } if u32::try_from(object).is_ok() => {
                let flags = u8::from(immediate) | u8::from(partition.is_some()) << 1;
                out[..2].copy_from_slice(&[opcode::LOCATE_10, flags]);
                put_u32(out, 3, object as u32);
                out[8] = partition.unwrap_or(0);
            }
            StreamCommand::Locate {
                immediate,
                partition,
                object,
            } => emit_locate_16(out, 0, immediate, partition, object),
            StreamCommand::LocateFile {
                immediate,
                partition,
                file,
            } => emit_locate_16(out, 1, immediate, partition, file),
            StreamCommand::ReadPosition {
                form,
                allocation_length,
            } => {
                out[..2].copy_from_slice(&[opcode::READ_POSITION, form as u8]);
                put_u16(out, 7, allocation_length);
            }
            StreamCommand::ReadAttribute {
                form,
                partition,
                first,
                allocation_length,
            } => {
                out[..2].copy_from_slice(&[opcode::READ_ATTRIBUTE, form as u8]);
                out[7] = partition;
                put_u16(out, 8, first);
                put_u32(out, 10, allocation_length);
            }
            StreamCommand::ReportDensity {
                medium,
                medium_types,
                allocation_length,
            } => {
                let flags = u8::from(medium) | u8::from(medium_types) << 1;
                out[..2].copy_from_slice(&[opcode::REPORT_DENSITY_SUPPORT, flags]);
                put_u16(out, 7, allocation_length);
            }
        }
    }
}

/// Parses SPACE. `top` is the most significant bit of CODE. Sequential filemarks (2) and setmarks
/// (4) are not supported.
fn space(code: u8, top: u8, count: i64) -> Result<StreamCommand, CdbError> {
    let code = match code {
        0 => SpaceCode::Blocks,
        1 => SpaceCode::Filemarks,
        3 => SpaceCode::EndOfData,
        _ => return Err(invalid(1, top)),
    };
    Ok(StreamCommand::Space { code, count })
}

fn locate_16(cdb: &[u8]) -> Result<StreamCommand, CdbError> {
    let immediate = cdb[1] & 1 != 0;
    let partition = (cdb[1] & 2 != 0).then_some(cdb[3]);
    let identifier = u64_at(cdb, 4);
    match cdb[1] >> 3 & 3 {
        0 => Ok(StreamCommand::Locate {
            immediate,
            partition,
            object: identifier,
        }),
        1 => Ok(StreamCommand::LocateFile {
            immediate,
            partition,
            file: identifier,
        }),
        _ => Err(invalid(1, 4)),
    }
}

fn emit_locate_16(
    out: &mut [u8; 16],
    destination: u8,
    immediate: bool,
    partition: Option<u8>,
    identifier: u64,
) {
    let flags = u8::from(immediate) | u8::from(partition.is_some()) << 1 | destination << 3;
    out[..2].copy_from_slice(&[opcode::LOCATE_16, flags]);
    out[3] = partition.unwrap_or(0);
    put_u64(out, 4, identifier);
}
