//! Why a CDB is refused.
use crate::scsi::{FieldPointer, Sense};

/// Why a CDB is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdbError {
    /// Not a command of ours.
    #[error("operation code {0:#04x} is not supported")]
    UnsupportedOpcode(u8),
    /// A field is wrong.
    #[error("invalid field in CDB byte {byte}")]
    InvalidField {
        /// Byte of the field.
        byte: u16,
        /// Most significant bit of the field, where it is less than a byte.
        bit: Option<u8>,
    },
    /// Fewer bytes than the command has.
    #[error("CDB is cut short")]
    Short,
}

impl CdbError {
    /// The sense data of the CHECK CONDITION that answers it.
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
