//! MODE SENSE (6, 10).
use super::opcode;
use crate::octets::{put_u16, u16_at};

/// PC field of MODE SENSE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PageControl {
    /// Current values.
    #[default]
    Current = 0,
    /// Mask with ones for changeable bits.
    Changeable = 1,
    /// Default values.
    Default = 2,
    /// Values saved across power cycles.
    Saved = 3,
}

/// MODE SENSE(6) or (10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSense {
    /// Ten-byte form, whose header is 8 bytes long instead of 4.
    pub ten: bool,
    /// DBD: requests no block descriptor.
    pub disable_block_descriptors: bool,
    /// LLBAA (ten-byte form): a long block descriptor may be sent.
    pub long_lba: bool,
    /// Values requested.
    pub control: PageControl,
    /// Page; 3Fh for all.
    pub page: u8,
    /// Subpage; FFh for all.
    pub subpage: u8,
    /// Maximum length of the answer, bytes.
    pub allocation_length: u16,
}

impl PageControl {
    /// Returns the value of the low two bits.
    pub(super) fn from_code(code: u8) -> PageControl {
        match code & 3 {
            0 => PageControl::Current,
            1 => PageControl::Changeable,
            2 => PageControl::Default,
            _ => PageControl::Saved,
        }
    }
}

impl ModeSense {
    pub(super) fn parse(opcode: u8, cdb: &[u8]) -> ModeSense {
        let ten = opcode == opcode::MODE_SENSE_10;
        ModeSense {
            ten,
            disable_block_descriptors: cdb[1] & 0x08 != 0,
            long_lba: ten && cdb[1] & 0x10 != 0,
            control: PageControl::from_code(cdb[2] >> 6),
            page: cdb[2] & 0x3f,
            subpage: cdb[3],
            allocation_length: if ten {
                u16_at(cdb, 7)
            } else {
                u16::from(cdb[4])
            },
        }
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        let flags = u8::from(self.long_lba) << 4 | u8::from(self.disable_block_descriptors) << 3;
        let page = (self.control as u8) << 6 | (self.page & 0x3f);
        if self.ten {
            out[..4].copy_from_slice(&[opcode::MODE_SENSE_10, flags, page, self.subpage]);
            put_u16(out, 7, self.allocation_length);
        } else {
            let length = u8::try_from(self.allocation_length).unwrap_or(u8::MAX);
            out[..5].copy_from_slice(&[
                opcode::MODE_SENSE_6,
                flags & 0x08,
                page,
                self.subpage,
                length,
            ]);
        }
    }
}
