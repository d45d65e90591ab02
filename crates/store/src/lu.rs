//! A logical unit: where its bytes are, and where they lie on the modelled drives.
use hakaru_drive::Op;
use hakaru_pool::VolumeId;
use hakaru_scsi_device::{Extent, IoOp};

use crate::file::FileStore;
use crate::gate::{DriveWork, Stretch};
use crate::memory::MemoryStore;

/// A logical unit's bytes and their place on the modelled drives.
#[derive(Debug)]
pub struct Lu<M> {
    /// The bytes.
    pub store: Store<M>,
    /// Capacity.
    pub size_bytes: u64,
    /// Logical block length.
    pub block_bytes: u32,
    /// Place on the modelled drives; without meaning if there is no model.
    pub place: Place,
    /// Names the bytes for good, whatever number they are served under, so that what is kept for
    /// them (reservations) is not inherited by others. `None` if they end with the process.
    pub identity: Option<String>,
    /// UNMAP commands that reached the store.
    pub unmaps: u64,
}

/// Where a LU begins on the modelled drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// RAID group, counted from 0.
    pub group: u32,
    /// First byte of the group that is the LU's.
    pub offset_bytes: u64,
}

/// Where an LU's bytes are.
#[derive(Debug)]
pub enum Store<M> {
    /// In RAM.
    Memory(MemoryStore<M>),
    /// In a file.
    File(FileStore),
    /// In a pool.
    Thin {
        /// The pool.
        pool: usize,
        /// The volume.
        volume: VolumeId,
    },
}

impl<M> Lu<M> {
    fn is_thin(&self) -> bool {
        matches!(self.store, Store::Thin { .. })
    }

    /// Where a range that is unmapped lies on the modelled drives.
    pub(crate) fn stretch_of(&self, range: &Extent) -> Stretch {
        // The pages of a pool lie elsewhere and are given back later: that costs the controller a
        // command.
        let (offset_bytes, length_bytes) = if self.is_thin() {
            (0, 0)
        } else {
            (range.offset_bytes, range.length_bytes)
        };
        self.stretch(offset_bytes, length_bytes)
    }

    /// The work of the modelled drives for an access, and its place.
    pub(crate) fn drive_work(&self, op: &IoOp) -> (DriveWork, Stretch) {
        let (op, fua, offset_bytes, length_bytes) = match op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => (Op::Read, false, *offset_bytes, u64::from(*length_bytes)),
            IoOp::Write {
                offset_bytes,
                data,
                fua,
            } => (Op::Write, *fua, *offset_bytes, data.len() as u64),
            IoOp::Flush => (Op::Flush, false, 0, self.size_bytes),
            // What it writes to a pool is held piece by piece.
            IoOp::WriteSame { .. } if self.is_thin() => (Op::Flush, false, 0, 0),
            // The drives write as much as if the blocks had come over the wire.
            IoOp::WriteSame {
                range, unmap, fua, ..
            } => {
                let op = if *unmap { Op::Unmap } else { Op::Write };
                (op, *fua && !unmap, range.offset_bytes, range.length_bytes)
            }
            // Costs the controller a command.
            _ => (Op::Flush, false, 0, 0),
        };
        let stretch = self.stretch(offset_bytes, length_bytes);
        (DriveWork { op, fua }, stretch)
    }

    fn stretch(&self, offset_bytes: u64, length_bytes: u64) -> Stretch {
        Stretch {
            group: self.place.group,
            offset_bytes: self.place.offset_bytes + offset_bytes,
            length_bytes,
        }
    }
}
