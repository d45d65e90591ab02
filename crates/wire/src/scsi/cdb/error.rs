//! Errors of CDBs and their sense data.
use crate::scsi::{FieldPointer, Sense};

/// Errors of [`super::Cdb::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdbError {
    /// The command is not supported.
    #[error("operation code {0:#04x} is not supported")]
    UnsupportedOpcode(u8),
    /// A field has an invalid value.
    #[error("invalid field in CDB byte {byte}")]
    InvalidField {
        /// Byte of the field.
        byte: u16,
        /// Most significant bit of the field, if it is less than a byte.
        bit: Option<u8>,
    },
    /// Fewer bytes than the command requires.
    #[error("CDB is truncated")]
    Short,
}

impl CdbError {
    /// Returns the sense data of the CHECK CONDITION that answers the command.
    pub fn sense(self) -> Sense {
        match self {
            CdbError::UnsupportedOpcode(_) => Sense::INVALID_COMMAND_OPERATION_CODE,
            CdbError::InvalidField { byte, bit } => {
                Sense::INVALID_FIELD_IN_CDB.with_field(FieldPointer {
                    in_cdb: true,
                    byte,
                    bit,
                })
            }
            CdbError::Short => Sense::INVALID_FIELD_IN_CDB,
        }
    }
}

pub(super) fn invalid(byte: u16, bit: u8) -> CdbError {
    CdbError::InvalidField {
        byte,
        bit: Some(bit),
    }
}
