//! READ and WRITE (6, 10, 12, 16) and other commands with LBA and TRANSFER LENGTH.
use crate::octets::{put_u16, put_u24, put_u32, put_u64, u24_at};

/// Blocks to read or write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// First block.
    pub lba: u64,
    /// Number of blocks. 0 transfers nothing and is no error. A 0 in the six-byte form is parsed as
    /// 256.
    pub blocks: u32,
    /// FUA: force unit access, bypasses the cache.
    pub fua: bool,
    /// DPO: disable page out, a hint not to keep the blocks in the cache.
    pub dpo: bool,
    /// RDPROTECT or WRPROTECT, 0 to 7.
    pub protect: u8,
}

impl Transfer {
    /// Returns byte 1 of the CDB.
    pub(super) fn flags(&self) -> u8 {
        self.protect << 5 | u8::from(self.dpo) << 4 | u8::from(self.fua) << 3
    }

    /// Returns the six-byte form, or `None` if it cannot encode the transfer; see
    /// [`super::Cdb::emit_6`].
    pub(super) fn emit_6(self, opcode: u8) -> Option<[u8; 16]> {
        let plain = Transfer {
            lba: self.lba,
            blocks: self.blocks,
            ..Transfer::default()
        } == self;
        if !plain || self.lba >= 1 << 21 || !(1..=256).contains(&self.blocks) {
            return None;
        }
        let mut out = [0; 16];
        put_u24(&mut out, 1, self.lba as u32);
        out[0] = opcode;
        out[4] = self.blocks as u8; // 256 becomes 0, which means 256.
        Some(out)
    }
}

pub(super) fn transfer(cdb: &[u8], lba: u64, blocks: u32) -> Transfer {
    Transfer {
        lba,
        blocks,
        fua: cdb[1] & 0x08 != 0,
        dpo: cdb[1] & 0x10 != 0,
        protect: cdb[1] >> 5,
    }
}

/// Parses the six-byte form: an LBA of 21 bits, and a length of which 0 means 256 (SBC-3 section
/// 5.10).
pub(super) fn transfer_6(cdb: &[u8]) -> Transfer {
    let blocks = if cdb[4] == 0 { 256 } else { u32::from(cdb[4]) };
    Transfer {
        lba: u64::from(u24_at(cdb, 1) & 0x1f_ffff),
        blocks,
        ..Transfer::default()
    }
}

pub(super) fn emit_transfer(out: &mut [u8; 16], ten: u8, sixteen: u8, transfer: Transfer) {
    match (u32::try_from(transfer.lba), u16::try_from(transfer.blocks)) {
        (Ok(lba), Ok(blocks)) => {
            out[0] = ten;
            put_u32(out, 2, lba);
            put_u16(out, 7, blocks);
        }
        _ => {
            out[0] = sixteen;
            put_u64(out, 2, transfer.lba);
            put_u32(out, 10, transfer.blocks);
        }
    }
    out[1] = transfer.flags();
}
