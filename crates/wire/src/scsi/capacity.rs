//! READ CAPACITY parameter data (SBC-3 sections 5.12.2 and 5.13.2).
use crate::iscsi::WireError;
use crate::octets::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// Answer to READ CAPACITY(10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity10 {
    /// Address of the last block. `u32::MAX` if it does not fit and READ CAPACITY(16) must be used.
    pub last_lba: u32,
    /// Bytes in a block.
    pub block_length: u32,
}

impl Capacity10 {
    /// Returns the capacity of an LU whose last block is `last_lba`.
    pub fn new(last_lba: u64, block_length: u32) -> Capacity10 {
        Capacity10 {
            last_lba: u32::try_from(last_lba).unwrap_or(u32::MAX),
            block_length,
        }
    }

    /// Reads eight bytes.
    ///
    /// # Errors
    /// Fewer than eight bytes.
    pub fn parse(bytes: &[u8]) -> Result<Capacity10, WireError> {
        let bytes = bytes
            .get(..8)
            .ok_or(WireError::Short("READ CAPACITY(10) data"))?;
        Ok(Capacity10 {
            last_lba: u32_at(bytes, 0),
            block_length: u32_at(bytes, 4),
        })
    }

    /// Writes eight bytes.
    pub fn emit(&self) -> [u8; 8] {
        let mut out = [0; 8];
        put_u32(&mut out, 0, self.last_lba);
        put_u32(&mut out, 4, self.block_length);
        out
    }
}

/// Answer to READ CAPACITY(16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity16 {
    /// Address of the last block.
    pub last_lba: u64,
    /// Bytes in a block.
    pub block_length: u32,
    /// Exponent n, 0 to 15: a physical block has 2^n logical blocks.
    pub physical_block_exponent: u8,
    /// LBPME: blocks may be deallocated.
    pub thin: bool,
    /// LBPRZ: deallocated blocks read as zeros.
    pub deallocated_reads_zero: bool,
    /// First logical block that is aligned to a physical block; 14 bits.
    pub lowest_aligned_lba: u16,
}

impl Capacity16 {
    /// Reads 12 bytes and, if received, the next four.
    ///
    /// # Errors
    /// Fewer than 12 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Capacity16, WireError> {
        let head = bytes
            .get(..12)
            .ok_or(WireError::Short("READ CAPACITY(16) data"))?;
        let tail = bytes.get(12..16).unwrap_or(&[0; 4]);
        let alignment = u16_at(tail, 2);
        Ok(Capacity16 {
            last_lba: u64_at(head, 0),
            block_length: u32_at(head, 8),
            physical_block_exponent: tail[1] & 0x0f,
            thin: alignment & 0x8000 != 0,
            deallocated_reads_zero: alignment & 0x4000 != 0,
            lowest_aligned_lba: alignment & 0x3fff,
        })
    }

    /// Writes 32 bytes.
    pub fn emit(&self) -> [u8; 32] {
        let mut out = [0; 32];
        put_u64(&mut out, 0, self.last_lba);
        put_u32(&mut out, 8, self.block_length);
        out[13] = self.physical_block_exponent & 0x0f;
        let flags = u16::from(self.thin) << 15 | u16::from(self.deallocated_reads_zero) << 14;
        put_u16(&mut out, 14, flags | self.lowest_aligned_lba & 0x3fff);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn capacity_survives_a_round_trip(
            (last_lba, block_length) in any::<(u64, u32)>(),
            (exponent, alignment) in (0u8..16, 0u16..1 << 14),
            (thin, zero) in any::<(bool, bool)>(),
        ) {
            let capacity = Capacity16 {
                last_lba, block_length, thin, physical_block_exponent: exponent, deallocated_reads_zero: zero, lowest_aligned_lba: alignment,
            };
            prop_assert_eq!(Capacity16::parse(&capacity.emit()), Ok(capacity));
            let short = Capacity10::new(last_lba, block_length);
            prop_assert_eq!(Capacity10::parse(&short.emit()), Ok(short));
        }

        #[test]
        fn no_capacity_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Capacity10::parse(&bytes);
            let _ = Capacity16::parse(&bytes);
        }
    }

    #[test]
    fn capacity_beyond_32_bits_is_all_ones() {
        assert_eq!(
            Capacity10::new(1 << 32, 512).emit(),
            [0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]
        );
        assert_eq!(
            Capacity10::new(4095, 512).emit(),
            [0, 0, 0x0f, 0xff, 0, 0, 2, 0]
        );
    }
}
