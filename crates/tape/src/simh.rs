//! Tapes in the format of SIMH (`.tap`): each block between two copies of its length.
//!
//! ```text
//! length, block, a zero byte if the length is odd, length    a block
//! 00000000h                                                  a filemark
//! FFFFFFFEh                                                  an erased gap, ignored
//! FFFFFFFFh, or the end of the file                          the end of the tape
//! ```
//!
//! Lengths have 32 bits, little-endian. Their upper four bits are a class: 0 for a block, 8 for one
//! that was read with an error. ("SIMH Magtape Representation and Handling", R. Supnik.)

use std::fmt;

use crate::medium::BLOCK_BYTES_MAX;

/// Length of a marker, bytes.
pub const MARKER_BYTES: u64 = 4;

const FILEMARK: u32 = 0;
const GAP: u32 = 0xffff_fffe;
const END: u32 = 0xffff_ffff;
const CLASS: u32 = 0xf000_0000;
const BAD: u32 = 0x8000_0000;

/// A marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A block of so many bytes, from 1.
    Block(u32),
    /// A filemark.
    Filemark,
    /// An erased gap.
    Gap,
    /// The end of the tape.
    End,
}

/// Error of a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapError {
    /// A block was recorded as one that was read with an error.
    Bad,
    /// A marker has an unknown class.
    Class(u32),
    /// A block is longer than [`BLOCK_BYTES_MAX`].
    Long(u32),
    /// The two lengths of a block differ.
    Lengths(u32, u32),
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TapError::Bad => write!(f, "the block was read with an error when it was recorded"),
            TapError::Class(marker) => write!(f, "the marker {marker:08X}h is not defined"),
            TapError::Long(length) => {
                write!(
                    f,
                    "the block has {length} bytes, more than {BLOCK_BYTES_MAX}"
                )
            }
            TapError::Lengths(before, after) => {
                write!(
                    f,
                    "the block has {before} bytes before it, and {after} behind it"
                )
            }
        }
    }
}

impl Marker {
    /// Parses a marker.
    ///
    /// # Errors
    /// See [`TapError`].
    pub fn parse(bytes: [u8; 4]) -> Result<Marker, TapError> {
        match u32::from_le_bytes(bytes) {
            FILEMARK => Ok(Marker::Filemark),
            GAP => Ok(Marker::Gap),
            END => Ok(Marker::End),
            marker if marker & CLASS == BAD => Err(TapError::Bad),
            marker if marker & CLASS != 0 => Err(TapError::Class(marker)),
            length if length > BLOCK_BYTES_MAX => Err(TapError::Long(length)),
            length => Ok(Marker::Block(length)),
        }
    }

    /// Checks the length behind a block.
    ///
    /// # Errors
    /// It differs from the length before it.
    pub fn check_behind(length: u32, bytes: [u8; 4]) -> Result<(), TapError> {
        let behind = u32::from_le_bytes(bytes);
        if behind == length {
            return Ok(());
        }
        Err(TapError::Lengths(length, behind))
    }

    /// Returns the marker, which also ends a block.
    #[must_use]
    pub fn emit(self) -> [u8; 4] {
        match self {
            Marker::Block(length) => length,
            Marker::Filemark => FILEMARK,
            Marker::Gap => GAP,
            Marker::End => END,
        }
        .to_le_bytes()
    }

    /// Returns the bytes between a block of this length and the marker behind it.
    #[must_use]
    pub fn padding(length: u32) -> usize {
        (length % 2) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_read_as_they_were_written() {
        for marker in [
            Marker::Block(1),
            Marker::Block(BLOCK_BYTES_MAX),
            Marker::Filemark,
            Marker::Gap,
            Marker::End,
        ] {
            assert_eq!(Marker::parse(marker.emit()), Ok(marker));
        }
        assert_eq!(Marker::Block(80).emit(), [80, 0, 0, 0]);
        assert_eq!((Marker::padding(80), Marker::padding(81)), (0, 1));
    }

    #[test]
    fn unknown_and_damaged_markers_are_refused() {
        let parse = |marker: u32| Marker::parse(marker.to_le_bytes());
        assert_eq!(parse(0x8000_0050), Err(TapError::Bad));
        assert_eq!(parse(0x7000_0050), Err(TapError::Class(0x7000_0050)));
        assert_eq!(parse(1 << 24), Err(TapError::Long(1 << 24)));
        let behind = |bytes| Marker::check_behind(80, bytes);
        assert_eq!(behind([80, 0, 0, 0]), Ok(()));
        assert_eq!(behind([81, 0, 0, 0]), Err(TapError::Lengths(80, 81)));
    }
}
