//! The header of a cartridge.

use super::frame::{FRAME_BYTES, FRAME_RUNS, u32_at, u64_at};
use crate::generation::Generation;
use crate::medium::{GRANULE_BYTES, RUNS_MAX};

/// Bytes before the first area.
pub const HEADER_BYTES: u64 = 4096;

/// Length of an area of a new cartridge, bytes: more than twice as much as the longest checkpoint,
/// so that at least as much is appended between two checkpoints.
const AREA_BYTES: u64 = 32 << 20;
/// Bounds of the length of an area, bytes.
const AREA_MIN: u64 = 16 * FRAME_BYTES as u64;
const AREA_MAX: u64 = 1 << 30;
/// Largest capacity, bytes.
const CAPACITY_MAX: u64 = 16 << 40;
const BARCODE_MAX: usize = 32;
/// Offset of the number of the generation, which follows the barcode; 0 means none.
const GENERATION: usize = 34 + BARCODE_MAX;

const MAGIC: [u8; 8] = *b"HAKTAPE\n";
const VERSION: u32 = 1;
const PROTECTED: u8 = 0x01;
/// First byte under the checksum, which follows the magic number.
const SUMMED: usize = 12;

/// Properties of a cartridge that do not depend on its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Text on its label: 1 to 32 capital letters and digits.
    pub barcode: String,
    /// Whether its write-protect tab is set.
    pub write_protected: bool,
    /// Generation. `None`: that of each drive that it is in.
    pub generation: Option<Generation>,
    /// Capacity, bytes: a multiple of 512, at most 16 TiB.
    pub capacity_bytes: u64,
    /// Length of an area of the index, bytes.
    pub area_bytes: u64,
}

impl Header {
    /// Describes a new cartridge without a generation of its own. The caller has checked barcode and capacity.
    #[must_use]
    pub fn new(barcode: String, write_protected: bool, capacity_bytes: u64) -> Header {
        Header {
            barcode,
            write_protected,
            generation: None,
            capacity_bytes,
            area_bytes: AREA_BYTES,
        }
    }

    /// Returns the offset of the first block, bytes.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        HEADER_BYTES + 2 * self.area_bytes
    }

    /// Returns the bytes of header, index and data together.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.data_bytes() + self.capacity_bytes
    }

    /// Returns the number of frames of an area.
    #[must_use]
    pub fn area_frames(&self) -> u64 {
        self.area_bytes / FRAME_BYTES as u64
    }

    /// Returns the most runs of the index: a checkpoint fills at most half of an area.
    #[must_use]
    pub fn runs_max(&self) -> usize {
        ((self.area_frames() / 2) as usize * FRAME_RUNS).min(RUNS_MAX)
    }

    /// Returns the bytes of the header, which begin the cartridge.
    #[must_use]
    pub fn emit(&self) -> [u8; FRAME_BYTES] {
        let mut out = [0; FRAME_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[12..16].copy_from_slice(&VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&self.capacity_bytes.to_le_bytes());
        out[24..32].copy_from_slice(&self.area_bytes.to_le_bytes());
        out[32] = if self.write_protected { PROTECTED } else { 0 };
        out[33] = self.barcode.len() as u8;
        out[34..34 + self.barcode.len()].copy_from_slice(self.barcode.as_bytes());
        out[GENERATION] = self.generation.map_or(0, Generation::number);
        let sum = crc_fast::crc32_iscsi(&out[SUMMED..]);
        out[8..SUMMED].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Parses the header.
    ///
    /// # Errors
    /// A description of what is wrong.
    pub fn parse(bytes: &[u8; FRAME_BYTES]) -> Result<Header, &'static str> {
        if bytes[..8] != MAGIC {
            return Err("it is not a cartridge of hakaru");
        }
        let sum = crc_fast::crc32_iscsi(&bytes[SUMMED..]);
        if bytes[8..SUMMED] != sum.to_le_bytes() {
            return Err("the checksum of its header is wrong");
        }
        if u32_at(bytes, 12) != VERSION {
            return Err("its format is of another version");
        }
        let (capacity_bytes, area_bytes) = (u64_at(bytes, 16), u64_at(bytes, 24));
        let length = usize::from(bytes[33]);
        let barcode = bytes[34..].get(..length).unwrap_or(&[]);
        let generation = Generation::of_number(bytes[GENERATION]);
        let is_plain = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit();
        let valid = (generation.is_some() || bytes[GENERATION] == 0)
            && (1..=BARCODE_MAX).contains(&barcode.len())
            && barcode.iter().all(is_plain)
            && (GRANULE_BYTES..=CAPACITY_MAX).contains(&capacity_bytes)
            && capacity_bytes.is_multiple_of(GRANULE_BYTES)
            && (AREA_MIN..=AREA_MAX).contains(&area_bytes)
            && area_bytes.is_multiple_of(FRAME_BYTES as u64);
        if !valid {
            return Err("its header has a value out of bounds");
        }
        Ok(Header {
            barcode: String::from_utf8_lossy(barcode).into_owned(),
            write_protected: bytes[32] & PROTECTED != 0,
            generation,
            capacity_bytes,
            area_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_every_damage_is_refused() {
        let header = Header {
            generation: Some(Generation::Lto4),
            ..Header::new("HAK001L5".to_owned(), true, 1 << 30)
        };
        let bytes = header.emit();
        assert_eq!(Header::parse(&bytes), Ok(header));
        for at in 0..FRAME_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 0x20;
            assert!(Header::parse(&damaged).is_err(), "{at}");
        }
    }

    #[test]
    fn header_without_a_generation_and_one_of_an_unknown_generation() {
        let header = Header::new("HAK001L5".to_owned(), false, 1 << 30);
        let mut bytes = header.emit();
        assert_eq!(bytes[GENERATION], 0);
        assert_eq!(Header::parse(&bytes), Ok(header));
        bytes[GENERATION] = 2;
        let sum = crc_fast::crc32_iscsi(&bytes[SUMMED..]);
        bytes[8..SUMMED].copy_from_slice(&sum.to_le_bytes());
        assert!(Header::parse(&bytes).is_err());
    }

    #[test]
    fn largest_index_fills_half_of_an_area() {
        let header = Header::new("A".to_owned(), false, 1 << 30);
        assert_eq!(header.runs_max(), RUNS_MAX);
        let frames = RUNS_MAX.div_ceil(FRAME_RUNS) as u64;
        assert!(frames <= header.area_frames() / 2);
    }
}
