//! Data of an LU in a world.
use hakaru_store::{ChunkedMemory, LuMemory};

/// Contents of an LU.
#[derive(Debug)]
pub(crate) enum WorldMemory {
    /// Keeps written data, for verification.
    Kept(ChunkedMemory),
    /// Reads as zeros and discards written data.
    Zeros {
        /// Size of the LU, bytes.
        size_bytes: u64,
    },
}

impl WorldMemory {
    pub(crate) fn new(size_bytes: u64, is_kept: bool) -> WorldMemory {
        if is_kept {
            WorldMemory::Kept(ChunkedMemory::new(size_bytes))
        } else {
            WorldMemory::Zeros { size_bytes }
        }
    }
}

impl LuMemory for WorldMemory {
    fn size_bytes(&self) -> u64 {
        match self {
            WorldMemory::Kept(memory) => memory.size_bytes(),
            WorldMemory::Zeros { size_bytes } => *size_bytes,
        }
    }

    fn append_to(&self, offset_bytes: u64, length: usize, out: &mut Vec<u8>) {
        match self {
            WorldMemory::Kept(memory) => memory.append_to(offset_bytes, length, out),
            WorldMemory::Zeros { .. } => out.resize(out.len() + length, 0),
        }
    }

    fn write(&mut self, offset_bytes: u64, data: &[u8]) {
        if let WorldMemory::Kept(memory) = self {
            memory.write(offset_bytes, data);
        }
    }

    fn discard(&mut self, offset_bytes: u64, length_bytes: u64) {
        if let WorldMemory::Kept(memory) = self {
            memory.discard(offset_bytes, length_bytes);
        }
    }
}
