//! A logical unit of the storage: where its bytes are, and where they lie on the modelled drives.
use hakaru_drive::Op;
use hakaru_iscsi_target::{Extent, IoOp};
use hakaru_pool::VolumeId;

use super::file::FileStore;
use super::gate::{Stretch, Work};
use super::memory::MemoryStore;

/// A logical unit's bytes and their place on the modelled drives.
pub struct Lu {
    /// The bytes.
    pub store: Store,
    /// RAID group; meaningless without a model.
    pub group: u32,
    /// First byte of the group that is the LU's.
    pub group_offset_bytes: u64,
    /// Capacity.
    pub size_bytes: u64,
    /// Logical block length.
    pub block_bytes: u32,
    /// UNMAP commands that came this far.
    pub unmaps: u64,
    /// Names the bytes, whatever number they are served under; `None` if they end with the process.
    pub identity: Option<String>,
}

/// Where an LU's bytes are.
pub enum Store {
    /// In RAM.
    Memory(MemoryStore),
    /// In a file.
    File(FileStore),
    /// In a pool.
    Thin {
        /// Which pool.
        pool: usize,
        /// Which volume.
        volume: VolumeId,
    },
}

impl Lu {
    /// With its capacity and block length, both in bytes, and its place on the modelled drives: RAID group and first byte.
    pub fn new(
        store: Store,
        (size_bytes, block_bytes): (u64, u32),
        (group, group_offset_bytes): (u32, u64),
        identity: Option<String>,
    ) -> Lu {
        Lu {
            store,
            group,
            group_offset_bytes,
            size_bytes,
            block_bytes,
            unmaps: 0,
            identity,
        }
    }

    /// Where a range lies on the modelled drives.
    pub fn place(&self, range: &Extent) -> Stretch {
        // The pages of a pool lie elsewhere, and are given back later: that costs the controller a command.
        let thin = matches!(self.store, Store::Thin { .. });
        Stretch {
            group: self.group,
            offset_bytes: self.group_offset_bytes + if thin { 0 } else { range.offset_bytes },
            length_bytes: if thin { 0 } else { range.length_bytes },
        }
    }

    /// What an access does to the modelled drives, and where.
    pub fn stretch(&self, op: &IoOp) -> (Work, Stretch) {
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
            // The drives write as much as if the blocks had come over the wire.
            IoOp::WriteSame { .. } if matches!(self.store, Store::Thin { .. }) => {
                // What it writes is held piece by piece.
                (Op::Flush, false, 0, 0)
            }
            IoOp::WriteSame {
                range,
                unmap: false,
                fua,
                ..
            } => (Op::Write, *fua, range.offset_bytes, range.length_bytes),
            IoOp::WriteSame { range, .. } => {
                (Op::Unmap, false, range.offset_bytes, range.length_bytes)
            }
            IoOp::Flush => (Op::Flush, false, 0, self.size_bytes),
            // Costs the controller a command.
            _ => (Op::Flush, false, 0, 0),
        };
        let stretch = Stretch {
            group: self.group,
            offset_bytes: self.group_offset_bytes + offset_bytes,
            length_bytes,
        };
        (Work { op, fua }, stretch)
    }
}
