//! Commands on ranges of blocks other than READ and WRITE: compare, fill, unmap, erase (SBC-3
//! section 5, SBC-4 sections 5.3, 5.30 and 5.48).
use super::error::{CdbError, invalid};
use super::opcode;
use crate::octets::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// BYTCHK: data with which VERIFY compares blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ByteCheck {
    /// No comparison: blocks must be readable.
    #[default]
    Medium = 0,
    /// The initiator sends as many blocks.
    Whole = 1,
    /// The initiator sends one block, which is compared with each block.
    OneBlock = 3,
}

/// VERIFY, or WRITE AND VERIFY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verify {
    /// First block.
    pub lba: u64,
    /// Number of blocks; 0 verifies nothing and is no error.
    pub blocks: u32,
    /// DPO: disable page out, a hint not to keep the blocks in the cache.
    pub dpo: bool,
    /// VRPROTECT or WRPROTECT, 0 to 7.
    pub protect: u8,
    /// Kind of comparison. WRITE AND VERIFY lacks [`ByteCheck::OneBlock`].
    pub check: ByteCheck,
}

/// WRITE SAME.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteSame {
    /// First block.
    pub lba: u64,
    /// Number of blocks; 0: to the end, if VPD page B0h (WSNZ) allows it.
    pub blocks: u32,
    /// UNMAP: blocks may be deallocated instead.
    pub unmap: bool,
    /// ANCHOR.
    pub anchor: bool,
    /// NDOB: no block is sent; zeros are written (sixteen-byte form only).
    pub no_data_out: bool,
    /// WRPROTECT, 0 to 7.
    pub protect: u8,
    /// Sixteen-byte form. An LU may support only one of the two forms.
    pub sixteen: bool,
}

/// WRITE ATOMIC(16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteAtomic {
    /// First block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u16,
    /// ATOMIC BOUNDARY: number of blocks written atomically; 0: all of them.
    pub boundary: u16,
    /// FUA: force unit access, bypasses the cache.
    pub fua: bool,
    /// DPO: disable page out, a hint not to keep the blocks in the cache.
    pub dpo: bool,
    /// WRPROTECT, 0 to 7.
    pub protect: u8,
}

/// Service action of SANITIZE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SanitizeAction {
    /// Overwrites all blocks with a pattern.
    Overwrite = 0x01,
    /// Erases with the medium's own function.
    BlockErase = 0x02,
    /// Replaces the key with which all blocks are encrypted.
    CryptographicErase = 0x03,
    /// Leaves the state after a failed sanitize.
    ExitFailureMode = 0x1f,
}

/// SANITIZE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sanitize {
    /// Service action.
    pub action: SanitizeAction,
    /// IMMED: complete the command before the operation.
    pub immediate: bool,
    /// AUSE: EXIT FAILURE MODE may leave the state after a failure.
    pub unrestricted_exit: bool,
    /// Bytes of the parameter list.
    pub parameter_list_length: u16,
}

/// READ DEFECT DATA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadDefectData {
    /// Twelve-byte form, whose header is 8 bytes long instead of 4.
    pub twelve: bool,
    /// REQ_PLIST: requests the manufacturer's list.
    pub primary: bool,
    /// REQ_GLIST: requests the grown list.
    pub grown: bool,
    /// DEFECT LIST FORMAT, 0 to 7.
    pub format: u8,
    /// Maximum length of the answer, bytes.
    pub allocation_length: u32,
}

/// Reads LBA and number of blocks of the ten-, twelve- and sixteen-byte forms.
pub(super) fn extent(cdb: &[u8]) -> (u64, u32) {
    match cdb.len() {
        10 => (u64::from(u32_at(cdb, 2)), u32::from(u16_at(cdb, 7))),
        12 => (u64::from(u32_at(cdb, 2)), u32_at(cdb, 6)),
        _ => (u64_at(cdb, 2), u32_at(cdb, 10)),
    }
}

/// Writes the ten-byte form if LBA and length fit it, else the sixteen-byte form.
pub(super) fn emit_extent(out: &mut [u8; 16], (ten, sixteen): (u8, u8), lba: u64, blocks: u32) {
    match (u32::try_from(lba), u16::try_from(blocks)) {
        (Ok(lba), Ok(blocks)) => {
            out[0] = ten;
            put_u32(out, 2, lba);
            put_u16(out, 7, blocks);
        }
        _ => emit_extent_16(out, sixteen, lba, blocks),
    }
}

pub(super) fn emit_extent_16(out: &mut [u8; 16], opcode: u8, lba: u64, blocks: u32) {
    out[0] = opcode;
    put_u64(out, 2, lba);
    put_u32(out, 10, blocks);
}

impl Verify {
    pub(super) fn parse(cdb: &[u8], may_repeat: bool) -> Result<Verify, CdbError> {
        let (lba, blocks) = extent(cdb);
        let check = match cdb[1] >> 1 & 3 {
            0 => ByteCheck::Medium,
            1 => ByteCheck::Whole,
            3 if may_repeat => ByteCheck::OneBlock,
            _ => return Err(invalid(1, 2)),
        };
        Ok(Verify {
            lba,
            blocks,
            dpo: cdb[1] & 0x10 != 0,
            protect: cdb[1] >> 5,
            check,
        })
    }

