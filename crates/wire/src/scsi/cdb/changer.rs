//! Commands of medium changers (SMC-3).
use super::error::{CdbError, invalid};
use crate::octets::{put_u16, put_u24, u16_at, u24_at};

/// Operation codes of medium changers.
#[allow(missing_docs)] // Each constant is named after its command.
pub mod changer_opcode {
    pub const INITIALIZE_ELEMENT_STATUS: u8 = 0x07;
    pub const OPEN_CLOSE_IMPORT_EXPORT_ELEMENT: u8 = 0x1b;
    pub const POSITION_TO_ELEMENT: u8 = 0x2b;
    pub const INITIALIZE_ELEMENT_STATUS_WITH_RANGE: u8 = 0x37;
    pub const MOVE_MEDIUM: u8 = 0xa5;
    pub const EXCHANGE_MEDIUM: u8 = 0xa6;
    pub const REQUEST_VOLUME_ELEMENT_ADDRESS: u8 = 0xb5;
    pub const SEND_VOLUME_TAG: u8 = 0xb6;
    pub const READ_ELEMENT_STATUS: u8 = 0xb8;
    /// INITIALIZE ELEMENT STATUS WITH RANGE, as libraries had it before SMC-2. Its group has no
    /// length in SPC-4; the CDB has 10 bytes.
    pub const INITIALIZE_ELEMENT_STATUS_WITH_RANGE_VENDOR: u8 = 0xe7;
}

use changer_opcode as opcode;

/// A command of a medium changer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangerCommand {
    /// INITIALIZE ELEMENT STATUS, with (37h, E7h) or without a range.
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
    /// EXCHANGE MEDIUM.
    ExchangeMedium {
        /// Address of the transport; 0 for the default.
        transport: u16,
        /// Element whose cartridge is moved to the first destination.
        source: u16,
        /// Element whose cartridge is moved to the second destination.
        first_destination: u16,
        /// The second destination, which may be the source.
        second_destination: u16,
    },
    /// OPEN/CLOSE IMPORT/EXPORT ELEMENT.
    OpenCloseImportExport {
        /// Address of the element.
        address: u16,
        /// ACTION CODE: true opens, false closes.
        open: bool,
    },
    /// SEND VOLUME TAG. The template is in its parameter list,
    /// [`crate::scsi::VolumeTemplate`].
    SendVolumeTag {
        /// SEND ACTION CODE, 0 to 31.
        action: u8,
        /// ELEMENT TYPE CODE: 0 all, 1 transports, 2 storage, 3 import/export, 4 drives.
        element_type: u8,
        /// First address that is searched.
        start: u16,
        /// Bytes of the parameter list.
        parameter_list_length: u16,
    },
    /// REQUEST VOLUME ELEMENT ADDRESS.
    RequestVolumeElementAddress {
        /// VOLTAG: with barcodes.
        volume_tags: bool,
        /// ELEMENT TYPE CODE: 0 all, 1 transports, 2 storage, 3 import/export, 4 drives.
        element_type: u8,
        /// First address to report.
        start: u16,
        /// Largest number of elements to report.
        count: u16,
        /// Maximum length of the answer, bytes, 24 bits.
        allocation_length: u32,
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
            opcode::INITIALIZE_ELEMENT_STATUS_WITH_RANGE
            | opcode::INITIALIZE_ELEMENT_STATUS_WITH_RANGE_VENDOR => {
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
            opcode::EXCHANGE_MEDIUM if cdb[10] & 3 != 0 => {
                return Some(Err(invalid(10, if cdb[10] & 2 != 0 { 1 } else { 0 })));
            }
            opcode::EXCHANGE_MEDIUM => ChangerCommand::ExchangeMedium {
                transport: u16_at(cdb, 2),
                source: u16_at(cdb, 4),
                first_destination: u16_at(cdb, 6),
                second_destination: u16_at(cdb, 8),
            },
            opcode::OPEN_CLOSE_IMPORT_EXPORT_ELEMENT => match cdb[4] & 0x1f {
                action @ 0..=1 => ChangerCommand::OpenCloseImportExport {
                    address: u16_at(cdb, 2),
                    open: action == 0,
                },
                _ => return Some(Err(invalid(4, 4))),
            },
            opcode::REQUEST_VOLUME_ELEMENT_ADDRESS
            | opcode::SEND_VOLUME_TAG
            | opcode::READ_ELEMENT_STATUS
                if cdb[1] & 0x0f > 4 =>
            {
                return Some(Err(invalid(1, 3)));
            }
            opcode::SEND_VOLUME_TAG => ChangerCommand::SendVolumeTag {
                action: cdb[5] & 0x1f,
                element_type: cdb[1] & 0x0f,
                start: u16_at(cdb, 2),
                parameter_list_length: u16_at(cdb, 8),
            },
            opcode::REQUEST_VOLUME_ELEMENT_ADDRESS => ChangerCommand::RequestVolumeElementAddress {
                volume_tags: cdb[1] & 0x10 != 0,
                element_type: cdb[1] & 0x0f,
                start: u16_at(cdb, 2),
                count: u16_at(cdb, 4),
                allocation_length: u24_at(cdb, 7),
            },
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
            ChangerCommand::ExchangeMedium {
                transport,
                source,
                first_destination,
                second_destination,
            } => {
                out[0] = opcode::EXCHANGE_MEDIUM;
                put_u16(out, 2, transport);
                put_u16(out, 4, source);
                put_u16(out, 6, first_destination);
                put_u16(out, 8, second_destination);
            }
            ChangerCommand::OpenCloseImportExport { address, open } => {
                out[0] = opcode::OPEN_CLOSE_IMPORT_EXPORT_ELEMENT;
                put_u16(out, 2, address);
                out[4] = (!open).into();
            }
            ChangerCommand::SendVolumeTag {
                action,
                element_type,
                start,
                parameter_list_length,
            } => {
                out[..2].copy_from_slice(&[opcode::SEND_VOLUME_TAG, element_type & 0x0f]);
                put_u16(out, 2, start);
                out[5] = action & 0x1f;
                put_u16(out, 8, parameter_list_length);
            }
            ChangerCommand::RequestVolumeElementAddress {
                volume_tags,
                element_type,
                start,
                count,
                allocation_length,
            } => {
                let flags = u8::from(volume_tags) << 4 | element_type & 0x0f;
                out[..2].copy_from_slice(&[opcode::REQUEST_VOLUME_ELEMENT_ADDRESS, flags]);
                put_u16(out, 2, start);
                put_u16(out, 4, count);
                put_u24(out, 7, allocation_length);
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
