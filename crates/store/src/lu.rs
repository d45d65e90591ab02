//! A logical unit: its store, and its position on the modelled drives.
use hakaru_drive::Op;
use hakaru_pool::VolumeId;
use hakaru_scsi_device::{Extent, Io, IoOp};

use crate::file::FileStore;
use crate::gate::{DriveWork, Stretch};
use crate::memory::MemoryStore;
use crate::parts::PartStore;
use crate::volumes::VolumeParts;

/// A logical unit.
#[derive(Debug)]
pub struct Lu<M> {
    /// The store of its data.
    pub store: Store<M>,
    /// Capacity, bytes.
    pub size_bytes: u64,
    /// Logical block length, bytes.
    pub block_bytes: u32,
    /// Position on the modelled drives; ignored without a model.
    pub place: Place,
    /// Permanent name of the data, independent of the LUN, so that other data does not inherit
    /// persistent state (reservations). `None` if the data ends with the process.
    pub identity: Option<String>,
    /// Accesses that unmap. An UNMAP command makes one for every GiB that it unmaps.
    pub unmaps: u64,
}

/// Position of an LU on the modelled drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// RAID group, counting from 0.
    pub group: u32,
    /// Offset of the LU in the group's usable space, bytes.
    pub offset_bytes: u64,
}

/// The store of an LU's data.
#[derive(Debug)]
pub enum Store<M> {
    /// In RAM.
    Memory(MemoryStore<M>),
    /// In a file.
    File(FileStore),
    /// In several files.
    Parts(PartStore),
    /// In several volumes of a pool.
    Volumes(VolumeParts),
    /// In a pool.
    Thin {
        /// Number of the pool.
        pool: usize,
        /// The volume.
        volume: VolumeId,
    },
}

impl<M> Lu<M> {
    fn is_thin(&self) -> bool {
        matches!(self.store, Store::Thin { .. } | Store::Volumes(_))
    }

    /// Returns the pool and the volume of a thin LU.
    pub(crate) fn volume(&self) -> Option<(usize, VolumeId)> {
        match self.store {
            Store::Thin { pool, volume } => Some((pool, volume)),
            _ => None,
        }
    }

    /// Returns the position of an unmapped range on the modelled drives.
    pub(crate) fn stretch_of(&self, range: &Extent) -> Stretch {
        // The pages of a pool lie elsewhere and are deallocated later; only the controller's time
        // for a command counts.
        let (offset_bytes, length_bytes) = if self.is_thin() {
            (0, 0)
        } else {
            (range.offset_bytes, range.length_bytes)
        };
        self.stretch(offset_bytes, length_bytes)
    }

    /// Returns the work of the modelled drives for an access, and its position.
    pub(crate) fn drive_work(&self, io: &Io) -> (DriveWork, Stretch) {
        let (op, fua, offset_bytes, length_bytes) = match &io.op {
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
            // The model holds each piece that the command writes to a pool separately.
            IoOp::WriteSame { .. } if self.is_thin() => (Op::Flush, false, 0, 0),
            // The drives write as much as for data from the initiator, which has sent one block.
            IoOp::WriteSame {
                range, unmap, fua, ..
            } => {
                let op = if *unmap { Op::Unmap } else { Op::Write };
                (op, *fua && !unmap, range.offset_bytes, range.length_bytes)
            }
            // All others cost only the controller's time for a command.
            _ => (Op::Flush, false, 0, 0),
        };
        let stretch = self.stretch(offset_bytes, length_bytes);
        let work = DriveWork {
            op,
            fua,
            received_bytes: io.received_bytes,
        };
        (work, stretch)
    }

    fn stretch(&self, offset_bytes: u64, length_bytes: u64) -> Stretch {
        Stretch {
            group: self.place.group,
            offset_bytes: self.place.offset_bytes + offset_bytes,
            length_bytes,
            unmapped: false,
        }
    }
}