    pub(super) fn emit(self, out: &mut [u8; 16], opcodes: (u8, u8)) {
        emit_extent(out, opcodes, self.lba, self.blocks);
        out[1] = self.protect << 5 | u8::from(self.dpo) << 4 | (self.check as u8) << 1;
    }
}

impl WriteSame {
    pub(super) fn parse(cdb: &[u8]) -> WriteSame {
        let (lba, blocks) = extent(cdb);
        let sixteen = cdb.len() == 16;
        WriteSame {
            lba,
            blocks,
            unmap: cdb[1] & 0x08 != 0,
            anchor: cdb[1] & 0x10 != 0,
            no_data_out: sixteen && cdb[1] & 0x01 != 0,
            protect: cdb[1] >> 5,
            sixteen,
        }
    }

    /// Writes the command. LBA and number of blocks must fit the form: excess bits of a ten-byte
    /// form are lost.
    pub(super) fn emit(self, out: &mut [u8; 16]) {
        if self.sixteen {
            emit_extent_16(out, opcode::WRITE_SAME_16, self.lba, self.blocks);
        } else {
            out[0] = opcode::WRITE_SAME_10;
            put_u32(out, 2, self.lba as u32);
            put_u16(out, 7, self.blocks as u16);
        }
        out[1] = self.protect << 5
            | u8::from(self.anchor) << 4
            | u8::from(self.unmap) << 3
            | u8::from(self.sixteen && self.no_data_out);
    }
}

impl WriteAtomic {
    pub(super) fn parse(cdb: &[u8]) -> WriteAtomic {
        WriteAtomic {
            lba: u64_at(cdb, 2),
            blocks: u16_at(cdb, 12),
            boundary: u16_at(cdb, 10),
            fua: cdb[1] & 0x08 != 0,
            dpo: cdb[1] & 0x10 != 0,
            protect: cdb[1] >> 5,
        }
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        out[0] = opcode::WRITE_ATOMIC_16;
        out[1] = self.protect << 5 | u8::from(self.dpo) << 4 | u8::from(self.fua) << 3;
        put_u64(out, 2, self.lba);
        put_u16(out, 10, self.boundary);
        put_u16(out, 12, self.blocks);
    }
}

impl Sanitize {
    pub(super) fn parse(cdb: &[u8]) -> Result<Sanitize, CdbError> {
        let action = match cdb[1] & 0x1f {
            0x01 => SanitizeAction::Overwrite,
            0x02 => SanitizeAction::BlockErase,
            0x03 => SanitizeAction::CryptographicErase,
            0x1f => SanitizeAction::ExitFailureMode,
            _ => return Err(invalid(1, 4)),
        };
        // ZNR (zoned disks) and the reserved bytes must be zero, because they are not supported.
        if cdb[1] & 0x40 != 0 {
            return Err(invalid(1, 6));
        }
        if let Some(at) = cdb[2..7].iter().position(|byte| *byte != 0) {
            return Err(CdbError::InvalidField {
                byte: 2 + at as u16,
                bit: None,
            });
        }
        Ok(Sanitize {
            action,
            immediate: cdb[1] & 0x80 != 0,
            unrestricted_exit: cdb[1] & 0x20 != 0,
            parameter_list_length: u16_at(cdb, 7),
        })
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        out[0] = opcode::SANITIZE;
        out[1] = u8::from(self.immediate) << 7
            | u8::from(self.unrestricted_exit) << 5
            | self.action as u8;
        put_u16(out, 7, self.parameter_list_length);
    }
}

/// Writes COMPARE AND WRITE, which is limited to 255 blocks.
pub(super) fn emit_compare_and_write(out: &mut [u8; 16], lba: u64, blocks: u8, flags: u8) {
    out[0] = opcode::COMPARE_AND_WRITE;
    out[1] = flags;
    put_u64(out, 2, lba);
    out[13] = blocks;
}

impl ReadDefectData {
    pub(super) fn parse(cdb: &[u8]) -> ReadDefectData {
        let twelve = cdb.len() == 12;
        let flags = if twelve { cdb[1] } else { cdb[2] };
        ReadDefectData {
            twelve,
            primary: flags & 0x10 != 0,
            grown: flags & 0x08 != 0,
            format: flags & 7,
            allocation_length: if twelve {
                u32_at(cdb, 6)
            } else {
                u32::from(u16_at(cdb, 7))
            },
        }
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        let flags = u8::from(self.primary) << 4 | u8::from(self.grown) << 3 | (self.format & 7);
        if self.twelve {
            out[..2].copy_from_slice(&[opcode::READ_DEFECT_DATA_12, flags]);
            put_u32(out, 6, self.allocation_length);
        } else {
            out[..3].copy_from_slice(&[opcode::READ_DEFECT_DATA_10, 0, flags]);
            let length = u16::try_from(self.allocation_length).unwrap_or(u16::MAX);
            put_u16(out, 7, length);
        }
    }
}
