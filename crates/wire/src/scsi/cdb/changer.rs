//! Commands of medium changers (SMC-3).
use super::error::{CdbError, invalid};
use crate::octets::{put_u16, put_u24, u16_at, u24_at};

/// Operation codes of medium changers.
#[allow(missing_docs)] // Each constant is named after its command.
pub mod changer_opcode {
    pub const INITIALIZE_ELEMENT_STATUS: u8 = 0x07;
    pub const POSITION_TO_ELEMENT: u8 = 0x2b;
    pub const INITIALIZE_ELEMENT_STATUS_WITH_RANGE: u8 = 0x37;
    pub const MOVE_MEDIUM: u8 = 0xa5;
    pub const READ_ELEMENT_STATUS: u8 = 0xb8;
}

use changer_opcode as opcode;

/// A command of a medium changer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangerCommand {
    /// INITIALIZE ELEMENT STATUS, with or without a range.
    InitializeElementStatus {
        /// Elements of the command with a range: the first address and their number.
        range: Option<(u16, u16)>,
    },
    /// POSITION TO ELEMENT.
    PositionToElement {
        /// Address of the transport; 0 for the default.
        transport: u16,
        /// Element in front of which the transport moves.
        destination: u16,
    },
    /// MOVE MEDIUM.
    MoveMedium {
        /// Address of the transport; 0 for the default.
        transport: u16,
        /// Element from which the cartridge is taken.
        source: u16,
        /// Element to which it is moved.
        destination: u16,
    },
    /// READ ELEMENT STATUS.
    ReadElementStatus {
        /// VOLTAG: with barcodes.
        volume_tags: bool,
        /// ELEMENT TYPE CODE: 0 all, 1 transports, 2 storage, 3 import/export, 4 drives.
        element_type: u8,
        /// First address to report.
        start: u16,
        /// Largest number of elements to report.
        count: u16,
        /// CURDATA: what is known, without a motion.
        current_data: bool,
        /// DVCID: with the identifiers of drives.
        device_identifiers: bool,
        /// Maximum length of the answer, bytes, 24 bits.
        allocation_length: u32,
    },
}

impl ChangerCommand {
    /// Parses the commands of changers alone; `None` for an operation code that means the same on
    /// every device. `cdb` has the length of the operation code's group.
    pub(super) fn parse(opcode: u8, cdb: &[u8]) -> Option<Result<ChangerCommand, CdbError>> {
        Some(Ok(match opcode {
            opcode::INITIALIZE_ELEMENT_STATUS => {
                ChangerCommand::InitializeElementStatus { range: None }
            }
            opcode::INITIALIZE_ELEMENT_STATUS_WITH_RANGE => {
                ChangerCommand::InitializeElementStatus {
                    range: (cdb[1] & 1 != 0).then(|| (u16_at(cdb, 2), u16_at(cdb, 6))),
                }
            }
            // INVERT: a cartridge is never turned over.
            opcode::POSITION_TO_ELEMENT if cdb[8] & 1 != 0 => return Some(Err(invalid(8, 0))),
            opcode::POSITION_TO_ELEMENT => ChangerCommand::PositionToElement {
                transport: u16_at(cdb, 2),
                destination: u16_at(cdb, 4),
            },
            opcode::MOVE_MEDIUM if cdb[10] & 1 != 0 => return Some(Err(invalid(10, 0))),
            opcode::MOVE_MEDIUM => ChangerCommand::MoveMedium {
                transport: u16_at(cdb, 2),
                source: u16_at(cdb, 4),
                destination: u16_at(cdb, 6),
            },
            opcode::READ_ELEMENT_STATUS if cdb[1] & 0x0f > 4 => return Some(Err(invalid(1, 3))),
            opcode::READ_ELEMENT_STATUS => ChangerCommand::ReadElementStatus {
                volume_tags: cdb[1] & 0x10 != 0,
                element_type: cdb[1] & 0x0f,
                start: u16_at(cdb, 2),
                count: u16_at(cdb, 4),
                current_data: cdb[6] & 2 != 0,
                device_identifiers: cdb[6] & 1 != 0,
                allocation_length: u24_at(cdb, 7),
            },
            _ => return None,
        }))
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        match self {
            ChangerCommand::InitializeElementStatus { range: None } => {
                out[0] = opcode::INITIALIZE_ELEMENT_STATUS;
            }
            ChangerCommand::InitializeElementStatus {
                range: Some((start, count)),
            } => {
                out[..2].copy_from_slice(&[opcode::INITIALIZE_ELEMENT_STATUS_WITH_RANGE, 1]);
                put_u16(out, 2, start);
                put_u16(out, 6, count);
            }
            ChangerCommand::PositionToElement {
                transport,
                destination,
            } => {
                out[0] = opcode::POSITION_TO_ELEMENT;
                put_u16(out, 2, transport);
                put_u16(out, 4, destination);
            }
            ChangerCommand::MoveMedium {
                transport,
                source,
                destination,
            } => {
                out[0] = opcode::MOVE_MEDIUM;
                put_u16(out, 2, transport);
                put_u16(out, 4, source);
                put_u16(out, 6, destination);
            }
            ChangerCommand::ReadElementStatus {
                volume_tags,
                element_type,
                start,
                count,
                current_data,
                device_identifiers,
                allocation_length,
            } => {
                let flags = u8::from(volume_tags) << 4 | element_type & 0x0f;
                out[..2].copy_from_slice(&[opcode::READ_ELEMENT_STATUS, flags]);
                put_u16(out, 2, start);
                put_u16(out, 4, count);
                out[6] = u8::from(current_data) << 1 | u8::from(device_identifiers);
                put_u24(out, 7, allocation_length);
            }
        }
    }
}
