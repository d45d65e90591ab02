//! Sparse memory of an LU, which can be lent to sockets.
use hakaru_runtime::memory::SparseMemory;
use hakaru_scsi_device::Returned;

/// Adapter from [`SparseMemory`] to the memory of a store.
pub struct LuMemory(pub SparseMemory);

impl hakaru_store::LuMemory for LuMemory {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn append_to(&self, offset_bytes: u64, length: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.bytes(offset_bytes, length));
    }

    fn write(&mut self, offset_bytes: u64, data: &[u8]) {
        self.0.write(offset_bytes, data);
    }

    fn discard(&mut self, offset_bytes: u64, length_bytes: u64) {
        self.0.discard(offset_bytes, length_bytes);
    }

    fn prefetch(&self, offset_bytes: u64, length: usize) {
        self.0.prefetch(offset_bytes, length);
    }

    fn take_back(&mut self, returned: Returned) {
        match returned {
            Returned::Read(lent) => self.0.take_back(lent.offset_bytes, lent.length_bytes),
            Returned::Abandoned(lent) => self.0.abandon(lent.offset_bytes, lent.length_bytes),
        }
    }
}
