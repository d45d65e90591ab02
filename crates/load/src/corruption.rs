//! Corrupt blocks, as verification reports them.
use std::fmt;

/// Fault of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The checksum is wrong, or the block was written but lacks a stamp.
    Wrong,
    /// The block belongs to another LBA or another volume.
    Misplaced {
        /// LBA in the stamp.
        lba: u64,
        /// Whether the stamp names this volume.
        same_volume: bool,
    },
    /// The block is older than the last acknowledged write.
    Stale {
        /// Sequence in the stamp.
        sequence: u64,
    },
    /// The block has a sequence that this run never issued.
    Future {
        /// Sequence in the stamp.
        sequence: u64,
    },
    /// The start and the end of the block come from different writes.
    Torn {
        /// Sequence at the start.
        begin: u64,
        /// Sequence at the end.
        end: u64,
    },
}

/// A corrupt block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// LBA of the block.
    pub lba: u64,
    /// Sequence of the last acknowledged write, 0 if none.
    pub acknowledged: u64,
    /// Fault of the block.
    pub fault: Fault,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Corruption {
            lba,
            acknowledged,
            fault,
        } = self;
        match fault {
            Fault::Wrong => write!(f, "wrong data: block {lba} has an invalid checksum"),
            Fault::Misplaced {
                lba: other,
                same_volume: true,
            } => {
                write!(
                    f,
                    "misplaced data: block {lba} holds the data of block {other}"
                )
            }
            Fault::Misplaced {
                lba: other,
                same_volume: false,
            } => {
                write!(
                    f,
                    "misplaced data: block {lba} holds block {other} of another volume"
                )
            }
            Fault::Stale { sequence } => {
                write!(
                    f,
                    "stale data: block {lba} holds write {sequence}, but write {acknowledged} was acknowledged"
                )
            }
            Fault::Future { sequence } => {
                write!(
                    f,
                    "wrong data: block {lba} holds write {sequence}, which was never issued"
                )
            }
            Fault::Torn { begin, end } => {
                write!(
                    f,
                    "torn data: block {lba} begins with write {begin} and ends with write {end}"
                )
            }
        }
    }
}

impl std::error::Error for Corruption {}
