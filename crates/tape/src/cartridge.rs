//! Cartridges.

use crate::medium::{Medium, RUNS_MAX};

/// Entries of the index left at which early warning begins: enough for the filemarks and labels
/// with which a program ends its volume.
const EARLY_WARNING_RUNS: usize = 1024;

/// Place of a cartridge's bytes on the store, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte, a multiple of [`crate::GRANULE_BYTES`].
    pub offset_bytes: u64,
    /// Length: the capacity of the cartridge, bytes.
    pub length_bytes: u64,
    /// Space left at which early warning begins, bytes, at most the length.
    pub early_warning_bytes: u64,
}

/// A cartridge.
#[derive(Clone, Debug)]
pub struct Cartridge {
    /// Text on its label, 1 to 32 ASCII characters.
    pub barcode: String,
    /// Whether its write-protect tab is set.
    pub write_protected: bool,
    /// Place of its bytes.
    pub region: Region,
    /// Its contents.
    pub medium: Medium,
    /// Address of the element from which it was moved into a drive.
    pub source: Option<u16>,
    /// How often it was loaded.
    pub loads: u64,
}

impl Cartridge {
    /// Returns the bytes that can still be written at the end of data.
    #[must_use]
    pub fn left_bytes(&self) -> u64 {
        self.region.length_bytes - self.medium.used_bytes()
    }

    /// Whether the end of data is past early warning.
    #[must_use]
    pub fn is_past_early_warning(&self) -> bool {
        self.left_bytes() <= self.region.early_warning_bytes
            || self.medium.runs() >= RUNS_MAX - EARLY_WARNING_RUNS
    }
}
